"""The same links over real sockets, on asyncio's own loop and on uvloop: where their transports differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from roquet.runtime.clock import RealClock
from roquet.runtime.net import RealNet
from roquet.transport.link import Call, Link, LinkClosed
from roquet.transport.server import Server
from roquet.wire.frame import Frame, join, split
from roquet.wire.reply import Reply
from roquet.wire.requests.offsets import GetMaxOffset
from tests.transport.ends import RawPeer, echo, refuse

WAIT_SECONDS_MAX = 120.0

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a scenario on one kind of loop; an error that a callback raised fails it."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        broken: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, details: broken.append(details))
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await main()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(watched())
        assert broken == []

    return run


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; the time-out around the scenario is its bound."""
    while not condition():
        await asyncio.sleep(0.001)


async def serve(handler: Callable[[Call], None]) -> Server:
    server = Server(RealNet(), RealClock(), handler)
    await server.start([("127.0.0.1", 0)])
    return server


async def connect(server: Server) -> Link:
    _, link = await RealNet().connect(lambda: Link(RealClock(), refuse), *server.addresses[0], 3)
    assert isinstance(link, Link)
    return link


async def connect_raw(server: Server) -> RawPeer:
    _, peer = await RealNet().connect(RawPeer, *server.addresses[0], 3)
    assert isinstance(peer, RawPeer)
    return peer


def large(call: Call) -> None:
    call.answer(Reply(body=[bytes(2_000_000), memoryview(bytes(2_000_000))]))


def whole_frames(data: bytearray) -> int:
    """Count the frames that are there to their last byte, without a look into them."""
    count = start = 0
    while (end := start + 4 + int.from_bytes(data[start : start + 4])) <= len(data):
        count, start = count + 1, end
    return count


def test_calls(run: Run) -> None:
    async def main() -> None:
        server = await serve(echo)
        link = await connect(server)
        answers = await asyncio.gather(*(link.call(GetMaxOffset("t", n), 10, b"b" * n) for n in range(500)))
        assert [(answer.ext["offset"], len(answer.body)) for answer in answers] == [
            (str(n), n) for n in range(500)
        ]
        await server.close()
        await until(lambda: not link.is_open)
        with pytest.raises(LinkClosed):
            await link.call(GetMaxOffset("t", 1), 1)

    run(main)


def test_a_slow_reader_that_reads_on(run: Run) -> None:
    async def main() -> None:
        server = await serve(large)
        peer = await connect_raw(server)
        peer.transport.pause_reading()
        peer.send(*(Frame(30, opaque) for opaque in range(20)))
        await until(lambda: server.links and next(iter(server.links)).is_congested)
        [link] = server.links
        assert link.unsent_bytes < 20_000_000  # most requests have not even been looked at
        peer.transport.resume_reading()
        await until(lambda: whole_frames(peer.received) == 20)
        frames, _ = split(peer.received)
        assert [frame.opaque for frame in frames] == list(range(20))
        await until(lambda: link.unsent_bytes == 0 and not link.is_congested)
        await server.close()

    run(main)


@pytest.mark.parametrize("end", [Link.close, Link.abort], ids=["close", "abort"])
def test_a_link_is_ended_while_its_peer_does_not_read(run: Run, end: Callable[[Link], None]) -> None:
    async def main() -> None:
        server = await serve(large)
        peer = await connect_raw(server)
        peer.transport.pause_reading()
        peer.send(*(Frame(30, opaque) for opaque in range(20)))
        await until(lambda: server.links and next(iter(server.links)).is_congested)
        [link] = server.links
        end(link)
        link.close()
        link.send_reply(Frame(30), Reply())
        link.send_one_way(GetMaxOffset("t", 1))
        peer.transport.resume_reading()
        await until(lambda: peer.is_lost and not server.links)
        assert not link.is_open and link.unsent_bytes == 0
        await server.close()

    run(main)


def test_a_peer_that_vanishes_while_it_does_not_read(run: Run) -> None:
    async def main() -> None:
        server = await serve(large)
        peer = await connect_raw(server)
        peer.transport.pause_reading()
        peer.send(*(Frame(30, opaque) for opaque in range(20)))
        await until(lambda: server.links and next(iter(server.links)).is_congested)
        peer.transport.abort()
        await until(lambda: not server.links)
        await server.close()

    run(main)


def test_a_call_that_fails_with_its_link(run: Run) -> None:
    async def main() -> None:
        server = await serve(lambda call: call.link.abort())
        link = await connect(server)
        with pytest.raises(LinkClosed):
            await link.call(GetMaxOffset("t", 1), 10)
        await server.close()

    run(main)


def test_garbage_behind_a_frame(run: Run) -> None:
    async def main() -> None:
        server = await serve(echo)
        peer = await connect_raw(server)
        peer.transport.write(join(Frame(30, 1)) + b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: peer.is_lost)
        await server.close()

    run(main)
