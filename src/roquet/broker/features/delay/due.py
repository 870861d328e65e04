"""When the head of a level's queue may go; pure: both clocks are given.

A queue entry carries the wall-clock time of its delivery. That is the rule, with one exception: an entry
that is due later than a whole delay from now was stored under another clock (it was set back) or under
longer levels. It goes once a whole delay has passed since it was seen there, whatever the wall clock says:
never early, and not hours late. Apache delivers such a message at once, which is early.
"""

from __future__ import annotations


class Due:
    """The judgement of one level. Times in seconds are monotonic."""

    __slots__ = ("_fence_at", "_fence_offset")

    def __init__(self) -> None:
        self._fence_offset = 0
        self._fence_at = 0.0

    def wait_s(
        self, queue_offset: int, due_ms: int, delay_ms: int, now_ms: int, now: float, queue_end: int
    ) -> float:
        """Return how long the entry at `queue_offset` has to wait; 0 or less when it may go.

        `queue_end` is the first offset that no entry has yet: all before it are seen with this one.
        """
        left = (due_ms - now_ms) / 1000
        delay = delay_ms / 1000
        if left > delay and queue_offset >= self._fence_offset:
            self._fence_offset, self._fence_at = queue_end, now
        if queue_offset < self._fence_offset:
            left = min(left, self._fence_at + delay - now)
        return left
