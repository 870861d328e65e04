"""Which halves are undecided: the ledger of one half queue; pure.

    queue offset   saved H          frontier                 end of the half queue
                     │  2 is open       │
        done … done  2  done  5  done   6   7   8   9
                     └ open: known by reading    └ 7, 9 ended before anybody read them: `ended`

Behind the frontier whatever is not in `open` is done, which is why a second end of the same half finds
nothing. Before it, halves are young: most are ended within moments and never read. A half that is asked
about is stored again further on; the old offsets lead to the same `Half`, so that a late answer to the
first one counts once. Offsets are queue offsets unless they say otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

DECISIONS_MAX: Final = 10_000
"""Decisions that are remembered, to tell a producer that contradicts itself from one that repeats itself."""

OPS_TOGETHER: Final = 64
"""Records of the op queue that are remembered as one: a restart reads so many in vain at most."""


class Half:
    """One undecided transaction. `queue_offset` and `log_offset` are those of its newest record."""

    __slots__ = (
        "check_times",
        "due",
        "is_busy",
        "known_since",
        "log_offset",
        "offsets",
        "queue_offset",
        "stored_at",
        "topic",
    )

    def __init__(
        self, queue_offset: int, log_offset: int, topic: str, check_times: int, due: float, now: float
    ) -> None:
        self.queue_offset = queue_offset
        self.log_offset = log_offset
        self.topic = topic
        self.check_times = check_times
        self.due = due
        """When it may be asked about, in seconds of the monotonic clock."""
        self.known_since = now
        self.stored_at = now
        """When its newest record was stored, or found after a start."""
        self.offsets = [queue_offset]
        self.is_busy = False
        """An append about it is under way: nobody else may decide anything."""


class Progress(NamedTuple):
    """What a restart may begin from: nothing before these offsets matters any more."""

    half_offset: int
    op_offset: int


class Halves:
    """The ledger. Begins empty at an offset of the half queue and one of the op queue."""

    def __init__(self, half_offset: int, op_offset: int) -> None:
        self.frontier = half_offset
        self.open: dict[int, Half] = {}
        self.next_op_offset = op_offset
        self._older: dict[int, Half] = {}
        self._ended: set[int] = set()
        self._decisions: dict[int, int] = {}
        self._ops: deque[list[int]] = deque()  # first op offset, last one, highest half offset in them

    def find(self, queue_offset: int) -> Half | None:
        """Return the undecided half that a queue offset means, if it is known."""
        return self.open.get(queue_offset) or self._older.get(queue_offset)

    def is_unread(self, queue_offset: int) -> bool:
        """True for a half that nobody has ended and nobody has read yet."""
        return (
            queue_offset >= self.frontier
            and queue_offset not in self._ended
            and queue_offset not in self.open
            and queue_offset not in self._older
        )

    def add(self, half: Half) -> None:
        """Take a half that was read."""
        assert half.queue_offset not in self.open
        self.open[half.queue_offset] = half

    def add_older(self, half: Half, queue_offset: int) -> None:
        """Let an offset that the half had before lead to it too."""
        if queue_offset not in half.offsets:
            half.offsets.insert(0, queue_offset)
            self._older[queue_offset] = half

    def move(self, half: Half, queue_offset: int, log_offset: int, now: float) -> None:
        """Note that a half was stored again: its old record is done."""
        del self.open[half.queue_offset]
        self._older[half.queue_offset] = half
        half.offsets.append(queue_offset)
        half.queue_offset, half.log_offset, half.stored_at = queue_offset, log_offset, now
        self.open[queue_offset] = half

    def close(self, half: Half, decision: int) -> None:
        """Note that a half is decided, for good."""
        for queue_offset in half.offsets:
            self.open.pop(queue_offset, None)
            self._older.pop(queue_offset, None)
            if queue_offset >= self.frontier:
                self._ended.add(queue_offset)
            self._decisions[queue_offset] = decision
        while len(self._decisions) > DECISIONS_MAX:
            del self._decisions[next(iter(self._decisions))]

    def decision(self, queue_offset: int) -> int | None:
        """Return how a half was decided, or None when that is no longer remembered."""
        return self._decisions.get(queue_offset)

    def skip(self, limit: int) -> int | None:
        """Move the frontier over known halves up to `limit`; returns an offset that must be read, or None."""
        while self.frontier < limit:
            if self.is_unread(self.frontier):
                return self.frontier
            self._ended.discard(self.frontier)
            self.frontier += 1
        return None

    def pass_over(self) -> None:
        """Move the frontier over a half that was read: it is open now, or its record is gone."""
        self._ended.discard(self.frontier)
        self.frontier += 1

    def op_stored(self, half_queue_offsets: Iterable[int]) -> None:
        """Note the next record of the op queue."""
        number, highest = self.next_op_offset, max(half_queue_offsets, default=-1)
        self.next_op_offset += 1
        last = self._ops[-1] if self._ops else None
        if last is not None and number - last[0] < OPS_TOGETHER:
            last[1:] = number, max(last[2], highest)
        else:
            self._ops.append([number, number, highest])

    def progress(self) -> Progress:
        """Return from where a restart would have to read."""
        half_offset = min(min(self.open, default=self.frontier), self.frontier)
        ops = self._ops
        while ops and ops[0][2] < half_offset:
            ops.popleft()
        return Progress(half_offset, ops[0][0] if ops else self.next_op_offset)

    def counts(self) -> dict[str, int]:
        """Return how many halves of each topic are undecided."""
        found: dict[str, int] = {}
        for half in self.open.values():
            found[half.topic] = found.get(half.topic, 0) + 1
        return found
