"""What a load tool counts, and its live line on stderr."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

LINE_SECONDS: Final = 0.5
LATENCIES_MAX: Final = 200_000
"""Enough for percentiles; more would only take memory."""


class Meter:
    """Counts messages and how long they took, and shows both while they come."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.count = 0
        self.failed = 0
        self.latencies_ms: list[float] = []
        self._began = time.monotonic()
        self._last = self._began
        self._shown = (self._began, 0)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def took(self, count: int, seconds: float) -> None:
        """Note messages that were done together."""
        self.came(count)
        if len(self.latencies_ms) < LATENCIES_MAX:
            self.latencies_ms.append(seconds * 1000)

    def came(self, count: int) -> None:
        """Note messages whose way was not measured."""
        self.count += count
        self._last = time.monotonic()

    def begin(self) -> None:
        """Count the time from here on."""
        self._began = self._last = time.monotonic()
        self._shown = (self._began, 0)

    async def show(self) -> None:
        """Print the live line to a terminal, for ever."""
        while True:
            await asyncio.sleep(LINE_SECONDS)
            now = time.monotonic()
            rate = (self.count - self._shown[1]) / (now - self._shown[0])
            self._shown = (now, self.count)
            if sys.stderr.isatty():
                line = f"{self._what} {self.count:,} · {rate:,.0f}/s · {self.seconds:.0f} s"
                print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)

    def result(self) -> dict[str, Any]:
        """Return the figures, up to the last message; clears the live line."""
        seconds = self._last - self._began
        if sys.stderr.isatty():
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
        ordered = sorted(self.latencies_ms)
        return {
            "messages": self.count,
            "failed": self.failed,
            "seconds": round(seconds, 3),
            "per_second": round(self.count / seconds, 1) if seconds else 0.0,
            **({f"p{share}_ms": _percentile(ordered, share) for share in (50, 99)} if ordered else {}),
        }


def _percentile(ordered: list[float], share: int) -> float:
    return round(ordered[min(len(ordered) * share // 100, len(ordered) - 1)], 2)


async def beside(shown: Callable[[], Awaitable[None]], work: Callable[[], Awaitable[object]]) -> None:
    """Do the work while something is shown."""
    showing = asyncio.ensure_future(shown())
    try:
        await work()
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
