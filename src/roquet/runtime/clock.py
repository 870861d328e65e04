"""The real clock, over whichever event loop is running.

`monotonic` is exact, while uvloop counts its timers in whole milliseconds from the start of the loop
iteration. So a timer is rounded up to the next millisecond of the *loop's* time: it may come a little
late, never early, and code that wakes up and compares `monotonic()` with its deadline always agrees.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from roquet.ports import Timer


class RealClock:
    """The machine's own time; see `roquet.ports.Clock`."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep_until(self, when: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_at(when, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> Timer:
        loop = asyncio.get_running_loop()
        # Both clocks are CLOCK_MONOTONIC; the loop's lags behind by up to one iteration.
        delay_ms = math.ceil((when - loop.time()) * 1000)
        return loop.call_later(max(delay_ms, 0) / 1000, callback, *args)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
