"""The two ends of a link in a simulated world: a server that answers, and links that ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from roquet.sim.world import World
from roquet.transport.link import Call, Link
from roquet.transport.server import Server
from roquet.wire.frame import JSON, Frame, join
from roquet.wire.reply import Reply
from roquet.wire.requests.offsets import OffsetFound

PORT = 10911


def echo(call: Call) -> None:
    """Answer with the queue id that was asked for, and the body that came."""
    call.answer(Reply(0, OffsetFound(int(call.frame.ext.get("queueId", "0"))), call.frame.body))


def refuse(call: Call) -> None:
    """Fail the test: nobody should ask here."""
    raise AssertionError(f"nobody should ask {call.frame.code} here")


def simulate(main: Callable[[World], Coroutine[Any, Any, None]], limit_s: float = 3_600.0) -> None:
    """Run a scenario in a fresh world."""
    with World(1) as world:
        world.run(main(world), limit_s)


async def open_server(
    world: World,
    serve: Callable[[Call], None] = echo,
    *,
    on_close: Callable[[Link], None] | None = None,
    links_max: int = 20_000,
    encoding: int = JSON,
) -> Server:
    """Start a server on the host of that name."""
    ports = world.ports("server")
    server = Server(ports.net, ports.clock, serve, on_close, links_max, encoding=encoding)
    await server.start([("0.0.0.0", PORT)])
    return server


async def dial(
    world: World, serve: Callable[[Call], None] = refuse, host: str = "client", encoding: int = JSON
) -> Link:
    """Open a link from a host to the server."""
    ports = world.ports(host)
    _, link = await ports.net.connect(
        lambda: Link(ports.clock, serve, encoding=encoding), "server", PORT, timeout_s=3
    )
    assert isinstance(link, Link)
    return link


class RawPeer(asyncio.Protocol):
    """A peer that writes what a test says and keeps what it gets; it may refuse to read."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_lost = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True

    def send(self, *frames: Frame) -> None:
        for frame in frames:
            self.transport.write(join(frame))


async def dial_raw(world: World, host: str = "client") -> RawPeer:
    """Open a plain stream from a host to the server."""
    _, peer = await world.ports(host).net.connect(RawPeer, "server", PORT, timeout_s=3)
    assert isinstance(peer, RawPeer)
    return peer


async def pause(world: World, seconds: float) -> None:
    """Let virtual time pass."""
    clock = world.clock("client")
    await clock.sleep_until(clock.monotonic() + seconds)
