"""The simulated clock: virtual time of a SimLoop, and a wall clock that can be made to jump.

Each host has its own, so that their wall clocks may disagree while `monotonic` is shared by all.

    now_ms = START_MS + virtual time + jumps so far
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from roquet.ports import Timer

START_MS = 1_700_000_000_000  # 14 November 2023, 22:13:20 UTC: any fixed moment would do


class SimClock:
    """Virtual time; see `roquet.ports.Clock`."""

    __slots__ = ("_jumped_ms", "_loop", "_start_ms")

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int = START_MS) -> None:
        self._loop = loop
        self._start_ms = start_ms
        self._jumped_ms = 0

    def now_ms(self) -> int:
        # Rounded, since 0.003 * 1000 is a little more than 3 and 0.29 * 1000 a little less than 290.
        return self._start_ms + int(self._loop.time() * 1000 + 1e-6) + self._jumped_ms

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep_until(self, when: float) -> None:
        woken = self._loop.create_future()
        timer = self._loop.call_at(when, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> Timer:
        return self._loop.call_at(when, callback, *args)

    def jump_ms(self, delta_ms: int) -> None:
        """Move the wall clock, in either direction, as an operator or NTP would."""
        self._jumped_ms += delta_ms


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
