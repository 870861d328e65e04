"""Messages, clients, brokers and name servers, administered against each of the three servers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from roquet.client import admin as kinds
from roquet.client.errors import Misuse, NotFound, Refused
from roquet.model.route import QueueName
from tests.client.contract.administering import BROKER, Live, LiveProducer, living, opened, stored, topic_of
from tests.client.contract.server import Server


def test_messages_are_found(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic = await topic_of(server, admin)
            before = server.now() - timedelta(seconds=1)
            unique = f"7F000001{server.fresh('x').encode().hex().upper():0<24.24}"
            sent = await client.send(
                topic, b"one", keys="a-1 b-2", tag="t", queue_id=1, properties={"UNIQ_KEY": unique}
            )
            await client.send(topic, b"two", keys="a-1", queue_id=0)
            found = await admin.messages.get(sent.msg_id)
            assert (found.body, found.tag, found.broker, found.keys) == (b"one", "t", BROKER, ["a-1", "b-2"])

            async def is_filed() -> bool:
                return len(await admin.messages.by_key(topic, "a-1")) == 2

            await server.eventually(is_filed)
            assert (await admin.messages.get(unique, topic)).body == b"one"
            assert [each.body for each in await admin.messages.by_unique_id(topic, unique)] == [b"one"]
            assert [each.body for each in await admin.messages.by_key(topic, "b-2")] == [b"one"]
            assert await admin.messages.by_key(topic, "c-3") == []
            later = server.now() + timedelta(seconds=1)
            assert [each.body for each in await admin.messages.by_time(topic, before, later)] == [
                b"one",
                b"two",
            ]
            assert await admin.messages.by_time(topic, later, later + timedelta(hours=1)) == []
            queue = QueueName(BROKER, 1, topic)
            assert [each.body for each in await admin.messages.by_offset(queue, 0)] == [b"one"]
            assert await admin.messages.by_offset(queue, 1) == []
            walk = await admin.messages.entries(queue, 0)
            assert (walk.max_queue_index, walk.queue_data[0].physic_offset) == (1, found.log_offset)
            with pytest.raises(NotFound):
                await admin.messages.get(f"F{unique[1:]}", topic)
            with pytest.raises(Misuse, match="topic"):
                await admin.messages.get("nonsense")

    server.run(scenario())


def test_a_message_is_sent_again_with_all_that_belongs_to_it(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic, other = await topic_of(server, admin), await topic_of(server, admin, queues=1)
            sent = await client.send(
                topic, b"again", tag="t", keys="k", properties={"color": "red", "DELAY": "1"}, queue_id=0
            )

            async def came() -> bool:
                return len(await admin.messages.by_offset(QueueName(BROKER, 0, topic), 0)) == 1

            await server.advance(timedelta(seconds=2))
            await server.eventually(came)
            (delivered,) = await admin.messages.by_offset(QueueName(BROKER, 0, topic), 0)
            receipt = await admin.messages.resend(delivered, other)
            assert (receipt.topic, receipt.broker, receipt.queue_id) == (other, BROKER, 0)
            copy = await admin.messages.get(receipt.offset_id)
            assert (copy.topic, copy.body, copy.tag, copy.keys) == (other, b"again", "t", ["k"])
            assert copy.properties["color"] == "red"
            assert copy.properties["ORIGIN_MESSAGE_ID"] == delivered.offset_id
            assert "DELAY" not in copy.properties
            assert copy.offset_id != sent.msg_id

    server.run(scenario())


def test_live_clients(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic, group, maker = await topic_of(server, admin), server.fresh("group"), server.fresh("maker")
            member = Live(group, topic)
            with pytest.raises(NotFound):
                await admin.clients.consumers(group)
            async with living(server, member, LiveProducer(maker, topic)) as client_id:
                found = await admin.clients.consumers(group)
                assert [each.client_id for each in found.connections] == [client_id]
                assert found.subscriptions[topic].sub_string == "*"
                assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
                assert [each.client_id for each in await admin.clients.producers(maker)] == [client_id]
                everybody = await admin.clients.all_producers(BROKER)
                assert client_id in {each.client_id for each in everybody if each.group == maker}
                info = await admin.clients.running(group, client_id)
                assert info.queues[QueueName(BROKER, 0, topic)].commit_offset == 7
                live = await admin.offsets.live(group, topic)
                assert live == {client_id: {QueueName(BROKER, 0, topic): 7}}
                subscribed = await admin.groups.subscription(group, topic)
                assert subscribed[BROKER].sub_string == "*"
                assert await admin.clients.conflicts(group) == {}
                sent = await client.send(topic, b"hand me over")
                message = await admin.messages.get(sent.msg_id)
                result = await admin.messages.consume_directly(message, group, client_id)
                assert result.consume_result == "CR_LATER"
                assert b"hand me over" in member.handed[0]
            with pytest.raises(NotFound):
                await admin.clients.running(group, client_id)
            with pytest.raises(NotFound):
                await admin.clients.producers(maker)

    server.run(scenario())


def test_members_that_do_not_agree(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            topic, group = await topic_of(server, admin), server.fresh("group")
            async with (
                living(server, Live(group, topic, "a")) as first,
                living(server, Live(group, topic, "b")) as second,
            ):
                views = (await admin.clients.conflicts(group))[topic]
                assert sorted((each.expression, each.client_ids) for each in views) == [
                    ("a", (first,)),
                    ("b", (second,)),
                ]

    server.run(scenario())


def test_the_cluster_and_its_brokers(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            (place,) = await admin.cluster.list()
            assert (place.cluster, place.name, place.is_master) == ("DefaultCluster", BROKER, True)
            assert await admin.cluster.members("DefaultCluster", BROKER) == {0: place.address}
            topic = await topic_of(server, admin)
            await client.send(topic, b"x" * 100)
            runtime = await admin.cluster.runtime(BROKER)
            assert runtime.version.startswith("V5_")
            assert runtime.log_max_offset > runtime.log_min_offset >= 0
            assert runtime.booted is not None and runtime.booted <= server.now() + timedelta(minutes=1)
            assert runtime.table["brokerActive"] == "true"
            assert (await admin.cluster.runtime(place.address)).version == runtime.version
            assert (await admin.cluster.replication(BROKER)).master
            with pytest.raises(NotFound, match=BROKER):
                await admin.cluster.runtime("broker-z")
            with pytest.raises(NotFound, match="DefaultCluster"):
                await admin.cluster.list("NoSuchCluster")

    server.run(scenario())


def test_settings_and_clean_up(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            assert (await admin.cluster.settings(BROKER))["brokerName"] == BROKER
            await admin.cluster.update_settings({"fileReservedTime": "47"}, broker=BROKER)
            assert (await admin.cluster.settings(BROKER))["fileReservedTime"] == "47"
            await admin.cluster.update_settings({"fileReservedTime": "72"})
            with pytest.raises(Refused):
                await admin.cluster.update_settings({"brokerConfigPath": "elsewhere"})
            await admin.cluster.clean_queues()
            await admin.cluster.clean_topics()
            await admin.cluster.delete_expired_log()

    server.run(scenario())


def test_counters(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic = await topic_of(server, admin)
            await client.send(topic, b"x")
            lines = await admin.cluster.stats(BROKER, "TOPIC_PUT_NUMS", topic)
            assert lines.stats_minute.sum >= 0
            with pytest.raises(Refused):
                await admin.cluster.stats(BROKER, "TOPIC_PUT_NUMS", server.fresh("absent"))

    server.run(scenario())


def test_the_name_servers(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            space = server.fresh("space")
            assert list(admin.names.addresses) == [server.namesrv]
            with pytest.raises(NotFound):
                await admin.names.get(space, "k")
            await admin.names.put(space, "k", "v")
            await admin.names.put(space, "l", "w")
            assert await admin.names.get(space, "k") == "v"
            assert await admin.names.values(space) == {"k": "v", "l": "w"}
            await admin.names.delete(space, "k")
            with pytest.raises(NotFound):
                await admin.names.get(space, "k")
            settings = await admin.names.settings()
            assert "listenPort" in settings[server.namesrv]
            await admin.names.update_settings({"waitSecondsForService": "45"})
            assert (await admin.names.settings())[server.namesrv]["waitSecondsForService"] == "45"

    server.run(scenario())


def test_producers_are_sent_away_and_come_back(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, _):
            topic = await topic_of(server, admin)
            try:
                (wiped,) = (await admin.names.wipe_write(BROKER)).values()
                assert wiped > 0
                assert (await admin.topics.route(topic)).write_queues() == ()
            finally:
                (added,) = (await admin.names.add_write(BROKER)).values()
            assert added == wiped
            assert len((await admin.topics.route(topic)).write_queues()) == 2

    server.run(scenario())


def test_what_waits_for_its_time(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic = await topic_of(server, admin)
            due_ms = int((server.now() + timedelta(hours=1)).timestamp() * 1000)
            properties = {"TIMER_DELIVER_MS": str(due_ms), "UNIQ_KEY": server.fresh("unique")}
            sent = await client.send(topic, b"in an hour", properties=properties)
            await client.send(topic, b"by level", properties={"DELAY": "18"})
            by_body: dict[bytes, kinds.Pending] = {}

            async def both_wait() -> bool:
                by_body.update({each.message.body: each async for each in admin.timers.pending(topic)})
                return set(by_body) >= {b"in an hour", b"by level"}

            await server.eventually(both_wait)
            assert len(by_body) == 2
            timed = by_body[b"in an hour"]
            assert timed.due is not None and abs(timed.due.timestamp() * 1000 - due_ms) <= 1000
            assert (timed.level, by_body[b"by level"].level) == (0, 18)

            async def is_counted() -> bool:
                return (await admin.timers.counts(BROKER)).get(topic) == 1

            await server.eventually(is_counted)
            assert (await admin.timers.check(BROKER)).read_ms >= 0
            assert isinstance(await admin.timers.level_offsets(BROKER), dict)
            assert sent.recall_handle is not None
            assert await admin.timers.recall(topic, sent.recall_handle) == properties["UNIQ_KEY"]

            async def is_recalled() -> bool:
                return [each.message.body async for each in admin.timers.pending(topic)] == [b"by level"]

            await server.eventually(is_recalled)
            with pytest.raises(Refused):
                await admin.timers.recall(topic, "nonsense")

    server.run(scenario())


def test_transactions_that_were_given_up(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            await admin.transactions.given_up()
            sent = await client.send(await topic_of(server, admin), b"no half")
            with pytest.raises(Misuse, match="given_up"):
                await admin.transactions.resume(await admin.messages.get(sent.msg_id))

    server.run(scenario())


def test_dead_letters_are_counted_seen_and_replayed_once(server: Server) -> None:
    async def scenario() -> None:
        async with opened(server) as (admin, client):
            topic, group = await topic_of(server, admin), server.fresh("group")
            await admin.groups.create(group)
            assert (await admin.dead_letters.count(group)).letters == 0
            dead = f"%DLQ%{group}"
            await admin.topics.create(dead, queues=1)
            for number in range(3):
                properties = {"RETRY_TOPIC": topic, "color": "red", "ORIGIN_MESSAGE_ID": f"ID{number}"}
                await client.send(dead, b"%d" % number, keys=f"k{number}", properties=properties)
            await stored(server, admin, dead, 3)
            assert kinds.DeadGroup(group, 3, 3) in await admin.dead_letters.groups()
            peeked = await admin.dead_letters.peek(group, max=2)
            assert [each.body for each in peeked] == [b"1", b"2"]
            peeked = await admin.dead_letters.peek(group, max=2, newest=False)
            assert [each.body for each in peeked] == [b"0", b"1"]
            first = [each async for each in admin.dead_letters.replay(group, max=1)]
            assert [each.letter.body for each in first] == [b"0"]
            assert await admin.dead_letters.count(group) == kinds.DeadGroup(group, 3, 2)
            rest = [each async for each in admin.dead_letters.replay(group)]
            assert [each.receipt.topic for each in rest] == [topic, topic]
            assert [each async for each in admin.dead_letters.replay(group)] == []
            copy = await admin.messages.get(first[0].receipt.offset_id)
            assert (copy.topic, copy.body, copy.keys, copy.attempt) == (topic, b"0", ["k0"], 1)
            assert copy.properties["DLQ_ORIGIN_TOPIC"] == topic
            assert copy.properties["DLQ_ORIGIN_MESSAGE_ID"] == copy.properties["ORIGIN_MESSAGE_ID"] == "ID0"
            assert copy.properties["color"] == "red"
            assert len([each async for each in admin.dead_letters.replay(group, again=True)]) == 3
            await stored(server, admin, topic, 6)

    server.run(scenario())
