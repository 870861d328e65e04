"""Links in a simulated world: questions and answers in both directions, time-outs, cuts and slow readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from roquet.sim.world import World
from roquet.transport.link import STALL_SECONDS_MAX, WRITE_HIGH_BYTES, Call, Link, LinkClosed
from roquet.wire.codes import FLAG_ONE_WAY, FLAG_REPLY
from roquet.wire.connection import WAITING_MAX
from roquet.wire.frame import BINARY, JSON, Frame, split
from roquet.wire.reply import Reply
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound
from tests.transport.ends import dial, dial_raw, echo, open_server, pause, simulate


def ask(queue_id: int) -> GetMaxOffset:
    return GetMaxOffset("t", queue_id)


@pytest.mark.parametrize("ours", [JSON, BINARY])
@pytest.mark.parametrize("theirs", [JSON, BINARY])
def test_each_side_writes_its_own_encoding(ours: int, theirs: int) -> None:
    async def main(world: World) -> None:
        await open_server(world, encoding=theirs)
        link = await dial(world, encoding=ours)
        answer = await link.call(ask(7), timeout_s=3, body=b"body")
        assert answer.encoding == theirs
        assert (OffsetFound.decode(answer.ext).offset, answer.body) == (7, b"body")

    simulate(main)


def test_answers_find_their_askers_in_any_order() -> None:
    kept: list[Call] = []

    async def main(world: World) -> None:
        await open_server(world, kept.append)
        link = await dial(world)
        asked = [asyncio.create_task(link.call(ask(number), timeout_s=60)) for number in range(50)]
        while len(kept) < 50:
            await pause(world, 0.01)
        world.rng.shuffle(kept)
        for call in kept:
            echo(call)
        answers = await asyncio.gather(*asked)
        assert [OffsetFound.decode(answer.ext).offset for answer in answers] == list(range(50))

    simulate(main)


def test_both_sides_ask_at_once() -> None:
    accepted: list[Link] = []
    one_way: list[Call] = []

    def serve(call: Call) -> None:
        if call.link not in accepted:
            accepted.append(call.link)
        if call.frame.is_one_way:
            one_way.append(call)
        echo(call)

    async def main(world: World) -> None:
        await open_server(world, serve)
        link = await dial(world, serve=echo)
        link.send_one_way(ask(0))
        await link.call(ask(0), timeout_s=3)
        [other] = accepted

        async def talk(end: Link, first: int) -> list[int]:
            answers = await asyncio.gather(*(end.call(ask(first + n), timeout_s=60) for n in range(100)))
            for _ in range(20):
                end.send_one_way(ask(0))
            return [OffsetFound.decode(answer.ext).offset for answer in answers]

        # Both sides count their opaques from the same number; the reply bit alone tells them apart.
        forth, back = await asyncio.gather(talk(link, 1000), talk(other, 5000))
        assert forth == list(range(1000, 1100)) and back == list(range(5000, 5100))
        await pause(world, 1)
        assert len(one_way) == 1 + 20

    simulate(main)


def test_a_one_way_request_gets_no_answer() -> None:
    async def main(world: World) -> None:
        await open_server(world, echo)
        peer = await dial_raw(world)
        peer.send(Frame(30, 1, FLAG_ONE_WAY), Frame(30, 2), Frame(30, 3, FLAG_ONE_WAY))
        await pause(world, 1)
        frames, _ = split(peer.received)
        assert [(frame.opaque, frame.flag) for frame in frames] == [(2, FLAG_REPLY)]

    simulate(main)


def test_forged_late_and_double_answers_are_dropped() -> None:
    kept: list[Call] = []

    async def main(world: World) -> None:
        await open_server(world, kept.append)
        link = await dial(world)
        with pytest.raises(TimeoutError, match="did not answer 30 within 2 s"):
            await link.call(ask(1), timeout_s=2)
        assert world.loop.time() == pytest.approx(2, abs=0.1)
        echo(kept[0])  # too late
        kept[0].link.send_reply(Frame(0, 4711), Reply())  # nobody asked
        asked = asyncio.create_task(link.call(ask(2), timeout_s=3))
        while len(kept) < 2:
            await pause(world, 0.01)
        kept[1].link.send_reply(kept[1].frame, Reply(0, OffsetFound(2)))
        kept[1].link.send_reply(kept[1].frame, Reply(0, OffsetFound(666)))
        assert OffsetFound.decode((await asked).ext).offset == 2
        await pause(world, 1)
        assert link.is_open

    simulate(main)


def test_answering_twice_is_our_mistake() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        await dial(world)
        call = Call(next(iter(server.links)), Frame(30))
        call.answer(Reply())
        with pytest.raises(AssertionError, match="answered twice"):
            call.answer(Reply())

    simulate(main)


def test_each_call_expires_in_its_own_time() -> None:
    async def main(world: World) -> None:
        await open_server(world, lambda call: None)
        link = await dial(world)
        started = world.loop.time()
        expired: list[float] = []

        async def wait(timeout_s: float) -> None:
            with pytest.raises(TimeoutError, match=f"did not answer 30 within {timeout_s:g} s"):
                await link.call(ask(1), timeout_s)
            assert world.loop.time() - started == pytest.approx(timeout_s)
            expired.append(timeout_s)

        await asyncio.gather(*[wait(seconds) for seconds in (5, 1, 3, 1, 60, 2)])
        assert expired == [1, 1, 2, 3, 5, 60]
        assert link._connection.drop_all() == []
        started = world.loop.time()
        await wait(4)  # and once more after all was quiet

    simulate(main)


def test_a_lost_link_leaves_no_timer() -> None:
    async def main(world: World) -> None:
        await open_server(world, lambda call: None)
        link = await dial(world)
        asked = asyncio.create_task(link.call(ask(1), timeout_s=60))
        await pause(world, 1)
        link.abort()
        with pytest.raises(LinkClosed):
            await asked
        assert link._expiry is not None
        assert getattr(link._expiry, "cancelled")()  # noqa: B009

    simulate(main)


def test_a_cancelled_call_waits_no_longer() -> None:
    async def main(world: World) -> None:
        await open_server(world, lambda call: None)
        link = await dial(world)
        asked = asyncio.create_task(link.call(ask(1), timeout_s=60))
        await pause(world, 1)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert link._connection.drop_all() == []

    simulate(main)


def cut(world: World, server_side: Link) -> None:
    world.net.cut("client", "server")


def close(world: World, server_side: Link) -> None:
    server_side.close()


def abort(world: World, server_side: Link) -> None:
    server_side.abort()


@pytest.mark.parametrize("end", [cut, close, abort])
def test_a_lost_connection_ends_every_call(end: Callable[[World, Link], None]) -> None:
    closed: list[Link] = []

    async def main(world: World) -> None:
        server = await open_server(world, lambda call: None, on_close=closed.append)
        link = await dial(world)
        asked = [asyncio.create_task(link.call(ask(number), timeout_s=60)) for number in range(10)]
        await pause(world, 1)
        [server_side] = server.links
        end(world, server_side)
        for call in asked:
            with pytest.raises(LinkClosed, match="closed the connection"):
                await call
        assert not link.is_open and not server.links and closed == [server_side]
        with pytest.raises(LinkClosed, match="is not connected"):
            await link.call(ask(1), timeout_s=1)
        link.send_one_way(ask(1))  # misses the peer, without a word
        server_side.send_reply(Frame(30), Reply())
        server_side.write(b"x")
        link.close()
        link.abort()
        assert world.loop.time() < 10

    simulate(main)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\0\0\0\x08\x07\0\0\4abcd"]
)
def test_a_peer_that_does_not_speak_the_protocol_is_cut_off(data: bytes) -> None:
    async def main(world: World) -> None:
        await open_server(world)
        peer = await dial_raw(world)
        other = await dial(world)
        peer.transport.write(data)
        await pause(world, 1)
        assert peer.is_lost and not peer.received
        assert (await other.call(ask(1), timeout_s=3)).code == 0

    simulate(main)


def test_a_slow_reader_is_not_read_from_and_holds_little_memory() -> None:
    served: list[int] = []

    def serve(call: Call) -> None:
        served.append(call.frame.opaque)
        call.answer(Reply(body=bytes(100_000)))

    async def main(world: World) -> None:
        server = await open_server(world, serve)
        peer = await dial_raw(world)
        peer.transport.pause_reading()
        requests = 5_000
        peer.send(*(Frame(30, opaque, 0, {"padding": "x" * 200}) for opaque in range(requests)))
        [link] = server.links
        for _ in range(100):
            await pause(world, 0.1)
            assert link.unsent_bytes < WRITE_HIGH_BYTES + 200_000
            assert len(link._backlog) < 1_000
        assert link.is_congested and len(served) < 20
        assert peer.transport.get_write_buffer_size() > 0  # the rest waits at the peer, where it belongs
        peer.transport.resume_reading()
        while len(served) < requests:
            await pause(world, 0.1)
        assert served == list(range(requests))  # nothing lost, nothing twice, in order
        await pause(world, 5)
        assert not link.is_congested and link.unsent_bytes == 0
        frames, used = split(peer.received)
        assert [frame.opaque for frame in frames] == list(range(requests)) and used == len(peer.received)

    simulate(main)


def test_one_way_requests_skip_a_congested_peer() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        peer = await dial_raw(world)
        peer.transport.pause_reading()
        [link] = server.links
        link.write(bytes(WRITE_HIGH_BYTES * 2))
        assert link.is_congested
        unsent = link.unsent_bytes
        link.send_one_way(ask(1))
        assert link.unsent_bytes == unsent

    simulate(main)


def test_a_peer_that_never_reads_is_cut_off_after_a_minute() -> None:
    async def main(world: World) -> None:
        server = await open_server(world, lambda call: call.answer(Reply(body=bytes(1_000_000))))
        peer = await dial_raw(world)
        peer.transport.pause_reading()
        peer.send(*(Frame(30, opaque) for opaque in range(10)))
        await pause(world, STALL_SECONDS_MAX - 5)
        assert len(server.links) == 1
        await pause(world, 15)
        assert not server.links

    simulate(main)


def test_calls_past_the_bound_are_refused() -> None:
    async def main(world: World) -> None:
        await open_server(world, lambda call: None)
        link = await dial(world)
        for opaque in range(WAITING_MAX):
            link._connection.wait_for(-1 - opaque, 1e9, (world.loop.create_future(), 30, 1e9))
        with pytest.raises(Exception, match=f"{WAITING_MAX} requests wait"):
            await link.call(ask(1), timeout_s=1)

    simulate(main)
