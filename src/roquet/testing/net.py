"""A network in memory, for an ordinary asyncio loop: the Net port without sockets.

    write ─▶ pipe ─(next turn of the loop)─▶ data_received of the other end
             ▲ pause_writing above `high`    ▲ kept while reading is paused

Connections behave as TCP's do: data arrives in order and in pieces, a closed end sends what it has written
first, an aborted one resets its peer, and nobody listening means a refusal. There are no delays and no
faults; those are in `roquet.sim`. Every host name means this network.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from roquet.ports import Listener

HIGH_WATER_BYTES: Final = 64 * 1024
"""asyncio's own limit of what may be written and unread before a writer is told to pause."""

PIECE_BYTES_MAX: Final = 256 * 1024
"""What is handed over at once: what asyncio reads from a socket at most."""

FIRST_CLIENT_PORT: Final = 40_001
FIRST_FREE_PORT: Final = 50_001
Address = tuple[str, int]


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, protocol: asyncio.BaseProtocol, here: Address, there: Address) -> None:
        super().__init__(extra={"sockname": here, "peername": there})
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._peer = self  # until `join`
        self._pipe: deque[bytes] = deque()
        self._pipe_bytes = 0
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._is_pumping = False
        self._writing_paused = False
        self._reading_paused = False
        self._ended = False  # nothing is written after this
        self._end_told = False
        self._closing = False
        self._lost = False

    def join(self, peer: MemoryTransport) -> None:
        """Say who is at the other end; both must be told before either protocol runs."""
        self._peer = peer

    # --- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended and not self._closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not data:
            return
        self._pipe.append(bytes(data))
        self._pipe_bytes += len(self._pipe[-1])
        self._tell_writer()
        self._pump_soon()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._ended = True
        self._pump_soon()

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low
        self._tell_writer()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._pipe_bytes

    def _tell_writer(self) -> None:
        if self._pipe_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        elif self._writing_paused and self._pipe_bytes <= self._low:
            self._writing_paused = False
            if not self._closing:
                self._protocol.resume_writing()

    # --- reading

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._peer._pump_soon()

    # --- the end

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Send what is written, then end."""
        if not self._closing:
            self._closing = self._ended = True
            self._pump_soon()

    def abort(self) -> None:
        """End at once: what is unsent is lost and the peer is reset."""
        self._lose(None)
        self._peer._lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = self._ended = True
        self._pipe.clear()
        self._pipe_bytes = 0
        self._loop.call_soon(self._protocol.connection_lost, error)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    # --- the way to the other end

    def _pump_soon(self) -> None:
        if not self._is_pumping and not self._lost:
            self._is_pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Hand one piece over, and the end of the stream behind the last of them."""
        self._is_pumping = False
        peer = self._peer
        if self._lost:
            return
        if peer._lost and self._pipe:
            self._lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
            return
        if peer._closing:  # it reads no more, and ends as soon as it has sent the rest
            self._pipe.clear()
            self._pipe_bytes = 0
            self._tell_writer()
        if self._pipe and not peer._reading_paused:
            peer._receive(self._take_piece())
            self._tell_writer()
        if self._pipe and not peer._reading_paused:
            self._pump_soon()
        if self._pipe or not self._ended or self._lost:
            return
        if not self._end_told:
            self._end_told = True
            peer._receive_end()
        if self._closing:
            self._lose(None)

    def _take_piece(self) -> bytes:
        piece = self._pipe.popleft()
        if self._pipe and len(piece) < PIECE_BYTES_MAX:
            piece = b"".join((piece, *self._pipe))
            self._pipe.clear()
        if len(piece) > PIECE_BYTES_MAX:
            self._pipe.appendleft(piece[PIECE_BYTES_MAX:])
            piece = piece[:PIECE_BYTES_MAX]
        self._pipe_bytes -= len(piece)
        return piece

    def _receive(self, data: bytes) -> None:
        assert isinstance(self._protocol, asyncio.Protocol)
        try:
            self._protocol.data_received(data)
        except Exception as error:  # as asyncio: the protocol's own fault ends the connection
            self._loop.call_exception_handler(
                {"message": "Fatal error: protocol failed", "exception": error, "transport": self}
            )
            self.abort()

    def _receive_end(self) -> None:
        assert isinstance(self._protocol, asyncio.Protocol)
        if not self._closing and not self._protocol.eof_received():
            self.close()


class MemoryListener:
    """A port of the network; see `roquet.ports.Listener`."""

    __slots__ = ("_net", "address", "factory")

    def __init__(self, net: MemoryNet, address: Address, factory: Callable[[], asyncio.Protocol]) -> None:
        self._net = net
        self.address = address
        self.factory = factory

    def close(self) -> None:
        self._net.forget(self)


class MemoryNet:
    """See the module, and `roquet.ports.Net`."""

    def __init__(self) -> None:
        self._listeners: dict[int, MemoryListener] = {}
        self._client_ports = itertools.count(FIRST_CLIENT_PORT)
        self._free_ports = itertools.count(FIRST_FREE_PORT)

    async def listen(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        port = port or next(self._free_ports)
        if port in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{host}:{port} is taken in this network in memory")
        listener = self._listeners[port] = MemoryListener(self, (host, port), factory)
        return listener

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_s: float
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        listener = self._listeners.get(port)
        if listener is None:
            raise ConnectionRefusedError(
                errno.ECONNREFUSED, f"nothing listens on {host}:{port} in this network in memory"
            )
        here, there = (host, next(self._client_ports)), (host, port)
        protocol, served = factory(), listener.factory()
        near, far = MemoryTransport(protocol, here, there), MemoryTransport(served, there, here)
        near.join(far)
        far.join(near)
        served.connection_made(far)
        protocol.connection_made(near)
        return near, protocol

    def forget(self, listener: MemoryListener) -> None:
        """Close a listener; called by it."""
        if self._listeners.get(listener.address[1]) is listener:
            del self._listeners[listener.address[1]]
