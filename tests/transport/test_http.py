"""Reading a short text over HTTP, in the simulation: what is no answer is said to be none."""

from __future__ import annotations

import asyncio

import pytest

from roquet.sim.world import World
from roquet.transport.http import TEXT_BYTES_MAX, get
from tests.transport.ends import simulate


def ok(text: str) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + text.encode()


async def read(world: World, answer: bytes, closes: bool) -> str:
    """Return what is read from a server that answers with these bytes."""

    class Visit(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            assert data.startswith(b"GET / HTTP/1.0\r\nHost: server:8080\r\n")
            self.transport.write(answer)
            if closes:
                self.transport.close()

    await world.ports("server").net.listen(Visit, "server", 8080)
    ports = world.ports("client")
    return await get(ports.net, ports.clock, "http://server:8080", 3)


def test_a_text() -> None:
    async def main(world: World) -> None:
        assert await read(world, ok("a:1;b:2"), True) == "a:1;b:2"

    simulate(main)


@pytest.mark.parametrize(
    ("answer", "closes", "complaint"),
    [
        (b"HTTP/1.1 500 Oh no\r\n\r\n", True, "500 Oh no"),
        (b"SSH-2.0", True, "not HTTP, or cut short"),
        (b"HTTP/1.0 200 OK\r\nHalf", True, "not HTTP, or cut short"),
        (ok("x" * TEXT_BYTES_MAX), True, "longer than"),
        (ok("half"), False, "no answer within 3 s"),
    ],
)
def test_an_answer_that_is_none(answer: bytes, closes: bool, complaint: str) -> None:
    async def main(world: World) -> None:
        with pytest.raises(OSError, match=complaint):
            await read(world, answer, closes)

    simulate(main)
