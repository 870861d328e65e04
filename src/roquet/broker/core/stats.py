"""What the broker counts: puts and gets by topic, queue and group, over a minute, an hour and a day.

    put, get, add ─▶ one cell a key ─▶ sample (every 10 s) ─▶ series with marks ─▶ view

The hot path touches one cell: the counters that Apache keeps by name are derived from the cells when a
sample is taken, and a series gets a mark only when it has moved (`series`). Times are given, never read.
Names and keys: BrokerStatsManager of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from typing import Final, NamedTuple

from roquet.broker.core.lags import Lags
from roquet.broker.core.series import Series, View, Window, mark, snapshot
from roquet.model import names

SERIES_MAX: Final = 50_000
"""Counters kept at most (about 30 MB); the ones that have been still the longest make room."""

EVICTED_AT_ONCE: Final = SERIES_MAX // 10

IDLE_MS_MAX: Final = 25 * 3_600_000
"""A counter that has not moved for longer than its longest window shows is dropped."""

NAMES: Final = frozenset(
    {
        "TOPIC_PUT_NUMS",
        "TOPIC_PUT_SIZE",
        "TOPIC_PUT_LATENCY",
        "QUEUE_PUT_NUMS",
        "QUEUE_PUT_SIZE",
        "QUEUE_GET_NUMS",
        "QUEUE_GET_SIZE",
        "GROUP_GET_NUMS",
        "GROUP_GET_SIZE",
        "GROUP_GET_LATENCY",
        "GROUP_ACK_NUMS",
        "GROUP_CK_NUMS",
        "SNDBCK_PUT_NUMS",
        "SNDBCK2DLQ_TIMES",
        "DLQ_PUT_NUMS",
        "BROKER_PUT_NUMS",
        "BROKER_GET_NUMS",
        "BROKER_ACK_NUMS",
        "BROKER_CK_NUMS",
        "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC",
        "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC",
        "GROUP_GET_FROM_DISK_NUMS",
        "GROUP_GET_FROM_DISK_SIZE",
        "BROKER_GET_FROM_DISK_NUMS",
        "BROKER_GET_FROM_DISK_SIZE",
        "CONSUMER_REGISTER_TIME",
        "PRODUCER_REGISTER_TIME",
        "CHANNEL_ACTIVITY",
    }
)


class Totals(NamedTuple):
    """All that was counted since the start: messages and bytes in, messages and reads out."""

    put_messages: int = 0
    put_bytes: int = 0
    get_messages: int = 0
    get_found: int = 0


class Stats:
    """The counters of one broker. `sample` must be called at least every ten seconds."""

    __slots__ = (
        "_added",
        "_cluster",
        "_gets",
        "_puts",
        "_sampled_ms",
        "_series",
        "_user_gets",
        "_user_puts",
        "_windows",
        "_totals",
        "get_missed",
        "lags",
        "put_failed",
    )

    def __init__(self, cluster: str, now_ms: int) -> None:
        self._cluster = cluster
        self._sampled_ms = now_ms
        self._user_puts = 0
        self._user_gets = 0
        self._puts: dict[tuple[str, int], list[int]] = {}
        self._gets: dict[tuple[str, int, str], list[int]] = {}
        self._added: dict[tuple[str, str], list[int]] = {}
        self._series: dict[tuple[str, str], Series] = {}
        self._windows = (Window(10_000, 7), Window(600_000, 7), Window(3_600_000, 25))
        self._totals = Totals()
        self.put_failed = 0
        self.get_missed = 0
        self.lags = Lags()

    # the hot path

    def put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None:
        """Count one append of `count` messages."""
        try:
            cell = self._puts[topic, queue_id]
        except KeyError:
            cell = self._puts[topic, queue_id] = [0, 0, 0]
        cell[0] += count
        cell[1] += size_bytes
        cell[2] += 1

    def get(self, topic: str, queue_id: int, group: str, count: int, size_bytes: int) -> None:
        """Count one read that found `count` messages."""
        try:
            cell = self._gets[topic, queue_id, group]
        except KeyError:
            cell = self._gets[topic, queue_id, group] = [0, 0, 0]
        cell[0] += count
        cell[1] += size_bytes
        cell[2] += 1

    def miss(self) -> None:
        """Count one read that found nothing."""
        self.get_missed += 1

    def fail(self) -> None:
        """Count one append that stored nothing."""
        self.put_failed += 1

    def add(self, name: str, key: str, value: int, count: int = 1) -> None:
        """Move any other counter."""
        assert name in NAMES, f"no counter is called {name}"
        try:
            cell = self._added[name, key]
        except KeyError:
            cell = self._added[name, key] = [0, 0]
        cell[0] += value
        cell[1] += count

    # every ten seconds

    def sample(self, now_ms: int) -> None:
        """Turn what was counted into points of the windows that are due; may be called more often."""
        if not any(window.is_due(now_ms) for window in self._windows):
            return
        self._sampled_ms = now_ms
        self._fold()
        for index, window in enumerate(self._windows):
            if not window.is_due(now_ms):
                continue
            window.number += 1
            window.stamps.append(now_ms)
            del window.stamps[: -window.points]
            for series in window.moved:
                mark(series, index, window)
            window.moved.clear()
            if window is self._windows[-1]:
                self._drop_idle()
        if len(self._series) > SERIES_MAX:
            surplus = len(self._series) - SERIES_MAX + EVICTED_AT_ONCE
            self._drop(nsmallest(surplus, self._series, key=lambda named: self._series[named].moved_ms))

    def _fold(self) -> None:
        """Derive the named counters from the cells, and empty these."""
        puts, self._puts = self._puts, {}
        gets, self._gets = self._gets, {}
        added, self._added = self._added, {}
        self._totals = _add_cells(self._totals, puts, gets)
        sums: dict[tuple[str, str], tuple[int, int]] = {}

        def grow(name: str, key: str, value: int, times: int) -> None:
            known = sums.get((name, key), (0, 0))
            sums[name, key] = (known[0] + value, known[1] + times)

        for (topic, queue_id), (count, size_bytes, times) in puts.items():
            grow("TOPIC_PUT_NUMS", topic, count, times)
            grow("TOPIC_PUT_SIZE", topic, size_bytes, times)
            grow("QUEUE_PUT_NUMS", f"{topic}@{queue_id}", count, times)
            grow("QUEUE_PUT_SIZE", f"{topic}@{queue_id}", size_bytes, times)
            grow("BROKER_PUT_NUMS", self._cluster, count, 0)
            if not names.is_system(topic):
                self._user_puts += count
                grow("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", self._cluster, count, 0)
        for (topic, queue_id, group), (count, size_bytes, times) in gets.items():
            grow("GROUP_GET_NUMS", f"{topic}@{group}", count, times)
            grow("GROUP_GET_SIZE", f"{topic}@{group}", size_bytes, times)
            grow("QUEUE_GET_NUMS", f"{topic}@{queue_id}@{group}", count, times)
            grow("QUEUE_GET_SIZE", f"{topic}@{queue_id}@{group}", size_bytes, times)
            grow("BROKER_GET_NUMS", self._cluster, count, 0)
            if not names.is_system(topic):
                self._user_gets += count
                grow("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", self._cluster, count, 0)
        for (name, key), (value, times) in added.items():
            grow(name, key, value, times)
        for named, (value, times) in sums.items():
            self._move(named, value, times)

    def _move(self, named: tuple[str, str], value: int, times: int) -> None:
        series = self._series.get(named)
        if series is None:
            series = self._series[named] = Series()
        series.value += value
        series.times += times
        series.moved_ms = self._sampled_ms
        for window in self._windows:
            window.moved[series] = None

    def _drop_idle(self) -> None:
        oldest_ms = self._sampled_ms - IDLE_MS_MAX
        self._drop([named for named, series in self._series.items() if series.moved_ms < oldest_ms])

    def _drop(self, gone: list[tuple[str, str]]) -> None:
        for named in gone:
            series = self._series.pop(named)
            for window in self._windows:
                window.moved.pop(series, None)

    # looking

    def view(self, name: str, key: str) -> View | None:
        """Return one counter, or None when it has not moved for more than a day."""
        self._fold()
        series = self._series.get((name, key))
        if series is None:
            return None
        minute, hour, day = (
            snapshot(marks, window) for marks, window in zip(series.marks, self._windows, strict=True)
        )
        return View(minute, hour, day)

    def put_tps(self, topic: str) -> float:
        """Return how many messages a second a topic got in the last minute."""
        found = self.view("TOPIC_PUT_NUMS", topic)
        return found.minute.tps if found is not None else 0.0

    def get_tps(self, topic: str, group: str) -> float:
        """Return how many messages a second a group got from a topic in the last minute."""
        found = self.view("GROUP_GET_NUMS", f"{topic}@{group}")
        return found.minute.tps if found is not None else 0.0

    def totals(self) -> Totals:
        """Return what was counted since the start, up to now."""
        return _add_cells(self._totals, self._puts, self._gets)

    def user_puts(self) -> int:
        """Return all messages put so far, but for the broker's own topics."""
        self._fold()
        return self._user_puts

    def user_gets(self) -> int:
        """Return all messages got so far, but for the broker's own topics."""
        self._fold()
        return self._user_gets

    def forget_topic(self, topic: str) -> None:
        """Drop the counters of a topic that was deleted."""
        self._fold()
        gone = []
        for name, key in self._series:
            place = 1 if name.endswith("_LATENCY") else 0
            if not name.startswith("BROKER_") and key.split("@")[place : place + 1] == [topic]:
                gone.append((name, key))
        self._drop(gone)

    def forget_group(self, group: str) -> None:
        """Drop the counters of a group that was deleted."""
        self._fold()
        self.lags.forget(group)
        of_groups = ("GROUP_", "QUEUE_GET_", "SNDBCK_")
        self._drop(
            [
                (name, key)
                for name, key in self._series
                if name.startswith(of_groups) and key.rpartition("@")[2] == group
            ]
        )


def _add_cells(
    totals: Totals,
    puts: Mapping[tuple[str, int], list[int]],
    gets: Mapping[tuple[str, int, str], list[int]],
) -> Totals:
    return Totals(
        totals.put_messages + sum(cell[0] for cell in puts.values()),
        totals.put_bytes + sum(cell[1] for cell in puts.values()),
        totals.get_messages + sum(cell[0] for cell in gets.values()),
        totals.get_found + sum(cell[2] for cell in gets.values()),
    )
