"""Heartbeats and callbacks: brokers know the members of a client, and their questions find one of them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import Misuse
from roquet.transport.link import Link
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.reply import Reply
from roquet.wire.requests.client import (
    GetConsumerList,
    GetProducerConnections,
    GetRunningInfo,
    NotifyConsumersChanged,
)
from tests.client.cluster.test_cluster import play
from tests.client.ground import BROKER, BROKERS, CLIENT, Ground, Someone


async def consumers(cluster: Cluster, group: str, address: str = BROKER) -> list[str]:
    """Return the members of a group as a broker lists them."""
    answer = await cluster.call(address, GetConsumerList(group))
    if answer.code != Code.SUCCESS:
        return []
    return list(msgspec.json.decode(answer.body)["consumerIdList"])


def test_a_consumer_is_known_while_it_is_a_member() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=2)
        async with ground.cluster() as cluster:
            await cluster.route("TBW102")
            member = Someone("billing", "TBW102")
            cluster.join(member)
            await ground.pass_time(1)
            for host in BROKERS:
                assert await consumers(cluster, "billing", f"{host}:10911") == [cluster.client_id]
            await ground.pass_time(300)
            assert await consumers(cluster, "billing") == [cluster.client_id]
            await cluster.leave(member)
            await cluster.leave(member)
            for host in BROKERS:
                assert await consumers(cluster, "billing", f"{host}:10911") == []

    play(scenario)


def test_close_says_goodbye_for_those_who_have_not() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as other:
            async with ground.cluster() as cluster:
                await cluster.route("TBW102")
                cluster.join(Someone("billing", "TBW102"))
                await cluster.beat()
                assert await consumers(other, "billing") == [cluster.client_id]
            assert await consumers(other, "billing") == []

    play(scenario)


def test_two_consumers_of_a_group_need_two_clients_and_two_producers_do_not() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            await cluster.route("TBW102")
            cluster.join(Someone("billing", "TBW102"))
            with pytest.raises(Misuse, match="already has a consumer"):
                cluster.join(Someone("billing", "TBW102"))
            producers = [Someone("shop", is_consumer=False) for _ in range(2)]
            for producer in producers:
                cluster.join(producer)
            await cluster.beat()
            await cluster.leave(producers[0])
            await cluster.ask(BROKER, GetProducerConnections("shop"))
            await cluster.leave(producers[1])
            answer = await cluster.call(BROKER, GetProducerConnections("shop"))
            assert answer.code != Code.SUCCESS

    play(scenario)


def test_a_broker_that_restarts_or_loses_the_link_hears_of_us_soon() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            await cluster.route("TBW102")
            cluster.join(Someone("billing", "TBW102"))
            await cluster.beat()
            ground.world.net.cut(CLIENT, BROKERS[0])
            await consumers(cluster, "billing")
            await ground.pass_time(0.1)
            assert await consumers(cluster, "billing") == [cluster.client_id]
            ground.world.kill(BROKERS[0])
            await ground.start_broker()
            await consumers(cluster, "billing")
            await ground.pass_time(0.1)
            assert await consumers(cluster, "billing") == [cluster.client_id]

    play(scenario)


def test_a_broker_that_comes_later_hears_of_us_with_its_route() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            cluster.join(Someone("billing", "TBW102"))
            await cluster.route("TBW102")
            await ground.start_broker(1)
            await ground.pass_time(31)
            assert await consumers(cluster, "billing", f"{BROKERS[1]}:10911") == [cluster.client_id]

    play(scenario)


def test_a_dead_broker_does_not_keep_heartbeats_from_the_others() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=2)
        async with ground.cluster() as cluster:
            await cluster.route("TBW102")
            ground.world.net.partition(CLIENT, BROKERS[1])
            cluster.join(Someone("billing", "TBW102"))
            await ground.pass_time(0.5)
            assert await consumers(cluster, "billing") == [cluster.client_id]
            await cluster.beat()  # nothing is raised
            started = ground.clock.monotonic()
            await cluster.leave(cluster._heartbeats.members[0])
            assert ground.clock.monotonic() - started < 3.5

    play(scenario)


def test_a_question_of_a_broker_goes_round_the_members() -> None:
    asked: list[str] = []

    def not_mine(request: GetRunningInfo, frame: Frame, link: Link) -> None:
        asked.append(f"not mine: {request.consumer_group}")

    async def mine(request: GetRunningInfo, frame: Frame, link: Link) -> Reply | None:
        asked.append(f"mine: {request.consumer_group}")
        if request.consumer_group != "billing":
            return None
        return Reply(body=b'{"of":"billing"}')

    def noted(request: NotifyConsumersChanged, frame: Frame, link: Link) -> Reply:
        asked.append("changed")
        return Reply()

    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster, ground.cluster() as other:
            for each in (cluster, other):
                await each.route("TBW102")
            cluster.answer(NotifyConsumersChanged, noted)
            cluster.answer(GetRunningInfo, not_mine)
            cluster.answer(GetRunningInfo, mine)
            cluster.join(Someone("billing", "TBW102"))
            cluster.join(Someone("mailing", "TBW102"))
            await cluster.beat()
            ask = GetRunningInfo("billing", cluster.client_id)
            assert (await other.ask(BROKER, ask)).body == b'{"of":"billing"}'
            assert asked[-2:] == ["not mine: billing", "mine: billing"]
            answer = await other.call(BROKER, GetRunningInfo("mailing", cluster.client_id))
            assert (answer.code, "nobody in this client" in answer.remark) == (3, True)
            other.join(Someone("billing", "TBW102"))
            await other.beat()
            await ground.pass_time(1)
            assert "changed" in asked
            cluster.unanswer(GetRunningInfo, mine)
            cluster.unanswer(GetRunningInfo, mine)
            assert (await other.call(BROKER, ask)).code == Code.REQUEST_CODE_NOT_SUPPORTED
            cluster.unanswer(GetRunningInfo, not_mine)
            assert (await other.call(BROKER, ask)).code == Code.REQUEST_CODE_NOT_SUPPORTED

    play(scenario)


def test_a_handler_that_fails_is_an_answer_too() -> None:
    def fails(request: GetRunningInfo, frame: Frame, link: Link) -> Reply:
        raise RuntimeError("a mistake")

    async def fails_later(request: GetRunningInfo, frame: Frame, link: Link) -> Reply:
        raise RuntimeError("a late mistake")

    async def hangs(request: GetRunningInfo, frame: Frame, link: Link) -> Reply:
        await asyncio.Event().wait()
        return Reply()

    async def scenario(ground: Ground) -> None:
        await ground.start()
        before = asyncio.all_tasks()
        async with ground.cluster() as other:
            async with ground.cluster() as cluster:
                await cluster.route("TBW102")
                cluster.join(Someone("billing", "TBW102"))
                await cluster.beat()
                for handler, text in ((fails, "a mistake"), (fails_later, "a late mistake")):
                    cluster.answer(GetRunningInfo, handler)
                    answer = await other.call(BROKER, GetRunningInfo("billing", cluster.client_id))
                    assert (answer.code, text in answer.remark) == (1, True)
                    cluster.unanswer(GetRunningInfo, handler)
                cluster.answer(GetRunningInfo, hangs)
                waiting = asyncio.ensure_future(
                    other.call(BROKER, GetRunningInfo("billing", cluster.client_id), timeout_s=60)
                )
                await ground.pass_time(1)
            assert (await waiting).code != Code.SUCCESS  # it was closed in the middle
        assert asyncio.all_tasks() == before

    play(scenario)
