"""Room for what is under way: so many messages and so many bytes, and whoever comes later waits in line.

A sender takes room before it sends and gives it back when its message is confirmed or given up, so a
producer's memory has a bound however fast its users are. A message larger than all the room goes alone.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Room:
    """Counts messages and bytes under way."""

    __slots__ = ("_bytes", "_bytes_max", "_empty", "_line", "_messages", "_messages_max")

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._messages = 0
        self._bytes = 0
        self._empty: asyncio.Future[None] | None = None
        self._line: deque[tuple[asyncio.Future[None], int, int]] = deque()

    @property
    def messages(self) -> int:
        """How many messages are under way."""
        return self._messages

    def try_take(self, messages: int, size_bytes: int) -> bool:
        """Take room when there is some and nobody waits for it."""
        if self._line or not self._fits(messages, size_bytes):
            return False
        self._messages += messages
        self._bytes += size_bytes
        return True

    async def take(self, messages: int, size_bytes: int) -> None:
        """Take room, waiting for it behind those who came first."""
        if self.try_take(messages, size_bytes):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, messages, size_bytes)
        self._line.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(messages, size_bytes)  # it had been given just before
            else:
                self._line.remove(entry)
                self._call()  # whoever stands behind may fit
            raise

    async def emptied(self) -> None:
        """Return when nothing is under way any more and nobody waits."""
        while self._messages or self._line:
            if self._empty is None:
                self._empty = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._empty)

    def give(self, messages: int, size_bytes: int) -> None:
        """Give room back."""
        self._messages -= messages
        self._bytes -= size_bytes
        assert self._messages >= 0 and self._bytes >= 0, "more room was given back than taken"
        if self._line:
            self._call()
        if self._empty is not None and not self._messages:
            self._empty.set_result(None)
            self._empty = None

    def _call(self) -> None:
        while self._line:
            turn, messages, size_bytes = self._line[0]
            if turn.done():  # cancelled, and about to take itself out
                return
            if not self._fits(messages, size_bytes):
                return
            self._line.popleft()
            self._messages += messages
            self._bytes += size_bytes
            turn.set_result(None)

    def _fits(self, messages: int, size_bytes: int) -> bool:
        if not self._messages:
            return True
        return self._messages + messages <= self._messages_max and self._bytes + size_bytes <= self._bytes_max
