"""The client when servers die, move or fall silent: it goes on by itself and says what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.cluster.links import BACKOFF_SECONDS_MAX
from roquet.client.errors import NamesUnreachable, NoRoute, TimedOut, Unreachable
from roquet.ports import Ports
from roquet.transport.link import Call
from roquet.transport.server import Server
from roquet.wire.reply import Reply
from roquet.wire.requests.names import DeleteRoute, GetValue
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound
from tests.client.cluster.test_cluster import FAR, play, send
from tests.client.ground import BROKER, BROKERS, CLIENT, NAMES, Ground, Someone

ASK = GetMaxOffset("orders", 0)


async def until(ground: Ground, work: Any, seconds: float = 60) -> None:
    """Do the work again and again until it succeeds."""
    deadline = ground.clock.monotonic() + seconds
    while True:
        try:
            await work()
            return
        except (Unreachable, TimedOut, NoRoute):
            if ground.clock.monotonic() > deadline:
                raise
            await ground.pass_time(0.1)


async def with_topic(ground: Ground, cluster: Cluster) -> None:
    await cluster.ask(BROKER, send("orders"), b"first")
    await ground.pass_time(1)
    await cluster.route("orders")


def test_a_name_server_restarts() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster(f"{NAMES[0]}:9876") as cluster:
            await with_topic(ground, cluster)
            ground.world.kill(NAMES[0])
            await ground.start_names(NAMES[0])  # it knows nobody yet
            view = await cluster.route("orders", fresh=True)
            assert view.master("broker-a") == BROKER
            with pytest.raises(NoRoute, match="no broker has registered"):
                await cluster.route("bills")
            await ground.pass_time(61)
            assert (await cluster.route("TBW102")).master("broker-a") == BROKER
            await cluster.ask(BROKER, ASK)

    play(scenario)


def test_one_name_server_dies_and_the_other_is_asked() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            for host in NAMES:
                ground.world.kill(host)
                assert (await cluster.route("TBW102", fresh=True)).master("broker-a") == BROKER
                await ground.start_names(host)
                await ground.pass_time(61)

    play(scenario)


def test_a_name_server_that_swallows_packets_leaves_time_for_the_other() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            preferred = cluster._names.preferred
            ground.world.net.partition(CLIENT, preferred.partition(":")[0])
            started = ground.clock.monotonic()
            await cluster.route("TBW102", fresh=True)
            assert ground.clock.monotonic() - started < 3
            assert cluster._names.preferred != preferred
            started = ground.clock.monotonic()
            await cluster.route("TBW102", fresh=True)
            assert ground.clock.monotonic() - started < 0.5

    play(scenario)


def test_all_name_servers_down_then_back() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            cluster.join(Someone("g", "orders"))
            await with_topic(ground, cluster)
            for host in NAMES:
                ground.world.kill(host)
            await ground.pass_time(600)
            assert (await cluster.route("orders")).master("broker-a") == BROKER
            assert (await cluster.route("orders", fresh=True)).master("broker-a") == BROKER
            assert (await cluster.publish_route("orders")).write_queues()
            await cluster.ask(BROKER, ASK)
            with pytest.raises(NamesUnreachable, match="no name server answers") as caught:
                await cluster.route("bills")
            assert caught.value.retriable
            with pytest.raises(NamesUnreachable):
                await cluster.ask_names(GetValue("space", "key"))
            for host in NAMES:
                await ground.start_names(host)
            await ground.pass_time(61)
            assert (await cluster.route("TBW102")).master("broker-a") == BROKER

    play(scenario)


def test_a_deleted_topic_is_forgotten_after_a_while() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            await with_topic(ground, cluster)
            ground.world.kill(BROKERS[0])
            await cluster.ask_names_all(DeleteRoute("orders"))
            assert (await cluster.route("orders", fresh=True)).master("broker-a") == BROKER
            await ground.pass_time(125)
            with pytest.raises(NoRoute):
                await cluster.route("orders", fresh=True)

    play(scenario, admin_from_anywhere=True)


def test_a_broker_restarts_at_another_port() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            member = Someone("g", "orders")
            cluster.join(member)
            await with_topic(ground, cluster)
            ground.world.kill(BROKERS[0])
            member.changes.clear()
            await ground.start_broker(0, port=20911)

            async def ask() -> None:
                view = await cluster.route("orders")
                await cluster.ask(view.master("broker-a"), ASK)

            await until(ground, ask)
            assert (await cluster.route("orders")).master("broker-a") == f"{BROKERS[0]}:20911"
            assert member.changes == ["orders"]

    play(scenario)


def test_a_second_broker_changes_the_route() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            members = [Someone("g", "TBW102"), Someone("h", "other")]
            for member in members:
                cluster.join(member)
            await cluster.route("TBW102")
            await ground.start_broker(1)
            await ground.pass_time(31)
            view = await cluster.route("TBW102")
            assert {queue.broker_name for queue in view.write_queues()} == {"broker-a", "broker-b"}
            assert [member.changes for member in members] == [["TBW102", "TBW102"], []]

    play(scenario)


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_broker_dies_and_comes_back(power_cut: bool) -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            await with_topic(ground, cluster)
            waiting = asyncio.ensure_future(cluster.call(BROKER, ASK))
            if power_cut:
                ground.world.power_cut(BROKERS[0])
            else:
                ground.world.kill(BROKERS[0])
            with pytest.raises((Unreachable, TimedOut)):
                await waiting
            with pytest.raises((Unreachable, TimedOut)):
                await cluster.call(BROKER, ASK)
            if power_cut:
                ground.world.power_on(BROKERS[0])
            await ground.start_broker()
            await ground.pass_time(BACKOFF_SECONDS_MAX)
            await cluster.ask(BROKER, ASK)
            assert not cluster.is_ailing(BROKER)

    play(scenario)


def test_a_cut_link_is_opened_again() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            await with_topic(ground, cluster)
            for _ in range(3):
                waiting = asyncio.ensure_future(cluster.call(BROKER, ASK))
                await ground.pass_time(0)
                ground.world.net.cut(CLIENT, BROKERS[0])
                with pytest.raises(Unreachable, match=f"lost {BROKER}"):
                    await waiting
                await cluster.ask(BROKER, ASK)

    play(scenario)


def test_a_name_server_that_drops_an_idle_link_is_asked_again() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster(f"{NAMES[0]}:9876") as cluster:
            await ground.pass_time(10)
            asking = asyncio.ensure_future(cluster.route("TBW102"))
            await ground.pass_time(0)
            ground.world.net.cut(CLIENT, NAMES[0])
            assert (await asking).masters() == {BROKER}

    play(scenario)


def test_a_link_that_swallows_everything_is_given_up() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            await with_topic(ground, cluster)
            ground.world.net.partition(CLIENT, BROKERS[0])
            for _ in range(6):  # none of them is long enough to tell on its own
                with pytest.raises((TimedOut, Unreachable)):
                    await cluster.call(BROKER, ASK, timeout_s=0.3)
            assert cluster._links.ready(BROKER) is None
            ground.world.net.heal_all()
            await until(ground, lambda: cluster.ask(BROKER, ASK), seconds=6)

    play(scenario)


def test_a_slow_answer_does_not_cost_the_connection() -> None:
    kept: list[Call] = []

    def serve(call: Call) -> None:
        if call.frame.ext["queueId"] == "1":
            kept.append(call)
        else:
            call.answer(Reply(header=OffsetFound(7)))

    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        server = await serving(ground.world.ports(FAR), serve)
        async with ground.cluster() as cluster:
            slow = asyncio.ensure_future(cluster.call(f"{FAR}:9876", GetMaxOffset("orders", 1), timeout_s=2))
            await ground.pass_time(1)
            await cluster.ask(f"{FAR}:9876", ASK)
            with pytest.raises(TimedOut):
                await slow
            link = kept[0].link
            await cluster.ask(f"{FAR}:9876", ASK)
            assert list(server.links) == [link]
        await server.close()

    play(scenario)


async def serving(ports: Ports, serve: Any) -> Server:
    server = Server(ports.net, ports.clock, serve)
    await server.start([(FAR, 9876)])
    return server


def test_an_address_that_fails_is_left_alone_for_a_while() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        async with ground.cluster() as cluster:
            knocks = 0
            connect = cluster._links._net.connect

            class Counted:
                async def connect(self, *args: Any) -> Any:
                    nonlocal knocks
                    knocks += 1
                    return await connect(*args)

            cluster._links._net = Counted()  # type: ignore[assignment]
            deadline = ground.clock.monotonic() + 60
            while ground.clock.monotonic() < deadline:
                with pytest.raises(Unreachable, match=BROKER):
                    await cluster.call(BROKER, ASK)
                await ground.pass_time(0.01)
            assert cluster.is_ailing(BROKER)
            assert 60 / BACKOFF_SECONDS_MAX - 5 < knocks < 2 * 60 / BACKOFF_SECONDS_MAX + 10

    play(scenario)


def test_a_peer_that_closes_at_once_is_left_alone_too() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        ports = ground.world.ports(FAR)
        accepted: list[asyncio.Protocol] = []

        class Closes(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.append(self)
                transport.close()

        listener = await ports.net.listen(Closes, FAR, 9876)
        async with ground.cluster() as cluster:
            for _ in range(100):
                with pytest.raises(Unreachable):
                    await cluster.call(f"{FAR}:9876", ASK)
                await ground.pass_time(0.001)
            assert len(accepted) < 10
        listener.close()

    play(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_under_cuts_every_call_ends_and_the_last_ones_succeed(seed: int) -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=2)
        rng = ground.world.rng
        async with ground.cluster() as cluster:
            await with_topic(ground, cluster)
            done = {"ok": 0, "failed": 0}

            async def work(number: int) -> None:
                for _ in range(100):
                    try:
                        view = await cluster.route("TBW102", fresh=rng.random() < 0.2)
                        await cluster.ask(
                            view.master(f"broker-{'ab'[number % 2]}"), GetMaxOffset("TBW102", 0)
                        )
                        done["ok"] += 1
                    except (Unreachable, TimedOut):
                        done["failed"] += 1
                    await ground.pass_time(rng.random())

            async def disturb() -> None:
                while True:
                    await ground.pass_time(rng.random() * 2)
                    host = rng.choice((*NAMES, *BROKERS))
                    what = rng.choice((ground.world.net.cut, ground.world.net.partition))
                    what(CLIENT, host)
                    await ground.pass_time(rng.random() * 3)
                    ground.world.net.heal_all()

            disturbing = asyncio.ensure_future(disturb())
            await asyncio.gather(*[work(number) for number in range(8)])
            disturbing.cancel()
            await asyncio.gather(disturbing, return_exceptions=True)
            ground.world.net.heal_all()
            assert done["ok"] + done["failed"] == 800
            assert done["failed"] < done["ok"]
            await ground.pass_time(10)
            await work(0)
            assert await cluster.ask(BROKER, ASK)

    play(scenario, seed)
