"""Reading a queue: which entries one read takes, and how their records are fetched together.

    queue entries ── select ──▶ places in the log ── spans ──▶ a few long reads ── cut ──▶ records

`select` is the whole rule of Apache's getMessage: how far a read scans, when it is full (other limits for
recent messages than for old ones), what happens where the log is already deleted. Pure; `store.store`
does the reads, without waiting when everything is in the page cache. Reference: Apache's
DefaultMessageStore.getMessage, 5.5.0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from roquet.model.match import Match
from roquet.model.status import GetStatus
from roquet.store.format.queue_entry import ENTRY_SIZE_BYTES, FILLER_SIZE, unpack_all, unpack_places
from roquet.store.format.queue_ext import ADDRESS_MAX
from roquet.store.settings import StoreSettings

PULL_BYTES_MIN = 100
PULL_BYTES_MAX = 128 * 1024 * 1024
BULK_COUNT_MAX = 16_384
"""Messages that one bulk read takes at most: choosing them must not hold up others for long."""


STRETCH_BYTES_MAX = 16 * 1024 * 1024
STRETCH_BYTES_EACH = 8 * 1024
"""Bytes that are copied in the time of one read more (measured: 1 µs)."""


class Limit(NamedTuple):
    """How much one read may take."""

    size_bytes: int
    messages: int


class Ask(NamedTuple):
    """One read of a queue; `match` says which messages are wanted."""

    queue_offset: int
    max_count: int
    max_bytes: int
    match: Match
    bulk: bool = False
    """Asked by a reader of millions: the limits for ordinary consumers do not apply."""

    def limits(self, settings: StoreSettings) -> tuple[Limit, Limit]:
        """Return how much the read may take of recent messages and of old ones."""
        if self.bulk:
            bulk = Limit(settings.transfer_bytes_bulk_max, BULK_COUNT_MAX)
            return bulk, bulk
        return (
            Limit(settings.transfer_bytes_in_memory_max, settings.transfer_count_in_memory_max),
            Limit(settings.transfer_bytes_on_disk_max, settings.transfer_count_on_disk_max),
        )

    def scan_count(self, settings: StoreSettings) -> int:
        """Return how many entries the read may look at."""
        return max(-(-settings.filter_message_size_bytes // ENTRY_SIZE_BYTES), self.max_count)


class LogRange(NamedTuple):
    """The part of the log that can be read."""

    min_offset: int
    end_offset: int
    file_size_bytes: int


class Selected(NamedTuple):
    """What a read takes: (log offset, size) of each record, and where the next read begins."""

    status: GetStatus
    next_offset: int
    places: list[tuple[int, int]]
    last_log_offset: int


def select(data: bytes, ask: Ask, log: LogRange, settings: StoreSettings) -> Selected:
    """Choose records from queue entries that begin at the asked offset, by tag (see `store.sifting` too)."""
    max_bytes = min(max(ask.max_bytes, PULL_BYTES_MIN), PULL_BYTES_MAX)
    recent_from = log.end_offset - settings.recent_bytes_max
    recent, old = ask.limits(settings)
    codes = ask.match if isinstance(ask.match, frozenset) else None
    max_count = ask.max_count
    if ask.bulk and codes is None:
        whole = _select_run(data, ask, log, min(max_bytes, recent.size_bytes))
        if whole is not None:
            return whole
    status = GetStatus.NO_MATCHED_MESSAGE
    places: list[tuple[int, int]] = []
    total = scanned = last_log_offset = 0
    skip_before = -1
    for log_offset, size, tag_code in unpack_all(data):
        if places:
            limit, count = recent if log_offset >= recent_from else old
            if len(places) >= min(max_count, count) or total + size > min(max_bytes, limit):
                break
        scanned += 1
        if size == FILLER_SIZE:
            continue
        last_log_offset = log_offset
        if log_offset < skip_before:
            continue
        if codes is not None and tag_code not in codes and tag_code > ADDRESS_MAX:
            continue
        if log_offset < log.min_offset or log_offset + size > log.end_offset:
            # The rest of that log file is gone too: no need to look at each entry of it.
            if not places:
                status = GetStatus.MESSAGE_WAS_REMOVING
            skip_before = log_offset - log_offset % log.file_size_bytes + log.file_size_bytes
            continue
        places.append((log_offset, size))
        total += size
        skip_before = -1
    if places:
        status = GetStatus.FOUND
    return Selected(status, ask.queue_offset + scanned, places, last_log_offset)


def _select_run(data: bytes, ask: Ask, log: LogRange, max_bytes: int) -> Selected | None:
    """Take as many entries as there is room for, in few steps; None when some of them are no records.

    Within a queue log offsets ascend, so that the first and the last one speak for all.
    """
    places = list(unpack_places(data))[: max(min(ask.max_count, BULK_COUNT_MAX), 1)]
    ends = list(accumulate([size for _, size in places]))
    count = max(bisect_right(ends, max_bytes), 1)
    if not places or ends[count - 1] >= FILLER_SIZE or places[0][0] < log.min_offset:
        return None
    last_log_offset, last_size = places[count - 1]
    if last_log_offset + last_size > log.end_offset:
        return None
    return Selected(GetStatus.FOUND, ask.queue_offset + count, places[:count], last_log_offset)


def spans(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join records that lie one behind the other: (log offset, size) of each read to do.

    A span never crosses a log file, because every file ends in a blank.
    """
    joined: list[tuple[int, int]] = []
    for log_offset, size in places:
        if joined and joined[-1][0] + joined[-1][1] == log_offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((log_offset, size))
    return joined


def stretch(places: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return one read (log offset, size) that covers all records; None when it would be far longer.

    Where queues take turns in the log a read of its own for each record costs more than the bytes between.
    """
    first, (last, last_size) = places[0][0], places[-1]
    size_bytes = last + last_size - first
    is_near = size_bytes <= min(STRETCH_BYTES_MAX, len(places) * STRETCH_BYTES_EACH)
    return (first, size_bytes) if is_near else None


def pick(places: Sequence[tuple[int, int]], data: bytearray, log_offset: int) -> list[bytes | memoryview]:
    """Return the records out of a stretch of the log that begins at an offset."""
    view = memoryview(data)
    return [view[start - log_offset : start - log_offset + size] for start, size in places]


def cut(places: Sequence[tuple[int, int]], found: Sequence[bytes]) -> list[bytes | memoryview]:
    """Return the records out of the bytes of their spans; those of a file deleted meanwhile are left out."""
    records: list[bytes | memoryview] = []
    whole = iter(found)
    data, view, position = b"", memoryview(b""), 0
    end = -1
    for log_offset, size in places:
        if log_offset != end:
            data, position = next(whole), 0
            view = memoryview(data)
        end = log_offset + size
        if position + size <= len(data):
            records.append(data if size == len(data) else view[position : position + size])
        position += size
    return records


def slices(places: Sequence[tuple[int, int]], data: bytearray) -> list[bytes | memoryview]:
    """Return the records out of bytes in which they lie one behind the other."""
    view = memoryview(data).toreadonly()
    records: list[bytes | memoryview] = []
    at = 0
    for _, size in places:
        records.append(view[at : at + size])
        at += size
    return records
