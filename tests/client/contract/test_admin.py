"""Topics, groups and their positions, administered against each of the three servers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from roquet.client.errors import Misuse, NoRoute, NotFound, Refused
from roquet.model.group import Group
from roquet.model.route import QueueName
from roquet.model.topic import Topic
from tests.client.contract.administering import BROKER, opened, stored, topic_of
from tests.client.contract.server import Server


def test_a_topic_from_its_creation_to_its_end(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            name = await topic_of(server, admin, queues=3)
            assert name in await admin.topics.list()
            assert name in await admin.topics.list(cluster="DefaultCluster")
            (settings,) = (await admin.topics.get(name)).values()
            assert (settings.read_queue_nums, settings.write_queue_nums, settings.perm) == (3, 3, 6)
            assert len((await admin.topics.route(name)).write_queues()) == 3
            await admin.topics.update(name, queues=4, access="r")
            (settings,) = (await admin.topics.get(name)).values()
            assert (settings.read_queue_nums, settings.write_queue_nums, settings.perm) == (4, 4, 4)
            assert (await admin.topics.table(BROKER))[name] == settings
            await admin.topics.delete(name)
            with pytest.raises(NotFound):
                await admin.topics.get(name)
            with pytest.raises(NoRoute):
                await admin.topics.route(name)
            with pytest.raises(NotFound):
                await admin.topics.update(name, queues=2)

    server.run(scenario())


def test_a_topic_has_a_kind_and_attributes(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            name = server.fresh("fifo")
            await admin.topics.create(name, kind="FIFO", attributes={"reserve.time": "60"}, ordered=True)
            (settings,) = (await admin.topics.get(name)).values()
            assert settings.attributes == {"message.type": "FIFO", "reserve.time": "60"}
            assert settings.order
            await admin.topics.update(name, attributes={"reserve.time": ""})
            (settings,) = (await admin.topics.get(name)).values()
            assert settings.attributes == {"message.type": "FIFO"}
            with pytest.raises(Refused, match=r"message.type|unsupported|invalid"):
                await admin.topics.create(name, attributes={"no.such": "x"})
            with pytest.raises(Misuse, match="illegal"):
                await admin.topics.create("no blanks")

    server.run(scenario())


def test_several_topics_and_groups_at_once(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            names = [server.fresh("many") for _ in range(3)]
            await admin.topics.create_many([Topic(topic_name=name, read_queue_nums=2) for name in names])
            assert set(names) <= set(await admin.topics.list())
            groups = [server.fresh("many") for _ in range(3)]
            await admin.groups.create_many([Group(group_name=name, retry_max_times=3) for name in groups])
            assert set(groups) <= set(await admin.groups.list())
            assert (await admin.groups.table(BROKER))[groups[0]].retry_max_times == 3

    server.run(scenario())


def test_what_a_topic_holds(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            name = await topic_of(server, admin)
            before = server.now()
            for number in range(5):
                await client.send(name, b"%d" % number, queue_id=1)
            await stored(server, admin, name, 5)
            stats = await admin.topics.stats(name)
            assert stats.messages == 5
            assert [each.messages for each in stats.queues] == [0, 5]
            assert stats.queues[0].last_time is None
            last = stats.queues[1].last_time
            assert last is not None and last >= before - timedelta(seconds=5)
            assert await admin.topics.groups(name) == ()
            with pytest.raises(NoRoute, match="roquet topic create"):
                await admin.topics.stats(server.fresh("absent"))

    server.run(scenario())


def test_topics_that_belong_to_the_servers(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            system = await admin.topics.list_system()
            assert {"DefaultCluster", BROKER, "TBW102"} <= set(system)
            assert await admin.topics.list_units() == ()
            assert await admin.topics.list_units("subscribed") == ()
            assert await admin.topics.list_units("subscribed-only") == ()

    server.run(scenario())


def test_a_route_can_be_forgotten_and_registered(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            name = await topic_of(server, admin)
            other = server.fresh("copy")
            await admin.topics.register_route(other, await admin.topics.route(name))
            assert len((await admin.topics.route(other)).read_queues()) == 2
            await admin.topics.forget_route(other)
            with pytest.raises(NoRoute):
                await admin.topics.route(other)

    server.run(scenario())


def test_a_group_from_its_creation_to_its_end(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            name = server.fresh("group")
            await admin.groups.create(name, max_attempts=5)
            assert name in await admin.groups.list()
            assert "TOOLS_CONSUMER" not in await admin.groups.list()
            assert "TOOLS_CONSUMER" in await admin.groups.list(system=True)
            (settings,) = (await admin.groups.get(name)).values()
            assert settings.retry_max_times == 5
            await admin.groups.update(name, consume=False)
            (settings,) = (await admin.groups.get(name)).values()
            assert (settings.retry_max_times, settings.consume_enable) == (5, False)
            await admin.groups.put(Group(group_name=name, retry_queue_nums=2))
            (settings,) = (await admin.groups.get(name)).values()
            assert (settings.retry_max_times, settings.retry_queue_nums) == (16, 2)
            await admin.groups.delete(name)
            assert name not in await admin.groups.list()

    server.run(scenario())


def test_a_group_may_be_kept_from_a_topic(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            topic, group = await topic_of(server, admin), server.fresh("group")
            await admin.groups.create(group)
            assert await admin.groups.may_read(group, topic) == {BROKER: True}
            assert await admin.groups.set_may_read(group, topic, False) == {BROKER: False}
            assert await admin.groups.set_may_read(group, topic, True) == {BROKER: True}

    server.run(scenario())


def test_positions_are_shown_and_moved(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic, group = await topic_of(server, admin), server.fresh("group")
            await admin.groups.create(group)
            for queue_id in (0, 0, 0, 1):
                await client.send(topic, b"x", queue_id=queue_id)
            await stored(server, admin, topic, 4)
            queue = QueueName(BROKER, 0, topic)
            with pytest.raises(NotFound):
                await admin.offsets.position(group, queue)
            await admin.offsets.commit(group, queue, 1)
            assert await admin.offsets.position(group, queue) == 1
            progress = await admin.offsets.progress(group, topic)
            assert (progress.lag, progress.queues[0].consumer_offset, progress.queues[0].lag) == (3, 1, 2)
            assert progress.by_topic() == {topic: 3}
            assert (await admin.offsets.progress(group)).lag == 3
            assert await admin.groups.topics(group) == (topic,)
            assert await admin.topics.groups(topic) == (group,)
            everybody = await admin.offsets.progress_of_all(BROKER)
            assert everybody[group].lag == 3
            dump = await admin.offsets.table(BROKER)
            assert dump.committed[topic, group] == {0: 1}

            assert await admin.offsets.reset_queue(group, queue, 2) == 2
            moved = await admin.offsets.skip(group, topic)
            assert moved == {queue: 3, QueueName(BROKER, 1, topic): 1}
            assert (await admin.offsets.progress(group, topic)).lag == 0
            moved = await admin.offsets.reset(group, topic, "earliest")
            assert set(moved.values()) == {0}
            moved = await admin.offsets.reset(group, topic, server.now() + timedelta(hours=1))
            assert moved[queue] in (2, 3)  # past the last message, or at it
            with pytest.raises(Misuse, match="time zone"):
                await admin.offsets.reset(group, topic, server.now().replace(tzinfo=None))

    server.run(scenario())


def test_positions_of_two_groups_are_cloned_and_compared(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic = await topic_of(server, admin)
            first, second = server.fresh("first"), server.fresh("second")
            for group in (first, second):
                await admin.groups.create(group)
            for _ in range(4):
                await client.send(topic, b"x", queue_id=0)
            await stored(server, admin, topic, 4)
            queue = QueueName(BROKER, 0, topic)
            await admin.offsets.commit(first, queue, 3)
            await admin.offsets.clone(first, second, topic)
            assert await admin.offsets.position(second, queue) == 3
            assert await admin.offsets.corrections(topic, second) == {queue: 3}
            with pytest.raises(Misuse):
                await admin.offsets.clone(first, first, topic)

    server.run(scenario())


def test_offsets_and_times(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic, group = await topic_of(server, admin), server.fresh("group")
            await admin.groups.create(group)
            await client.send(topic, b"early", queue_id=0)
            await server.advance(timedelta(seconds=2))
            between = server.now() - timedelta(seconds=1)
            await client.send(topic, b"late", queue_id=0)
            await stored(server, admin, topic, 2)
            queue, empty = QueueName(BROKER, 0, topic), QueueName(BROKER, 1, topic)
            assert await admin.offsets.at_time(topic, between) == {queue: 1, empty: 0}
            bounds = {each.queue: each for each in await admin.offsets.bounds(topic)}
            assert (bounds[queue].min_offset, bounds[queue].max_offset) == (0, 2)
            first = bounds[queue].first_time
            assert first is not None and first < between
            assert bounds[empty].first_time is None
            await admin.offsets.commit(group, queue, 1)
            times = {each.queue: each for each in await admin.offsets.times(group, topic)}
            assert times[queue].consumed_time == first
            last = times[queue].last_time
            assert last is not None and last > between

    server.run(scenario())
