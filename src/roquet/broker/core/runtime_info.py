"""The running state of a broker as texts: rates, latencies, days, and the table of request 28.

    tick (every second) ─▶ Rates: the last 601 totals of puts and gets ─▶ "10s 60s 600s"
    took(ms)            ─▶ Latency: buckets of the running minute, shown once it is over
    tick                ─▶ Days: totals at local midnight

Tools parse these texts (mqadmin clusterList, brokerStatus, the dashboard), so formats are Apache's to
the blank. Times are given, never read. Reference: StoreStatsService and BrokerStats of Apache 5.5.0.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from roquet.broker.core.stats import Stats

LocalTime = Callable[[int], datetime]
"""The local date and time of milliseconds since 1970."""

RATE_POINTS: Final = 601
"""Ten minutes of seconds, and the point before them."""

_BOUNDS_MS: Final = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
_BOUND_NAMES: Final = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]",
    "[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip

_FINE_MS: Final = (
    *range(1, 21), *range(22, 51, 2), *range(55, 101, 5), *range(110, 201, 10),
    *range(250, 501, 50), *range(600, 1_001, 100), *range(2_000, 10_001, 1_000),
)  # fmt: skip
"""Upper ends of the buckets from which percentiles are read."""


class _Point(NamedTuple):
    now_ms: int
    put: int
    found: int
    missed: int
    transferred: int


class Rates:
    """How much went in and out by the second, over the last ten minutes."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._points: deque[_Point] = deque(maxlen=RATE_POINTS)

    def tick(self, now_ms: int) -> None:
        """Note the totals; to be called every second."""
        totals = self._stats.totals()
        self._points.append(
            _Point(now_ms, totals.put_messages, totals.get_found, self._stats.get_missed, totals.get_messages)
        )

    def texts(self) -> dict[str, str]:
        """Return the five rates; a place stays empty until there are enough seconds for it."""
        return {
            "putTps": self._text(lambda point: point.put),
            "getFoundTps": self._text(lambda point: point.found),
            "getMissTps": self._text(lambda point: point.missed),
            "getTotalTps": " ".join(
                str((self._rate(seconds, _found) or 0.0) + (self._rate(seconds, _missed) or 0.0))
                for seconds in (10, 60, 600)
            ),
            "getTransferredTps": self._text(lambda point: point.transferred),
        }

    def _text(self, total: Callable[[_Point], int]) -> str:
        rates = (self._rate(seconds, total) for seconds in (10, 60, 600))
        return " ".join("" if rate is None else str(rate) for rate in rates)

    def _rate(self, seconds: int, total: Callable[[_Point], int]) -> float | None:
        if len(self._points) <= seconds:
            return None
        begin, end = self._points[-seconds - 1], self._points[-1]
        span_ms = end.now_ms - begin.now_ms
        return (total(end) - total(begin)) / span_ms * 1000 if span_ms > 0 else 0.0


def _found(point: _Point) -> int:
    return point.found


def _missed(point: _Point) -> int:
    return point.missed


class Latency:
    """How long appends took, by the minute."""

    def __init__(self) -> None:
        self.max_ms = 0
        self._coarse = [0] * len(_BOUND_NAMES)
        self._fine = [0] * (len(_FINE_MS) + 1)
        self._shown: tuple[list[int], list[int]] | None = None
        self._since_ms: int | None = None

    def took(self, elapsed_ms: int) -> None:
        """Note how long one append took."""
        if elapsed_ms > self.max_ms:
            self.max_ms = elapsed_ms
        self._coarse[0 if elapsed_ms <= 0 else bisect_right(_BOUNDS_MS, elapsed_ms)] += 1
        self._fine[bisect_left(_FINE_MS, elapsed_ms)] += 1

    def tick(self, now_ms: int) -> None:
        """Show the minute that is over and begin the next."""
        if self._since_ms is None or now_ms < self._since_ms:
            self._since_ms = now_ms
        elif now_ms - self._since_ms > 60_000:
            self._since_ms = now_ms
            self._shown = (self._coarse, self._fine)
            self._coarse = [0] * len(_BOUND_NAMES)
            self._fine = [0] * (len(_FINE_MS) + 1)

    def texts(self) -> dict[str, str]:
        distribution = "null"
        if self._shown is not None:
            pairs = zip(_BOUND_NAMES, self._shown[0], strict=True)
            distribution = "".join(f"{name}:{count} " for name, count in pairs)
        return {
            "putMessageEntireTimeMax": str(self.max_ms),
            "putMessageDistributeTime": distribution,
            "putLatency99": f"{self._percentile(0.99):.2f}",
            "putLatency999": f"{self._percentile(0.999):.2f}",
        }

    def _percentile(self, share: float) -> float:
        """Return the latency that this share of the last minute's appends stayed under."""
        if self._shown is None:
            return 0.0
        counts = self._shown[1]
        wanted = int(sum(counts) * share)
        low_ms = 0
        for high_ms, count in zip(_FINE_MS, counts, strict=False):
            if wanted <= count:
                return low_ms + ((high_ms - low_ms) * wanted / count if count else 0.0)
            wanted -= count
            low_ms = high_ms
        return float(low_ms)


class Days:
    """The totals at the last two local midnights, without the broker's own topics."""

    def __init__(self, stats: Stats, local_time: LocalTime, now_ms: int) -> None:
        self._stats = stats
        self._local_time = local_time
        self._day = local_time(now_ms).date()
        self._puts = (0, 0)
        self._gets = (0, 0)

    def tick(self, now_ms: int) -> None:
        day = self._local_time(now_ms).date()
        if day > self._day:
            self._puts = (self._puts[1], self._stats.user_puts())
            self._gets = (self._gets[1], self._stats.user_gets())
        self._day = day

    def texts(self) -> dict[str, str]:
        return {
            "msgPutTotalYesterdayMorning": str(self._puts[0]),
            "msgPutTotalTodayMorning": str(self._puts[1]),
            "msgPutTotalTodayNow": str(self._stats.user_puts()),
            "msgGetTotalYesterdayMorning": str(self._gets[0]),
            "msgGetTotalTodayMorning": str(self._gets[1]),
            "msgGetTotalTodayNow": str(self._stats.user_gets()),
        }


class RuntimeInfo:
    """What runs by the second and shows in request 28. `tick` must be called every second."""

    def __init__(self, stats: Stats, local_time: LocalTime, now_ms: int) -> None:
        self._stats = stats
        self.boot_ms = now_ms
        self.rates = Rates(stats)
        self.latency = Latency()
        self.days = Days(stats, local_time, now_ms)

    def tick(self, now_ms: int) -> None:
        self.rates.tick(now_ms)
        self.latency.tick(now_ms)
        self.days.tick(now_ms)

    def texts(self, now_ms: int) -> dict[str, str]:
        """Return the part of the table that does not come from the store or a feature."""
        totals = self._stats.totals()
        puts = totals.put_messages or 1  # Apache's own way around a division by zero
        return {
            "bootTimestamp": str(self.boot_ms),
            "runtime": uptime_text(now_ms - self.boot_ms),
            "putMessageTimesTotal": str(puts),
            "putMessageFailedTimes": str(self._stats.put_failed),
            "putMessageSizeTotal": str(totals.put_bytes),
            "putMessageAverageSize": str(totals.put_bytes / puts),
            "getMessageEntireTimeMax": "0",
            **self.rates.texts(),
            **self.latency.texts(),
            **self.days.texts(),
        }


def uptime_text(elapsed_ms: int) -> str:
    """Return `[ 0 days, 1 hours, 2 minutes, 3 seconds ]`."""
    minutes, seconds = divmod(max(elapsed_ms, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days:,} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def size_text(size_bytes: int) -> str:
    """Return a size for people: `1.8 KiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = size_bytes / 1024
    for unit in "KMGTPE":
        if size < 1024 or unit == "E":
            return f"{size:.1f} {unit}iB"
        size /= 1024
    raise AssertionError("the loop ends at E")
