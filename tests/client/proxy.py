"""A TCP proxy that treats connections badly, between a client and a server.

    client ──▶ Proxy ──▶ server          each direction of each connection is one pump

    cut      resets every connection that is open        stall    nothing passes until `flow`, all stay open
    refuse   new connections are closed at once          delay_s  every piece waits so long before it passes

Brokers tell clients their own address, so a client is brought here by `RewrittenNet`: a Net that connects to
the proxy whenever the server's address is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from roquet.ports import Listener, Net

HOST: Final = "127.0.0.1"
PIECE_BYTES: Final = 64 * 1024


class Proxy:
    """Stands before one server; use as an async context manager."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.is_refusing = False
        self.delay_s = 0.0
        self.connections = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._server is not None
        self._server.close()
        self.flow()
        self.cut()
        for pair in tuple(self._pairs):
            pair.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    # --- what it does to connections

    def cut(self) -> None:
        """Reset every connection that is open."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def stall(self) -> None:
        """Let nothing pass; connections stay open and new ones are accepted into the silence."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let everything pass again."""
        self._flowing.set()

    # --- inside

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.is_refusing:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        self._writers.add(writer)
        try:
            await self._flowing.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
        else:
            self._writers.add(far_writer)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, far_writer))
                pumps.create_task(self._pump(far_reader, writer))
            self._writers.discard(far_writer)
        finally:
            self._writers.discard(writer)
            self._pairs.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one direction until either end is gone; its end ends the other direction too."""
        try:
            with contextlib.suppress(OSError):
                while piece := await reader.read(PIECE_BYTES):
                    await self._flowing.wait()
                    if self.delay_s:
                        await asyncio.sleep(self.delay_s)
                    writer.write(piece)
                    await writer.drain()
        finally:
            writer.transport.abort()


class RewrittenNet:
    """A Net on which some addresses lead elsewhere; see `roquet.ports.Net`."""

    def __init__(self, net: Net, elsewhere: Mapping[str, Proxy]) -> None:
        self._net = net
        self._elsewhere = elsewhere

    async def listen(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        return await self._net.listen(factory, host, port)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_s: float
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        proxy = self._elsewhere.get(f"{host}:{port}")
        if proxy is not None:
            host, port = proxy.address
        return await self._net.connect(factory, host, port, timeout_s)
