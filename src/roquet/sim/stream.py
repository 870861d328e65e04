"""One simulated connection: two transports, each sending over its own one-way link.

    write ─▶ buffer ─▶ │window│ in flight ─(delay)─▶ inbox ─▶ data_received
              ▲ pause_writing above `high`      ▲ kept while reading is paused
              └────────── acknowledgement: the window opens again ◀─┘

At most WINDOW_BYTES are unacknowledged, so a peer that does not read, or a link that carries nothing,
really fills the sender's buffer. Data arrives in order, cut and glued at random places, as TCP may.
A blocked link holds what is in flight until it heals; nothing is lost but by closing. The network moves
data in its own context and calls each protocol in that of the program that owns it.
"""

from __future__ import annotations

import asyncio
import contextvars
import zlib
from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from roquet.ports import Rng
from roquet.sim.trace import Trace

WINDOW_BYTES = 65_536  # a usual TCP window: small enough that tests reach its end
HIGH_WATER_BYTES = 65_536  # asyncio's default

_NETWORK = contextvars.Context()  # belongs to no program: data in flight outlives its sender


class Signal(Enum):
    """What travels besides data: the end of the stream, or its reset."""

    FIN = "fin"
    RST = "rst"


class Parcel(NamedTuple):
    """Something in flight, and when it arrives."""

    arrives_at: float
    cargo: bytes | Signal


class Link:
    """The way from one host to another: its delay, and whether anything passes at present."""

    __slots__ = ("blocked", "delay_s", "ends", "name", "rng")

    def __init__(self, name: str, rng: Rng, delay_s: tuple[float, float]) -> None:
        self.name = name
        self.rng = rng
        self.delay_s = delay_s
        self.blocked = False
        self.ends: dict[int, SimTransport] = {}  # those that send over it, by connection number

    def pick_delay_s(self) -> float:
        """Return how long one parcel takes."""
        low, high = self.delay_s
        return low + (high - low) * self.rng.random()

    def pick_chunk_bytes(self) -> int:
        """Return where to cut the stream next: mostly large, at times inside a frame's header."""
        if self.rng.random() < 0.1:
            return 1 + self.rng.randrange(16)
        return 1 + self.rng.randrange(WINDOW_BYTES)

    def resume(self) -> None:
        """Let everything that was held flow again."""
        for end in list(self.ends.values()):
            end.link_resumed()


class SimTransport(asyncio.Transport):
    """One end of a connection, with the behaviour of asyncio's socket transport."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        trace: Trace,
        number: int,
        link: Link,
        protocol: asyncio.BaseProtocol,
        owner: contextvars.Context,
        addresses: tuple[tuple[str, int], tuple[str, int]],
    ) -> None:
        super().__init__(extra={"sockname": addresses[0], "peername": addresses[1]})
        self.link = link
        self.owner = owner
        self._loop = loop
        self._trace = trace
        self._number = number
        self._protocol = protocol
        self._peer = self  # until `join`
        self._buffer: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._unacked_bytes = 0
        self._flight: deque[Parcel] = deque()
        self._flight_timer: asyncio.TimerHandle | None = None
        self._inbox: deque[bytes | Signal] = deque()
        self._owed_bytes = 0  # read from the inbox and not yet acknowledged to the peer
        self._high = HIGH_WATER_BYTES
        self._low = HIGH_WATER_BYTES // 4
        self._writing_paused = False
        self._reading_paused = False
        self._eof = False
        self._fin_sent = False
        self._closing = False
        self._lost = False
        self._dead = False
        link.ends[number] = self

    def join(self, peer: SimTransport) -> None:
        """Say who is at the other end; both must be told before either protocol runs."""
        self._peer = peer

    # --- asyncio's transport: writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not data:
            return
        self._buffer.append(bytes(data))
        self._buffered_bytes += len(self._buffer[-1])
        self._pump()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._eof = True
        self._pump()

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._tell_protocol()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._buffered_bytes

    # --- asyncio's transport: reading and ending

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._loop.call_soon(self._read_inbox, context=self.owner)

    def is_reading(self) -> bool:
        return not self._closing and not self._reading_paused

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._inbox.clear()
            self._pump()

    def abort(self) -> None:
        if not self._lost:
            self._send(Signal.RST)
            self._lose(None)

    # --- called by the network

    def link_resumed(self) -> None:
        """Deliver what the blocked link held back."""
        self._arrive()
        self._acknowledge()

    def reset(self, reason: str) -> None:
        """End the connection here and now, with an error; the other end is not told."""
        self._flight.clear()
        self._lose(ConnectionResetError(reason))

    def vanish(self) -> None:
        """Forget everything without a word to anybody, as a machine does that loses power."""
        self._flight.clear()
        self._bury()

    def orphan(self) -> None:
        """Lose the program that owned this end: the peer is told, the dead program is not."""
        self._bury()
        # An operating system ends the stream politely when nothing was left unread, else it resets it.
        self._send(Signal.FIN if self.link.rng.random() < 0.5 else Signal.RST)

    def _bury(self) -> None:
        self._dead = self._lost = self._closing = True
        self._buffer.clear()
        self._inbox.clear()

    # --- the sending side

    def _pump(self) -> None:
        """Move data from the buffer into the window; end the stream behind the last of it."""
        while self._buffer and self._unacked_bytes < WINDOW_BYTES:
            size = min(self.link.pick_chunk_bytes(), WINDOW_BYTES - self._unacked_bytes)
            first = self._buffer.popleft()
            if len(first) > size:
                self._buffer.appendleft(first[size:])
                first = first[:size]
            self._buffered_bytes -= len(first)
            self._unacked_bytes += len(first)
            self._send(first)
        self._tell_protocol()
        if self._buffer or self._lost:
            return
        if (self._eof or self._closing) and not self._fin_sent:
            self._fin_sent = True
            self._send(Signal.FIN)
        if self._closing:
            self._lose(None)

    def _send(self, cargo: bytes | Signal) -> None:
        self.link.ends[self._number] = self
        arrives_at = self._loop.time() + self.link.pick_delay_s()
        if self._flight:
            arrives_at = max(arrives_at, self._flight[-1].arrives_at)
        self._flight.append(Parcel(arrives_at, cargo))
        if self._flight_timer is None:
            self._flight_timer = self._loop.call_at(arrives_at, self._arrive, context=_NETWORK)

    def _arrive(self) -> None:
        if self._flight_timer is not None:
            self._flight_timer.cancel()
            self._flight_timer = None
        if self.link.blocked:
            return
        data = bytearray()
        while self._flight and self._flight[0].arrives_at <= self._loop.time():
            cargo = self._flight.popleft().cargo
            if isinstance(cargo, bytes):
                data += cargo
                continue
            self._deliver(bytes(data))
            data.clear()
            self._trace.note("net", self.link.name, self._number, cargo.value)
            self._peer.receive(cargo)
        self._deliver(bytes(data))
        if self._flight:
            self._flight_timer = self._loop.call_at(
                self._flight[0].arrives_at, self._arrive, context=_NETWORK
            )
        elif self._lost:
            self.link.ends.pop(self._number, None)

    def _deliver(self, data: bytes) -> None:
        if data:
            self._trace.note("net", self.link.name, self._number, len(data), zlib.crc32(data))
            self._peer.receive(data)

    def _tell_protocol(self) -> None:
        if self._buffered_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        elif self._writing_paused and self._buffered_bytes <= self._low:
            self._writing_paused = False
            if not self._lost:
                self._protocol.resume_writing()

    def _acknowledged(self, size: int) -> None:
        self._unacked_bytes -= size
        self._pump()

    # --- the receiving side

    def receive(self, cargo: bytes | Signal) -> None:
        """Take what the link brought."""
        if self._lost:
            if cargo is not Signal.RST and (self._dead or isinstance(cargo, bytes)):
                self._send(Signal.RST)  # nobody here: tell them so
        elif cargo is Signal.RST:
            self._lose(ConnectionResetError("connection reset by peer"))
        elif not self._closing:
            self._inbox.append(cargo)
            self.owner.run(self._read_inbox)

    def _read_inbox(self) -> None:
        while self._inbox and not self._reading_paused and not self._closing:
            cargo = self._inbox.popleft()
            try:
                if isinstance(cargo, bytes):
                    self._owed_bytes += len(cargo)
                    self._hand_over(cargo)
                elif not self._stream_protocol().eof_received():
                    self.close()
            except Exception as error:  # as asyncio: the protocol's own fault ends the connection
                self._loop.call_exception_handler(
                    {"message": "Fatal error: protocol failed", "exception": error, "transport": self}
                )
                self._send(Signal.RST)
                self._lose(error)
        self._acknowledge()

    def _hand_over(self, data: bytes) -> None:
        protocol = self._stream_protocol()
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return
        view = memoryview(data)
        while view and not self._closing:
            room = memoryview(protocol.get_buffer(len(view)))
            size = min(len(room), len(view))
            room[:size] = view[:size]
            protocol.buffer_updated(size)
            view = view[size:]

    def _stream_protocol(self) -> asyncio.Protocol | asyncio.BufferedProtocol:
        assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        return self._protocol

    def _acknowledge(self) -> None:
        if self._owed_bytes and not self.link.blocked:
            peer = self._peer
            self._loop.call_soon(peer._acknowledged, self._owed_bytes, context=peer.owner)
            self._owed_bytes = 0

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._buffer.clear()
        self._buffered_bytes = 0
        self._inbox.clear()
        self._trace.note("net", self.link.name, self._number, "lost", type(error).__name__)
        self._loop.call_soon(self._tell_lost, error, context=self.owner)
        if not self._flight:
            self.link.ends.pop(self._number, None)

    def _tell_lost(self, error: Exception | None) -> None:
        if not self._dead:
            self._protocol.connection_lost(error)
