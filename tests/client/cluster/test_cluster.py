"""The client's foundation in the simulation: opening, routes, calls and closing, with real servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import (
    Closed,
    Misuse,
    NamesUnreachable,
    NoRoute,
    NotFound,
    RoquetError,
    TimedOut,
    Unreachable,
)
from roquet.model.route import QueueName
from roquet.transport.link import Call
from roquet.transport.server import Server
from roquet.wire.codes import Code
from roquet.wire.header import Frame
from roquet.wire.reply import Reply
from roquet.wire.requests.client import GetConsumerList
from roquet.wire.requests.names import GetValue, PutValue, WipeWrite
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound
from roquet.wire.requests.pull import Pull
from roquet.wire.requests.send import SendV2, Sent
from tests.client.ground import BROKER, BROKERS, CLIENT, NAMES, NAMESRV, Ground, Someone

FAR = "127.0.0.9"


def send(topic: str, queue_id: int = 0) -> SendV2:
    return SendV2("g", topic, "TBW102", 4, queue_id, 0, 0, 0, "", 0, False, None, False)


def play(scenario: Any, seed: int = 1, **broker: Any) -> None:
    Ground(seed, **broker).play(scenario)


def far(ground: Ground, serve: Any) -> Server:
    """Return a server of the test's own, to be started at FAR:9876."""
    ports = ground.world.ports(FAR)
    return Server(ports.net, ports.clock, serve)


def test_a_topic_that_exists_has_a_route() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            await cluster.ask(BROKER, send("orders"), b"first")
            await ground.pass_time(1)
            view = await cluster.route("orders")
            assert view.write_queues() == tuple(
                QueueName("broker-a", number, "orders") for number in range(4)
            )
            assert view.master("broker-a") == BROKER
            answer = await cluster.ask(BROKER, GetMaxOffset("orders", 0))
            assert OffsetFound.decode(answer.ext).offset == 1

    play(scenario)


def test_who_we_are() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        one, other = ground.cluster(unit="u1"), ground.cluster(instance="mine")
        async with one, other:
            ip, instance, unit = one.client_id.split("@")
            assert (ip, unit) == (CLIENT, "u1")
            assert "#" in instance
            assert other.client_id == f"{CLIENT}@mine"
            assert one.ids.next(1) != other.ids.next(1)
            assert one.ids.next(1).startswith("7F000004")

    play(scenario)


def test_an_unknown_topic_has_the_promise_of_a_route_until_it_exists() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            with pytest.raises(NoRoute, match="a first message will create it"):
                await cluster.route("orders")
            view = await cluster.publish_route("orders")
            assert [queue.queue_id for queue in view.write_queues()] == [0, 1, 2, 3]
            assert await cluster.publish_route("orders") is view
            await cluster.ask(BROKER, send("orders"), b"first")
            await ground.pass_time(31)
            assert await cluster.publish_route("orders") is await cluster.route("orders")

    play(scenario)


def test_why_there_is_no_route() -> None:
    async def scenario(ground: Ground) -> None:
        for host in NAMES:
            await ground.start_names(host)
        async with ground.cluster() as cluster:
            for ask in (cluster.route, cluster.publish_route):
                with pytest.raises(NoRoute, match="no broker has registered there; start a broker"):
                    await ask("orders")
            await ground.start_broker()
            for ask in (cluster.route, cluster.publish_route):
                with pytest.raises(NoRoute) as caught:
                    await ask("orders")
                assert str(caught.value) == (
                    "no route for topic orders: asked 127.0.0.2:9876, 127.0.0.12:9876; the topic does not "
                    "exist and auto-creation is off; create it with `roquet topic create orders`"
                )

    play(scenario, auto_create_topic=False)


def test_a_topic_that_nobody_may_write_to_says_so() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with ground.cluster(f"{NAMES[0]}:9876") as cluster:
            await cluster.ask(BROKER, send("orders"), b"first")
            await ground.pass_time(1)
            assert (await cluster.publish_route("orders")).write_queues()
            await cluster.ask_names_all(WipeWrite("broker-a"))
            await cluster.route("orders", fresh=True)
            with pytest.raises(NoRoute, match="known at broker-a, but no queue takes messages"):
                await cluster.publish_route("orders")

    play(scenario, admin_from_anywhere=True)


def test_a_refusal_says_who_refused_what() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            with pytest.raises(NotFound, match="refused GET_KV_CONFIG") as caught:
                await cluster.ask_names(GetValue("space", "nothing"))
            assert caught.value.code == Code.QUERY_NOT_FOUND
            with pytest.raises(RoquetError, match=f"{BROKER} refused GET_CONSUMER_LIST_BY_GROUP"):
                await cluster.ask(BROKER, GetConsumerList("nobody"))
            assert (await cluster.call(BROKER, GetConsumerList("nobody"))).code != Code.SUCCESS

    play(scenario)


def test_a_change_reaches_every_name_server() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        async with ground.cluster() as cluster:
            answers = await cluster.ask_names_all(PutValue("space", "key", "value"))
            assert sorted(answers) == sorted(cluster.name_servers)
            ground.world.kill(NAMES[1])
            with pytest.raises(Unreachable, match=r"127.0.0.12:9876"):
                await cluster.ask_names_all(PutValue("space", "key", "other"))
            answer = await cluster.ask_names(GetValue("space", "key"))
            assert answer.ext["value"] == "other"

    play(scenario)


def test_all_name_servers_down_at_the_start() -> None:
    async def scenario(ground: Ground) -> None:
        started = ground.clock.monotonic()
        cluster = ground.cluster()
        with pytest.raises(NamesUnreachable, match=r"127.0.0.2:9876.*127.0.0.12:9876") as caught:
            await cluster.open()
        assert "roquet up" in str(caught.value)
        for host in NAMES:
            ground.world.net.isolate(host)
        await ground.pass_time(5)
        started = ground.clock.monotonic()
        with pytest.raises(NamesUnreachable, match="within"):
            await cluster.open()
        assert ground.clock.monotonic() - started < 3.1
        ground.world.net.heal_all()
        await ground.start(names=1, brokers=0)
        await ground.pass_time(5)
        async with cluster:  # a client that could not be opened can be opened later
            assert cluster.client_id
        await cluster.close()

    play(scenario)


def test_it_must_be_open_and_is_used_where_it_was_opened() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        cluster = ground.cluster()
        for use in (cluster.route("t"), cluster.call(BROKER, GetMaxOffset("t", 0)), cluster.beat()):
            with pytest.raises(Closed):
                await use
        await cluster.open()
        await cluster.open()
        await cluster.close()
        cluster.check()
        await cluster.close()
        with pytest.raises(Closed):
            cluster.check()
        async with cluster:  # and again
            await cluster.ask(BROKER, send("orders"), b"x")

    play(scenario)


def test_another_event_loop_is_told_so() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        async with ground.cluster() as cluster:
            cluster._loop = asyncio.new_event_loop()
            cluster._loop.close()
            with pytest.raises(Misuse, match="another event loop"):
                cluster.check()
            cluster._loop = asyncio.get_running_loop()

    play(scenario)


def test_what_is_known_only_once_it_is_open() -> None:
    cluster = Cluster(NAMESRV)
    for use in (lambda: cluster.client_id, lambda: cluster.ids, cluster.check):
        with pytest.raises(Closed):
            use()
    work = asyncio.Event().wait()
    with pytest.raises(Closed, match="reading cannot run"):
        cluster.spawn(work, "reading")
    with pytest.raises(Misuse, match="timeout=0 leaves no time"):
        Cluster(NAMESRV, timeout=0)


def test_a_close_that_is_broken_off_has_closed_all_the_same() -> None:
    class Deaf(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()

    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        listener = await ground.world.ports(FAR).net.listen(Deaf, FAR, 9876)
        before = asyncio.all_tasks()
        cluster = ground.cluster()
        await cluster.open()
        call = asyncio.ensure_future(cluster.call(f"{FAR}:9876", GetMaxOffset("t", 0), bytes(4_000_000)))
        await ground.pass_time(0.1)
        closing = asyncio.ensure_future(cluster.close())
        await ground.pass_time(0.1)
        assert not closing.done()  # it waits for a peer that does not read
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(Closed):
            await call
        await ground.pass_time(0)
        assert asyncio.all_tasks() == before
        listener.close()

    play(scenario)


def test_no_name_server_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROQUET_NAMESRV", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Misuse, match="ROQUET_NAMESRV"):
        Cluster()
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1;127.0.0.1:2")
    assert Cluster().name_servers == ("127.0.0.1:1", "127.0.0.1:2")
    monkeypatch.setenv("ROQUET_NAMESRV", "127.0.0.1:3")
    assert Cluster().name_servers == ("127.0.0.1:3",)


def test_nothing_is_left_behind_by_close() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        before = asyncio.all_tasks()
        cluster = ground.cluster()
        await cluster.open()
        await cluster.publish_route("orders")
        long_poll = Pull("g", "TBW102", 0, 0, 32, 0x6, 0, 15_000, 0, "*", "TAG")
        calls = [asyncio.ensure_future(cluster.call(BROKER, long_poll, timeout_s=30)) for _ in range(500)]
        ground.world.net.isolate(BROKERS[1])
        opening = asyncio.ensure_future(cluster.call(f"{BROKERS[1]}:10911", GetMaxOffset("t", 0)))
        owned = cluster.spawn(asyncio.Event().wait(), "waits for ever")
        await ground.pass_time(0.01)
        await cluster.close()
        for call in (*calls, opening):
            with pytest.raises(Closed):
                await call
        assert owned.cancelled()
        assert asyncio.all_tasks() == before
        assert cluster._links.addresses() == []

    play(scenario)


def test_a_call_that_is_given_up_leaves_nothing() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        async with ground.cluster() as cluster:
            works: list[Any] = [
                lambda: cluster.call(BROKER, GetMaxOffset("t", 0)),
                lambda: cluster.route("orders", fresh=True),
                lambda: cluster.publish_route("other"),
                lambda: cluster.ask_names(GetValue("space", "key")),
                lambda: cluster.beat(),
            ]
            cluster.join(Someone("g", "TBW102"))
            await cluster.route("TBW102")
            await ground.pass_time(1)
            before = asyncio.all_tasks()
            for work in works:
                task = asyncio.ensure_future(work())
                await ground.pass_time(0.0001)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await ground.pass_time(5)
            assert asyncio.all_tasks() == before
            await cluster.ask(BROKER, send("orders"), b"x")

    play(scenario)


def test_an_answer_that_does_not_come_is_a_time_out() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        server = far(ground, lambda call: None)
        await server.start([(FAR, 9876)])
        async with ground.cluster() as cluster:
            started = ground.clock.monotonic()
            with pytest.raises(TimedOut, match="did not answer GET_MAX_OFFSET within 0.5 s") as caught:
                await cluster.call(f"{FAR}:9876", GetMaxOffset("t", 0), timeout_s=0.5)
            assert ground.clock.monotonic() - started == pytest.approx(0.5)
            assert caught.value.retriable
        await server.close()

    play(scenario)


def test_a_server_that_says_go_away_is_asked_over_a_new_connection() -> None:
    asked: list[Call] = []

    def serve(call: Call) -> None:
        asked.append(call)
        code = Code.GO_AWAY if len(asked) == 1 else Code.SUCCESS
        call.answer(Reply(code, OffsetFound(len(asked))))

    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        server = far(ground, serve)
        await server.start([(FAR, 9876)])
        async with ground.cluster() as cluster:
            answer = await cluster.ask(f"{FAR}:9876", GetMaxOffset("t", 0))
            assert OffsetFound.decode(answer.ext).offset == 2
            assert asked[0].link is not asked[1].link
        await server.close()

    play(scenario)


@pytest.mark.parametrize("encoding", ["json", "binary"])
def test_frames_say_who_speaks(encoding: str) -> None:
    seen: list[Frame] = []

    def serve(call: Call) -> None:
        seen.append(call.frame)
        call.answer(Reply(Code.SUCCESS, OffsetFound(1)))

    async def scenario(ground: Ground) -> None:
        server = far(ground, serve)
        await server.start([(FAR, 9876)])
        async with ground.cluster(f"roquet://{FAR}:9876?encoding={encoding}") as cluster:
            await cluster.ask(f"{FAR}:9876", GetMaxOffset("t", 0))
            await cluster.tell(f"{FAR}:9876", GetMaxOffset("t", 1))
            await ground.pass_time(0.1)
        assert [(frame.language, frame.version) for frame in seen] == [(3, 513)] * 2
        assert [frame.encoding for frame in seen] == [0 if encoding == "json" else 1] * 2
        assert [frame.is_one_way for frame in seen] == [False, True]
        await server.close()

    play(scenario)


def test_much_at_once_waits_for_the_peer_to_read() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start()
        ground.world.net.set_delay(CLIENT, BROKERS[0], 0.01, 0.02)
        async with ground.cluster() as cluster:
            body = bytes(60_000)
            sent = await asyncio.gather(*[cluster.ask(BROKER, send("orders"), body) for _ in range(60)])
            offsets = sorted(Sent.decode(answer.ext).queue_offset for answer in sent)
            assert offsets == list(range(60))
            for _ in range(20):
                await cluster.tell(BROKER, send("orders"), body)
            await ground.pass_time(5)
            answer = await cluster.ask(BROKER, GetMaxOffset("orders", 0))
            assert OffsetFound.decode(answer.ext).offset == 80

    play(scenario)


def test_the_text_of_a_cluster_says_where_it_is() -> None:
    assert repr(Cluster(NAMESRV)) == f"<Cluster not open of {NAMESRV}>"
