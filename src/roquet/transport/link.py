"""A live connection: asyncio's protocol class around `wire.Connection`.

    data_received ─▶ Connection.receive_data ─▶ requests ─▶ serve(call)      answers ─▶ waiting future
    call.answer(reply) ─▶ frame.join ─▶ transport.write

Bounded on both sides: a peer that does not read its answers is not read from either, the requests it
already sent wait in the backlog, and one that reads nothing for a minute is cut off. Knows neither
request codes nor who the peer is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from roquet.ports import Clock, Timer
from roquet.wire.codes import FLAG_ONE_WAY, FLAG_REPLY
from roquet.wire.connection import Connection
from roquet.wire.frame import JSON, Frame, FrameError, join, reply_head
from roquet.wire.reply import Reply
from roquet.wire.row import Header, row_of

log = logging.getLogger("roquet.transport")

WRITE_HIGH_BYTES: Final = 512 * 1024
"""Unsent answers above which the peer counts as slow: two full pull answers."""

OUT_BYTES_MAX: Final = 64 * 1024
"""Answers that are collected in one turn of the loop before they go to the transport."""

STALL_SECONDS_MAX: Final = 60.0
"""How long a slow peer may take to read what it asked for."""


NEVER: Final = float("inf")

_Asked = tuple[asyncio.Future[Frame], int, float]
"""Who waits for an answer, to which request code, and for how many seconds in all."""


class LinkClosed(ConnectionError):
    """The connection went away before the answer came."""


class Call:
    """One request that came in, and the way back to whoever asked."""

    __slots__ = ("answered", "frame", "link")

    def __init__(self, link: Link, frame: Frame) -> None:
        self.link = link
        self.frame = frame
        self.answered = False

    def answer(self, reply: Reply) -> None:
        """Send the answer; a one-way request gets none, and a second answer is a mistake of ours."""
        assert not self.answered, f"request {self.frame.code} was answered twice"
        self.link.send_reply(self.frame, reply)
        self.answered = True  # not before: a reply that cannot be encoded may still be explained


ServeRun = Callable[["Link", list[Frame], int], int]
"""Serves one or more requests that came together, from a place on; returns how many, at least one."""


class Link(asyncio.Protocol):
    """One connection, either direction.

    `serve` gets every request that the peer sends; a `serve_run`, where there is one, gets them instead, with
    those that came in the same breath.
    """

    __slots__ = (
        "_backlog",
        "_clock",
        "_connection",
        "_expiry",
        "_expiry_at",
        "_stalled_since",
        "_transport",
        "_unfinished_since",
        "_wrote",
        "encoding",
        "last_active",
        "local",
        "on_close",
        "peer",
        "serve",
        "serve_run",
        "_opened",
        "_out",
        "_out_bytes",
    )

    def __init__(
        self,
        clock: Clock,
        serve: Callable[[Call], None],
        on_open: Callable[[Link], None] | None = None,
        encoding: int = JSON,
        serve_run: ServeRun | None = None,
    ) -> None:
        self._clock = clock
        self.serve = serve
        self.serve_run = serve_run
        self.encoding = encoding
        self.on_close: list[Callable[[Link], None]] = []
        self.peer: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.last_active = clock.monotonic()
        self._opened = on_open
        self._transport: asyncio.Transport | None = None
        self._connection: Connection[_Asked] = Connection()
        self._expiry: Timer | None = None
        self._expiry_at = NEVER
        self._backlog: deque[Frame] = deque()
        self._out: list[bytes | bytearray | memoryview] = []
        self._out_bytes = 0
        self._stalled_since: float | None = None
        self._unfinished_since: float | None = None
        self._wrote = False

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        if self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        self.last_active = self._clock.monotonic()
        try:
            frames = self._connection.receive_data(data)
        except FrameError as error:
            log.warning("closing %s:%d, which does not speak the protocol: %s", *self.peer, error)
            self.abort()
            return
        if not self._connection.buffered_bytes:
            self._unfinished_since = None
        elif frames or self._unfinished_since is None:
            self._unfinished_since = self.last_active
        if frames:
            if self._backlog:
                self._backlog.extend(frames)
            else:
                self._take(frames)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._backlog.clear()
        self._out, self._out_bytes = [], 0
        if self._expiry is not None:
            self._expiry.cancel()
        for future, _, _ in self._connection.drop_all():
            if not future.done():
                future.set_exception(LinkClosed(f"{self.peer[0]}:{self.peer[1]} closed the connection"))
        for callback in tuple(self.on_close):
            callback(self)
        self.on_close.clear()

    def pause_writing(self) -> None:
        self._stalled_since = self._clock.monotonic()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._stalled_since = None
        frames = list(self._backlog)
        self._backlog.clear()
        self._take(frames)
        if self._stalled_since is None and self._transport is not None:
            self._transport.resume_reading()

    # the rest of Roquet calls these

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_congested(self) -> bool:
        """True while the peer does not read: give it nothing large now."""
        return self._stalled_since is not None

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size() + self._out_bytes

    @property
    def held_bytes(self) -> int:
        """The memory that the peer costs: answers it has not read and the frame it has not finished."""
        return self.unsent_bytes + self._connection.buffered_bytes

    def send_reply(self, request: Frame, reply: Reply) -> None:
        """Answer a request of the peer; nothing happens when it is gone or wanted no answer."""
        transport = self._transport
        if transport is None or request.flag & FLAG_ONE_WAY:
            return
        self._wrote = True
        code, header, body, remark = reply
        ext = {} if header is None else header.encode()
        if not body:
            self._write(reply_head(code, request.opaque, ext, remark, 0, self.encoding))
            return
        parts = (body,) if isinstance(body, bytes) else body
        size = sum(map(len, parts))
        self._write(reply_head(code, request.opaque, ext, remark, size, self.encoding), size, parts)

    def _write(
        self, data: bytes, more_bytes: int = 0, more: Sequence[bytes | bytearray | memoryview] = ()
    ) -> None:
        """Keep bytes until the end of this turn of the loop: they leave with one call of the system."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(data)
        self._out.extend(more)
        self._out_bytes += len(data) + more_bytes
        if self._out_bytes > OUT_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        out, size_bytes = self._out, self._out_bytes
        if not out:
            return
        self._out, self._out_bytes = [], 0
        if self._transport is None:
            return
        if len(out) == 1:
            self._transport.write(out[0])
        elif size_bytes <= OUT_BYTES_MAX:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)

    def write(self, data: bytes) -> None:
        """Send answers that are bytes already."""
        if self._transport is not None:
            self._wrote = True
            self._write(data)

    def send_one_way(self, request: Header, body: bytes = b"") -> None:
        """Send a request that wants no answer; a peer that is gone or does not read misses it."""
        if self._transport is None or self.is_congested:
            return
        self._wrote = True
        opaque = self._connection.next_opaque()
        code = row_of(type(request)).code
        self._write(join(Frame(code, opaque, FLAG_ONE_WAY, request.encode(), body, encoding=self.encoding)))

    async def call(self, request: Header, timeout_s: float, body: bytes = b"") -> Frame:
        """Send a request and return the answer; raises TimeoutError, LinkClosed or TooManyWaiting."""
        return await self.call_frame(
            Frame(row_of(type(request)).code, 0, 0, request.encode(), body), timeout_s
        )

    async def call_frame(self, frame: Frame, timeout_s: float) -> Frame:
        """Send a frame as a request of ours and return the answer.

        One timer serves all that wait, so that a call costs none of its own.
        """
        if self._transport is None:
            raise LinkClosed(f"{self.peer[0]}:{self.peer[1]} is not connected")
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        opaque = self._connection.next_opaque()
        data = join(frame._replace(opaque=opaque, encoding=self.encoding))
        deadline = self._clock.monotonic() + timeout_s
        self._connection.wait_for(opaque, deadline, (future, frame.code, timeout_s))
        if deadline < self._expiry_at:
            self._expire_at(deadline)
        self._wrote = True
        self._write(data)
        try:
            return await future
        except asyncio.CancelledError:
            self._connection.forget(opaque)
            raise

    def _expire_at(self, deadline: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry_at = deadline
        self._expiry = self._clock.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Fail the calls whose time is up, and come back when the next one's is."""
        for future, code, timeout_s in self._connection.expire(self._clock.monotonic()):
            if not future.done():
                future.set_exception(
                    TimeoutError(
                        f"{self.peer[0]}:{self.peer[1]} did not answer {code} within {timeout_s:g} s"
                    )
                )
        self._expiry, self._expiry_at = None, NEVER
        deadline = self._connection.first_deadline()
        if deadline < NEVER:
            self._expire_at(deadline)

    def close(self) -> None:
        """Send what is written, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what is unsent is lost."""
        if self._transport is not None:
            self._transport.abort()

    def is_idle(self, now: float, idle_s: float) -> bool:
        """True when nothing was read or written for so long, or one frame has been unfinished since then.

        Writes are counted by a mark that this call takes away, so that each of them costs no look at the
        clock: ask often.
        """
        if self._wrote:
            self._wrote = False
            self.last_active = now
        if self._unfinished_since is not None and now - self._unfinished_since > idle_s:
            return True
        return now - self.last_active > idle_s

    def is_stuck(self, now: float) -> bool:
        """True when the peer has not read for so long that it should be cut off."""
        return self._stalled_since is not None and now - self._stalled_since > STALL_SECONDS_MAX

    def _take(self, frames: list[Frame]) -> None:
        """Serve frames until the peer turns out not to read its answers; keep the rest."""
        index = 0
        while index < len(frames):
            frame = frames[index]
            if frame.flag & FLAG_REPLY:
                index += 1
                asked = self._connection.match(frame)
                if asked is not None and not asked[0].done():
                    asked[0].set_result(frame)
                continue
            if self._stalled_since is not None:
                self._backlog.extend(frames[index:])
                return
            if self._transport is None:
                return
            if self.serve_run is not None:
                index += self.serve_run(self, frames, index)
            else:
                self.serve(Call(self, frame))
                index += 1


def _address(name: object) -> tuple[str, int]:
    if isinstance(name, tuple) and len(name) >= 2:
        return str(name[0]), int(name[1])
    return "", 0
