"""A connection that we opened: it reads always, and makes those wait who write faster than the peer reads.

A server that finds its answers unread stops reading. If we did the same, two ends with much to say would
wait for each other for ever: so one of them reads on, and that is the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from roquet.ports import Clock
from roquet.transport.link import Call, Link, LinkClosed
from roquet.wire.frame import JSON


class Dialed(Link):
    """One connection to a server."""

    __slots__ = ("_waiters",)

    def __init__(self, clock: Clock, serve: Callable[[Call], None], encoding: int = JSON) -> None:
        super().__init__(clock, serve, encoding=encoding)
        self._waiters: set[asyncio.Future[None]] = set()

    def pause_writing(self) -> None:
        self._stalled_since = self._clock.monotonic()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wake_all()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._wake_all()

    async def room(self, timeout_s: float) -> None:
        """Return when there is room for more; raises TimeoutError, or LinkClosed when the peer is gone."""
        deadline = self._clock.monotonic() + timeout_s
        while self.is_congested and self.is_open:
            if self._clock.monotonic() >= deadline:
                raise TimeoutError(
                    f"{self.peer[0]}:{self.peer[1]} did not read what was sent for {timeout_s:g} s"
                )
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            timer = self._clock.call_at(deadline, _wake, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        if not self.is_open:
            raise LinkClosed(f"{self.peer[0]}:{self.peer[1]} closed the connection")

    def _wake_all(self) -> None:
        for waiter in self._waiters:
            _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
