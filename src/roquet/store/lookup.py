"""Every way to find messages again: by queue offset, by time, by key, by place in the log.

Reads that the page cache can answer do not wait (`read_hot`); all others are coroutines. Nothing here
changes the store. How much one read takes is decided in `store.reading`. Reference: Apache's
DefaultMessageStore and ConsumeQueue, 5.5.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roquet.model.match import Accept, Noted
from roquet.model.status import Boundary, GetStatus, Got
from roquet.store.commitlog import CommitLog
from roquet.store.format import record
from roquet.store.format.queue_entry import ENTRY_SIZE_BYTES, QueueEntry, unpack_all
from roquet.store.format.queue_ext import ADDRESS_MAX, Unit
from roquet.store.index import Index
from roquet.store.noted import tag_codes_of, unwanted, with_tag_codes
from roquet.store.queues import Queue, Queues
from roquet.store.reading import Ask, LogRange, Selected, cut, pick, select, slices, spans, stretch
from roquet.store.settings import StoreSettings
from roquet.store.sifting import HOT_BYTES_MAX, Sift

RECORD_BYTES_MAX = 128 * 1024 * 1024
"""A length field above this is not a record's: it would only cost memory to look."""

QUERY_COUNT_MAX = 64
"""Messages that one query by key returns at most."""


class QueryResult(NamedTuple):
    """Records filed under a key, in log order, and how far the index had come."""

    records: Sequence[bytes]
    index_last_ms: int
    index_last_log_offset: int


class Lookup:
    """The reading half of a store."""

    def __init__(
        self, commitlog: CommitLog, queues: Queues, index: Index | None, settings: StoreSettings
    ) -> None:
        self._log = commitlog
        self._queues = queues
        self._index = index
        self.settings = settings

    def read_hot(self, topic: str, queue_id: int, ask: Ask) -> Got | None:
        """Answer a read without waiting, or None when that needs the disk."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        refused = out_of_range(queue, ask.queue_offset)
        if refused is not None:
            return refused
        if callable(ask.match):
            return self._sift_hot(queue, ask, ask.match)
        for count in self._counts(ask):
            data = queue.try_entries(ask.queue_offset, count)
            if data is None:
                return None
            if not data:
                return no_entries(queue, ask.queue_offset)
            if queue.extension is not None and ask.match is not None:
                units = queue.extension.try_units(tag_codes_of(data))
                if units is None:
                    return None
                data = with_tag_codes(data, units)
            selected = self._select(data, ask)
            if selected.places:
                break
        if not selected.places:
            return self._got(queue, selected, [])
        if ask.bulk and (near := stretch(selected.places)) is not None:
            found_near = self._log.segments.try_read_many((near,))
            if found_near is not None:
                records = pick(selected.places, found_near, near[0])
                return self._got(queue, selected, records, (b"".join(records),))
        joined = spans(selected.places)
        whole = self._log.segments.try_read_many(joined)
        if whole is not None:
            return self._got(queue, selected, slices(selected.places, whole), (whole,))
        found: list[bytes] = []
        for log_offset, size in joined:
            part = self._log.segments.try_read(log_offset, size)
            if part is None:
                return None
            found.append(part)
        return self._got(queue, selected, cut(selected.places, found))

    async def read(self, topic: str, queue_id: int, ask: Ask) -> Got:
        """Answer a read, waiting for the disk where that is needed."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        refused = out_of_range(queue, ask.queue_offset)
        if refused is not None:
            return refused
        if callable(ask.match):
            return await self._sift(queue, ask, ask.match)
        for count in self._counts(ask):
            data = await queue.entries(ask.queue_offset, count)
            if not data:
                return no_entries(queue, ask.queue_offset)
            if queue.extension is not None and ask.match is not None:
                data = with_tag_codes(data, await queue.extension.units(tag_codes_of(data)))
            selected = self._select(data, ask)
            if selected.places:
                break
        found = [await self._log.segments.read(*span) for span in spans(selected.places)]
        return self._got(queue, selected, cut(selected.places, found))

    def _sift_hot(self, queue: Queue, ask: Ask, accept: Accept) -> Got | None:
        data = queue.try_entries(ask.queue_offset, ask.scan_count(self.settings))
        if data is None:
            return None
        if not data:
            return no_entries(queue, ask.queue_offset)
        skipped: frozenset[int] = frozenset()
        if queue.extension is not None and isinstance(accept, Noted):
            units = queue.extension.try_units(tag_codes_of(data))
            if units is None:
                return None
            skipped = unwanted(data, units, accept)
        sift = Sift(data, ask, accept, self._log_range(), self.settings, skipped)
        while places := sift.next():
            if sift.looked_bytes > HOT_BYTES_MAX:
                return None
            found: list[bytes] = []
            for log_offset, size in spans(places):
                part = self._log.segments.try_read(log_offset, size)
                if part is None:
                    return None
                found.append(part)
            sift.judge(places, found)
        selected = sift.selected()
        return self._got(queue, selected, sift.records(selected.places))

    async def _sift(self, queue: Queue, ask: Ask, accept: Accept) -> Got:
        data = await queue.entries(ask.queue_offset, ask.scan_count(self.settings))
        if not data:
            return no_entries(queue, ask.queue_offset)
        skipped: frozenset[int] = frozenset()
        if queue.extension is not None and isinstance(accept, Noted):
            skipped = unwanted(data, await queue.extension.units(tag_codes_of(data)), accept)
        sift = Sift(data, ask, accept, self._log_range(), self.settings, skipped)
        while places := sift.next():
            sift.judge(places, [await self._log.segments.read(*span) for span in spans(places)])
        selected = sift.selected()
        return self._got(queue, selected, sift.records(selected.places))

    def _counts(self, ask: Ask) -> tuple[int, ...]:
        # Without a filter the entries that are wanted suffice, unless the log no longer has their records.
        scan_count = ask.scan_count(self.settings)
        return (scan_count,) if ask.match is not None else (max(ask.max_count, 1), scan_count)

    def _select(self, data: bytes, ask: Ask) -> Selected:
        return select(data, ask, self._log_range(), self.settings)

    def _log_range(self) -> LogRange:
        segments = self._log.segments
        return LogRange(segments.min_offset, self._log.written_offset, segments.file_size_bytes)

    def _got(
        self,
        queue: Queue,
        selected: Selected,
        records: list[bytes | memoryview],
        pieces: Sequence[bytes | bytearray | memoryview] | None = None,
    ) -> Got:
        status = selected.status
        if status is GetStatus.FOUND and not records:
            status = GetStatus.MESSAGE_WAS_REMOVING
        behind = self._log.written_offset - selected.last_log_offset
        return Got(
            status,
            selected.next_offset,
            queue.min_offset,
            queue.max_offset,
            records,
            sum(map(len, records)),
            behind > self.settings.recent_bytes_max,
            records if pieces is None else pieces,
            behind,
        )

    async def queue_entries(self, topic: str, queue_id: int, first: int, count: int) -> list[QueueEntry]:
        """Return up to `count` entries from queue offset `first` on; fewer at the end of the queue."""
        listed = await self._raw_entries(topic, queue_id, first, count)
        if all(entry.tag_code > ADDRESS_MAX for entry in listed):
            return listed
        noted = await self._with_units(topic, queue_id, listed)
        return [await self._with_tag_code(entry, unit) for entry, unit in noted]

    async def queue_units(
        self, topic: str, queue_id: int, first: int, count: int
    ) -> list[tuple[QueueEntry, Unit | None]]:
        """Return entries as they lie in the files, each with its unit of the extension if it has one."""
        listed = await self._raw_entries(topic, queue_id, first, count)
        return await self._with_units(topic, queue_id, listed)

    async def _raw_entries(self, topic: str, queue_id: int, first: int, count: int) -> list[QueueEntry]:
        queue = self._queues.find(topic, queue_id)
        found: list[QueueEntry] = []
        while queue is not None and len(found) < count and queue.min_offset <= first < queue.max_offset:
            data = await queue.entries(first, count - len(found))
            if len(data) < ENTRY_SIZE_BYTES:
                break
            found += map(QueueEntry._make, unpack_all(data))
            first += len(data) // ENTRY_SIZE_BYTES
        return found

    async def _with_units(
        self, topic: str, queue_id: int, listed: list[QueueEntry]
    ) -> list[tuple[QueueEntry, Unit | None]]:
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.extension is None:
            return [(entry, None) for entry in listed]
        units = await queue.extension.units([entry.tag_code for entry in listed])
        return list(zip(listed, units, strict=True))

    async def _with_tag_code(self, entry: QueueEntry, unit: Unit | None) -> QueueEntry:
        """Give an entry its tag code in place of an address; what the extension has lost is in the log."""
        if unit is not None:
            return entry._replace(tag_code=unit.tag_code)
        if entry.tag_code > ADDRESS_MAX or not self._holds(entry.log_offset):
            return entry
        data = await self._log.segments.read(entry.log_offset, entry.size_bytes)
        file_end = self._log.segments.start_of(entry.log_offset) + self._log.segments.file_size_bytes
        scan = record.scan(data, entry.log_offset, file_end, False, self.settings.delay_levels_ms, 1)
        return entry._replace(tag_code=scan.entries[0].tag_code) if scan.entries else entry

    def check_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Return whether the message counts as recent (see `recent_bytes_max`) and is at hand."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return False
        data = queue.try_entries(queue_offset, 1)
        if not data:
            return False
        log_offset = next(unpack_all(data))[0]
        return self._log.written_offset - log_offset <= self.settings.recent_bytes_max

    async def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return when a message was stored, in ms; None when queue or log do not have it."""
        found = await self.queue_entries(topic, queue_id, queue_offset, 1)
        if not found or found[0].is_filler or not self._holds(found[0].log_offset):
            return None
        head = await self._log.segments.read(found[0].log_offset, record.HEAD_SIZE_BYTES)
        return record.store_ms_of(head) if len(head) == record.HEAD_SIZE_BYTES else None

    def _holds(self, log_offset: int) -> bool:
        return self._log.segments.min_offset <= log_offset < self._log.written_offset

    async def offset_by_time(self, topic: str, queue_id: int, ms: int, boundary: Boundary) -> int:
        """Return the queue offset that a time stands for.

        LOWER is the first message stored at `ms` or later (the end of the queue when all are older),
        UPPER the last one stored at `ms` or earlier (the first one when all are younger).
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = (low + high) // 2
            stored = await self.store_time(topic, queue_id, middle)
            # What the log no longer has is older than anything it has.
            is_before = stored is None or (stored < ms if boundary is Boundary.LOWER else stored <= ms)
            if is_before:
                low = middle + 1
            else:
                high = middle
        return low if boundary is Boundary.LOWER else max(low - 1, queue.min_offset)

    async def record_at(self, log_offset: int) -> bytes | None:
        """Return the record that lies at a place of the log; None when no visible one begins there.

        The place may come from outside, and a body may hold what looks like a record: only what the
        record's own queue leads to is given out.
        """
        segments = self._log.segments
        if not self._holds(log_offset):
            return None
        head = await segments.read(log_offset, record.HEAD_SIZE_BYTES)
        size = int.from_bytes(head[:4], "big")
        file_end = segments.start_of(log_offset) + segments.file_size_bytes
        if size > RECORD_BYTES_MAX or log_offset + size > min(self._log.written_offset, file_end):
            return None
        data = await segments.read(log_offset, size)
        return data if await self._is_listed(data, log_offset) else None

    async def records_at(self, places: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """Return the records at several places (log offset, size), None for each that `record_at` would not
        give out: the same, but in few reads where they are at hand."""
        ends_at = self._log.written_offset
        if all(self._holds(log_offset) and log_offset + size <= ends_at for log_offset, size in places):
            whole = self._log.segments.try_read_many(spans(places)) if places else None
            if whole is not None:
                return [
                    data if await self._is_listed(data, log_offset) else await self.record_at(log_offset)
                    for (log_offset, _), data in zip(places, map(bytes, slices(places, whole)), strict=True)
                ]
        return [await self.record_at(log_offset) for log_offset, _ in places]

    async def _is_listed(self, data: bytes, log_offset: int) -> bool:
        """Say whether these bytes are a record, and one that its own queue leads to."""
        segments = self._log.segments
        file_end = segments.start_of(log_offset) + segments.file_size_bytes
        # The checksum is not asked for: a damaged body is given back as it is stored.
        found = record.scan(data, log_offset, file_end, False, (), 1).entries
        if not found or found[0].size_bytes != len(data):
            return False
        entry = found[0]
        listed = await self.queue_entries(entry.topic, entry.queue_id, entry.queue_offset, 1)
        return bool(listed) and listed[0].log_offset == log_offset

    async def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryResult:
        """Return the messages filed under a key and stored within a time, those found last first kept."""
        if self._index is None:
            return QueryResult((), 0, 0)
        count = min(max_count, QUERY_COUNT_MAX)
        places = sorted(await self._index.query(topic, key, count, begin_ms, end_ms))
        found = [await self.record_at(place) for place in places]
        records = [data for data in found if data is not None]
        return QueryResult(records, self._index.last_store_ms, self._index.last_log_offset)


def out_of_range(queue: Queue, queue_offset: int) -> Got | None:
    """Return the answer to a read outside of the queue, or None when it is inside."""
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if queue_offset < low:
        return Got(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if queue_offset == high:
        return Got(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
    if queue_offset > high:
        return Got(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
    return None


def no_entries(queue: Queue, queue_offset: int) -> Got:
    """Return the answer to a read where a queue file has gone meanwhile: go on with the next file."""
    entries_a_file = queue.files.file_size_bytes // ENTRY_SIZE_BYTES
    following = (queue_offset // entries_a_file + 1) * entries_a_file
    return Got(GetStatus.OFFSET_FOUND_NULL, following, queue.min_offset, queue.max_offset)
