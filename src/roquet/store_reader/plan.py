"""What to read: a snapshot of the log's end, cut into byte ranges that can be read apart from each other.

A range owns the records that begin in it; where they begin is found when it is read. Ranges that hold
nothing of the topics, queues or times that are asked for are left out:

    time     by the store time of the first record of each range and of the next one
    topic    by the consume queues, as far as these are sure to be complete

Queues and times only ever rule a range out; rows are sifted again when they are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from roquet.store.format.columns import OFFSET_MAX, Sieve
from roquet.store.format.record import HEAD_SIZE_BYTES, store_ms_of
from roquet.store_reader.files import LogBytes, LogFile, end_of_log, log_files, next_record

RANGE_BYTES: Final = 8 * 1024 * 1024
"""What is read or left out as a whole."""

CLOCK_SLACK_MS: Final = 10 * 60 * 1000
"""How far a broker's clock may have been set back without a range being ruled out wrongly."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Filter(NamedTuple):
    """What to read; empty means all. `until` is exclusive."""

    topics: tuple[str, ...] = ()
    queue_ids: tuple[int, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def sieve(self) -> Sieve:
        """Return the same as a sieve for records; numbers below zero are damage, and not to be hidden."""
        return Sieve(
            tuple(topic.encode() for topic in self.topics),
            self.queue_ids,
            queue_offset_from=-OFFSET_MAX,
            store_ms_from=-OFFSET_MAX if self.since is None else _ms(self.since),
            store_ms_to=OFFSET_MAX if self.until is None else _ms(self.until),
        )


class Range(NamedTuple):
    """Records that begin in [begin, end) of one file; `limit` is where the snapshot of the log ends."""

    file: LogFile
    begin: int
    end: int
    limit: int
    missing_bytes: int = 0
    """How much of the log is in no file between the end of this range and the next one."""


def plan(path: str, wanted: Filter | None = None, *, range_bytes: int = RANGE_BYTES) -> list[Range]:
    """Return the ranges of a store that may hold what is wanted, as of now; raises NotAStore."""
    wanted = wanted or Filter()
    files = log_files(path)
    end = end_of_log(files)
    held = [file for file in files if file.size_bytes and file.begin < end]
    following = [file.begin for file in held[1:]] + [end] * bool(held)
    cut = [
        part
        for file, begin in zip(held, following, strict=True)
        for part in _cut(file, begin, end, range_bytes)
    ]
    return _by_topic(path, _by_time(cut, wanted), wanted)


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges with those in one that follow each other: where they meet need not be looked for."""
    found: list[Range] = []
    for part in ranges:
        if found and found[-1].file == part.file and found[-1].end == part.begin:
            part = part._replace(begin=found.pop().begin)
        found.append(part)
    return found


def _cut(file: LogFile, following: int, limit: int, range_bytes: int) -> Iterable[Range]:
    """Cut one file into ranges of equal size, so that cores finish together."""
    end = min(limit, file.end)
    count = -(-(end - file.begin) // range_bytes)
    step = -(-(end - file.begin) // count)
    for begin in range(file.begin, end, step):
        is_last = begin + step >= end
        missing_bytes = max(following - file.end, 0) if is_last else 0
        yield Range(file, begin, min(begin + step, end), limit, missing_bytes)


def _ms(time: datetime) -> int:
    """Return the first whole millisecond at a time or after it, UTC unless it says otherwise."""
    utc = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return -((_EPOCH - utc) // timedelta(milliseconds=1))


def _by_time(ranges: Sequence[Range], wanted: Filter) -> list[Range]:
    """Leave out ranges that ended before the time asked for, or began after it."""
    if not ranges or (wanted.since is None and wanted.until is None):
        return list(ranges)
    sieve = wanted.sieve()
    firsts = [_first_ms(part) for part in ranges]
    kept = []
    for index, part in enumerate(ranges):
        following = firsts[index + 1] if index + 1 < len(ranges) else OFFSET_MAX
        is_before = following + CLOCK_SLACK_MS < sieve.store_ms_from
        is_after = firsts[index] - CLOCK_SLACK_MS >= sieve.store_ms_to
        if not is_before and not is_after:
            kept.append(part)
    return kept


def _first_ms(part: Range) -> int:
    """Return the store time of the first record in a range; the end of time where none begins."""
    with LogBytes(part.file) as log:
        begin = next_record(log, part.begin, part.end)
        return OFFSET_MAX if begin is None else store_ms_of(log.read(begin, HEAD_SIZE_BYTES))


def _by_topic(path: str, ranges: list[Range], wanted: Filter) -> list[Range]:
    """Leave out ranges in which no entry of the topics' queues points."""
    folder = os.path.join(path, "consumequeue")
    if not wanted.topics or not os.path.isdir(folder):
        return ranges
    places: set[int] = set()
    complete_to = OFFSET_MAX
    for topic in wanted.topics:
        found = _queue_places(os.path.join(folder, topic), wanted.queue_ids, ranges)
        if found is None:
            return ranges
        places |= found[0]
        complete_to = min(complete_to, found[1])
    return [part for index, part in enumerate(ranges) if index in places or part.end > complete_to]


def _queue_places(
    folder: str, queue_ids: tuple[int, ...], ranges: list[Range]
) -> tuple[set[int], int] | None:
    """Return which ranges a topic's entries point into, and up to which offset its queues are complete.

    None when queues are not there: only the log itself can tell then.
    """
    if not os.path.isdir(folder):
        return None
    begins = [part.begin for part in ranges]
    places: set[int] = set()
    complete_to = OFFSET_MAX
    names = [name for name in os.listdir(folder) if name.isdecimal()]
    if not set(queue_ids) <= set(map(int, names)):
        return None
    for name in names:
        if queue_ids and int(name) not in queue_ids:
            continue
        last = _note_queue(os.path.join(folder, name), begins, places)
        complete_to = min(complete_to, last)
    return (places, complete_to) if names else None


def _note_queue(folder: str, begins: list[int], places: set[int]) -> int:
    """Note the ranges that a queue's entries point into; return the largest offset among them."""
    import numpy as np

    layout = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tag", ">i8")])
    last = 0
    for name in sorted(os.listdir(folder)):
        data = np.fromfile(os.path.join(folder, name), dtype=layout)
        data = data[data["size"] > 0]
        if len(data):
            offsets = data["log_offset"].astype("i8")
            last = max(last, int(offsets.max()))
            found = np.unique(np.searchsorted(np.asarray(begins, "i8"), offsets, side="right") - 1)
            places.update(int(place) for place in found if place >= 0)
    return last
