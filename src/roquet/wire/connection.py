"""One end of a connection, without the connection: bytes in → frames out, requests out → bytes.

Both sides of a stream may ask. Requests that wait for an answer are filed by opaque; an answer is
matched to its request, a late or forged one is dropped, and what is never answered expires. Knows
nothing of sockets, clocks (the caller passes deadlines and the time) or what requests mean.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from roquet.wire.frame import FRAME_BYTES_MAX, Frame, split

WAITING_MAX: Final = 65_535
"""Requests that may wait for an answer on one connection; Apache's client allows as many."""

Token = TypeVar("Token")


class TooManyWaiting(Exception):
    """The peer owes so many answers that another question makes no sense."""


class _Waiting(NamedTuple, Generic[Token]):
    deadline: float
    token: Token


class Connection(Generic[Token]):
    """The protocol state of one stream; `Token` is what the caller files with a request."""

    __slots__ = ("_opaque", "_received", "_waiting")

    def __init__(self) -> None:
        self._received = bytearray()
        self._opaque = 0
        self._waiting: dict[int, _Waiting[Token]] = {}

    def receive_data(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes; raises FrameError, after which the stream is dead.

        What is kept back is at most one unfinished frame, so it is bounded by the frame limit.
        """
        received = self._received
        if not received:
            frames, used = split(data)
            if used < len(data):
                received += data[used:] if used else data
            return frames
        received += data
        if len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big") <= FRAME_BYTES_MAX:
            return []
        frames, used = split(received)
        del received[:used]
        return frames

    @property
    def buffered_bytes(self) -> int:
        """How much of an unfinished frame is held."""
        return len(self._received)

    def next_opaque(self) -> int:
        """Return a number that no waiting request has."""
        while True:
            self._opaque = self._opaque + 1 & 0x7FFFFFFF
            if self._opaque not in self._waiting:
                return self._opaque

    def wait_for(self, opaque: int, deadline: float, token: Token) -> None:
        """File a request that was sent; the token comes back with the answer or when it expires."""
        if len(self._waiting) >= WAITING_MAX:
            raise TooManyWaiting(f"{WAITING_MAX} requests wait for an answer")
        self._waiting[opaque] = _Waiting(deadline, token)

    def match(self, frame: Frame) -> Token | None:
        """Return the token of the request that `frame` answers; None when nobody waits for it."""
        found = self._waiting.pop(frame.opaque, None)
        return None if found is None else found.token

    def forget(self, opaque: int) -> None:
        """Stop waiting for an answer."""
        self._waiting.pop(opaque, None)

    def expire(self, now: float) -> list[Token]:
        """Return and forget the tokens whose deadline has passed."""
        late = [opaque for opaque, waiting in self._waiting.items() if waiting.deadline <= now]
        return [self._waiting.pop(opaque).token for opaque in late]

    def first_deadline(self) -> float:
        """Return when the next request expires; infinity when none waits."""
        return min((waiting.deadline for waiting in self._waiting.values()), default=float("inf"))

    def drop_all(self) -> list[Token]:
        """Return and forget every waiting token: the connection is gone."""
        tokens = [waiting.token for waiting in self._waiting.values()]
        self._waiting.clear()
        self._received.clear()
        return tokens
