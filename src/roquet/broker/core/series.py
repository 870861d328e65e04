"""One counter over time: points of a minute, an hour and a day, and what each window shows.

    marks of a series    (3, 10) (4, 12)      (8, 13)        sample number, value: only where it has moved
    samples of a window   3   4   5   6   7   8   9          window shows last 7: value(9) − value(3)

Windows are Apache's: 7 points 10 s apart, 7 points 10 min apart, 25 points 1 h apart; a series begins
with a zero one step before its first sample. Times are given, never read. Reference: StatsItem of
Apache 5.5.0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

EARLY_MS_MAX: Final = 500
"""A sample may come this much before its time: timers are not exact."""


class Snapshot(NamedTuple):
    """One counter over one window; `average` is the sum by the number of additions."""

    sum: int = 0
    tps: float = 0.0
    average: float = 0.0


class View(NamedTuple):
    """One counter over its three windows."""

    minute: Snapshot
    hour: Snapshot
    day: Snapshot


class Window:
    """When the last samples of one kind were taken, and which series have moved since the last."""

    __slots__ = ("moved", "number", "points", "stamps", "step_ms")

    def __init__(self, step_ms: int, points: int) -> None:
        self.step_ms = step_ms
        self.points = points
        self.number = -1
        self.stamps: list[int] = []
        self.moved: dict[Series, None] = {}

    def is_due(self, now_ms: int) -> bool:
        """True at the first time and then once a step; a clock that was set back starts afresh."""
        return not self.stamps or not 0 <= now_ms - self.stamps[-1] < self.step_ms - EARLY_MS_MAX

    def stamp(self, number: int) -> int:
        """Return when the sample of this number was taken; it must be among the last."""
        return self.stamps[number - self.number - 1]


class _Marks:
    """A series in one window: (sample number, value, times) after each move, oldest first."""

    __slots__ = ("born", "points")

    def __init__(self, born: int) -> None:
        self.born = born
        self.points: list[tuple[int, int, int]] = []


class Series:
    """One counter that ever grows."""

    __slots__ = ("marks", "moved_ms", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self.moved_ms = 0
        self.marks: list[_Marks | None] = [None, None, None]


def mark(series: Series, index: int, window: Window) -> None:
    """Add a point to a series, and forget those that the window no longer reaches."""
    marks = series.marks[index]
    if marks is None:
        marks = series.marks[index] = _Marks(window.number)
    marks.points.append((window.number, series.value, series.times))
    first = window.number - window.points + 1
    while len(marks.points) > 1 and marks.points[1][0] <= first:
        del marks.points[0]


def snapshot(marks: _Marks | None, window: Window) -> Snapshot:
    """Return the difference between the last and the first point that the window shows."""
    if marks is None:
        return Snapshot()
    first = window.number - window.points + 1
    if marks.born > first:
        begin_ms = window.stamp(marks.born) - window.step_ms
        value = times = 0
    else:
        begin_ms = window.stamp(first)
        _, value, times = max((point for point in marks.points if point[0] <= first), default=marks.points[0])
    last = marks.points[-1]
    total, additions = last[1] - value, last[2] - times
    span_ms = window.stamps[-1] - begin_ms
    return Snapshot(
        total, total * 1000.0 / span_ms if span_ms > 0 else 0.0, total / additions if additions > 0 else 0.0
    )
