"""Up to where each level's queue is delivered, and how much of that a crash cannot take back; pure.

    {"dataVersion":{…},"logOffset":4096,"offsetTable":{1:120,2:64}}             config/delayOffset.json

`offsets` run ahead with every delivery. What is saved waits until the delivered records are on disk: a
power cut must not take a delivery away and leave the offset behind it. Deliveries that the saved offsets do
not cover yet all lie in the log at `logOffset` or later, so a start reads the log from there and finds them:
a killed broker delivers nothing twice. Apache ignores that member and drops it when it saves; a file
without it is taken as it stands. Reference: ScheduleMessageService of Apache 5.5.0.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import msgspec

from roquet.model.topic import DataVersion

LOG_GROWTH_BYTES_MAX = 64 * 1024 * 1024
"""Log that a start reads at most on top of what was written since the last save."""


class _Stored(msgspec.Struct, rename="camel"):
    data_version: DataVersion = DataVersion()
    log_offset: int | None = None
    offset_table: dict[int, int] = {}


class _Mark(NamedTuple):
    """A delivery: it lies in the log between two offsets, and moved a level to an offset."""

    log_start: int
    log_end: int
    level: int
    queue_offset: int


class Progress:
    """The offsets of all levels."""

    def __init__(self, version_step: int) -> None:
        self.version = DataVersion()
        self.offsets: dict[int, int] = {}
        self.log_offset: int | None = None
        """Where deliveries that are not saved begin in the log; None: no start of ours has said so yet."""
        self.is_changed = False
        self._version_step = max(version_step, 1)
        self._updates = 0
        self._saved: dict[int, int] = {}
        self._marks: deque[_Mark] = deque()
        self._open_at: int | None = None

    def load(self, stored: object) -> None:
        """Take over what delayOffset.json held."""
        read = msgspec.convert(stored, _Stored, strict=False)
        self.version = read.data_version
        self.offsets = {
            level: offset for level, offset in read.offset_table.items() if level > 0 and offset >= 0
        }
        self._saved = dict(self.offsets)
        self.log_offset = read.log_offset

    def dump(self, flushed_offset: int) -> dict[str, Any]:
        """Return what delayOffset.json shall hold; `flushed_offset` is how far the log is on disk."""
        while self._marks and self._marks[0].log_end <= flushed_offset:
            mark = self._marks.popleft()
            self._saved[mark.level] = mark.queue_offset
        starts = [mark.log_start for mark in self._marks]
        if self._open_at is not None:
            starts.append(self._open_at)
        self.log_offset = min(starts, default=flushed_offset)
        self.log_offset = min(self.log_offset, flushed_offset)
        return {
            "dataVersion": msgspec.to_builtins(self.version),
            "logOffset": self.log_offset,
            "offsetTable": dict(sorted(self._saved.items())),
        }

    def saved(self) -> None:
        """What `dump` returned is on disk."""
        self.is_changed = bool(self._marks)

    def is_save_wanted(self, log_end: int) -> bool:
        """True when something moved, or the log has grown so much that a start would read for long."""
        if self.log_offset is None:
            return self.is_changed
        return self.is_changed or log_end - self.log_offset > LOG_GROWTH_BYTES_MAX

    def begin(self, log_offset: int) -> None:
        """Note that a delivery goes into the log now, at `log_offset` or behind it."""
        self._open_at = log_offset

    def end(self) -> None:
        """Note that the delivery that was begun has its answer."""
        self._open_at = None

    def move(self, level: int, queue_offset: int, log_start: int, log_end: int, now_ms: int) -> None:
        """Everything of a level before an offset is delivered, by records between two places of the log."""
        assert queue_offset >= 0
        self.offsets[level] = queue_offset
        self._marks.append(_Mark(log_start, log_end, level, queue_offset))
        self.is_changed = True
        self._updates += 1
        if self._updates % self._version_step == 0:
            self.version = self.version.next(now_ms)
