"""A walk over the log's records from a place to the end, in big blocking reads.

Used by recovery and by rebuilds. A place that is no record ends the walk, unless it lies in the part of
the log that is known to have been on disk: then the walk goes on with the next verified record, because
a flipped bit must not take everything behind it away. Behind that part it is a torn write, and nothing
after it was promised. Old bytes from before a crash cannot be mistaken for the next record: their store
time lies before that of the records in front of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from roquet.model.message import Entry
from roquet.store.format import record
from roquet.store.format.record import Stop, Survey
from roquet.store.segments import Segments
from roquet.store.settings import StoreSettings

log = logging.getLogger("roquet.store")

CHUNK_BYTES = 8 * 1024 * 1024
"""Bytes scanned at once: about 25 messages for each of a thousand queues, whose entries are added at once."""

_MAGIC_START = record.MAGIC_V1.to_bytes(4, "big")[:3]
_MAGIC_AT = 4
_LOG_OFFSET_AT = 28


def first_store_ms(segments: Segments, start: int) -> int:
    """Return the store time of a log file's first record, 0 when it has none."""
    head = segments.read_now(start, record.HEAD_SIZE_BYTES)
    magic = int.from_bytes(head[4:8], "big")
    if magic not in (record.MAGIC_V1, record.MAGIC_V2) or len(head) < record.HEAD_SIZE_BYTES:
        return 0
    return record.store_ms_of(head)


class Durable(NamedTuple):
    """The part of the log that a checkpoint vouches for: before an offset, or stored before a time.

    Records of the very same millisecond may have been written after the sync.
    """

    before_offset: int
    before_ms: int


class Stretch(Sequence[Entry]):
    """Records one behind the other: what queues and index need of them, and on demand an entry for each.

    A gigabyte of small messages would be three million entries, which mostly nobody looks at.
    """

    __slots__ = ("_data", "_delays_ms", "_entries", "_file_end", "log_offset", "survey")

    def __init__(
        self, survey: Survey, data: bytes, log_offset: int, file_end: int, delays_ms: Sequence[int]
    ) -> None:
        self.survey = survey
        self._data = data
        self.log_offset = log_offset
        self._file_end = file_end
        self._delays_ms = delays_ms
        self._entries: list[Entry] | None = None

    def _made(self) -> list[Entry]:
        if self._entries is None:
            count = self.survey.record_count
            self._entries = record.scan(
                self._data, self.log_offset, self._file_end, False, self._delays_ms, count
            ).entries
        return self._entries

    def __len__(self) -> int:
        return self.survey.record_count

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        return self._made()[index]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._made())


class LogScan:
    """One walk. `end_offset` and `last_store_ms` say where it came to, once it is over."""

    def __init__(self, segments: Segments, settings: StoreSettings, durable: Durable | None = None) -> None:
        """`durable` is what is known to have been synced; without it, all of the log."""
        self._segments = segments
        self._durable = durable
        self._check_crc = settings.check_crc_on_recover
        self._delays_ms = settings.delay_levels_ms
        self.end_offset = 0
        self.last_record_offset = 0
        self.last_store_ms = 0

    def records(self, start: int, stop: int | None = None) -> Iterator[Stretch]:
        """Yield all records from `start` on, in log order, up to `stop` if it is given."""
        segments = self._segments
        self.end_offset = start
        size = CHUNK_BYTES
        limit = segments.end_capacity if stop is None else stop
        while self.end_offset < limit:
            at = self.end_offset
            file_end = segments.start_of(at) + segments.file_size_bytes
            data = segments.read_now(at, min(size, file_end - at))
            found = self._survey(data, at, file_end, self._check_crc)
            size = CHUNK_BYTES
            self.end_offset = found.survey.end_offset
            if found:
                self.last_store_ms = max(self.last_store_ms, found.survey.last_store_ms)
                self.last_record_offset = found.survey.last_log_offset
                yield found
            if found.survey.stop is Stop.FILE_END:
                self.end_offset = file_end
            elif found.survey.stop is Stop.ZEROS:
                return
            elif found.survey.stop is Stop.MORE:
                size = max(size, found.survey.size_bytes)
            else:
                damaged = self._skip(found.survey.end_offset, file_end, found.survey.reason)
                if damaged is None:
                    return
                if damaged:
                    yield damaged

    def _survey(self, data: bytes, at: int, file_end: int, check_crc: bool) -> Stretch:
        survey = record.survey(data, at, file_end, check_crc, self._delays_ms)
        return Stretch(survey, data, at, file_end, self._delays_ms)

    def _skip(self, at: int, file_end: int, reason: str) -> Stretch | None:
        """Go on behind a broken record; return it if it can be read, None when the log ends here."""
        path = self._segments.path_of(at)
        resumed = self._next_record(at, file_end)
        if resumed is None:
            log.warning("the log ends at %d in %s: %s", at, path, reason)
            return None
        data = self._segments.read_now(at, resumed - at)
        size = int.from_bytes(data[:4], "big")
        found = self._survey(data[:size], at, file_end, False)
        self.end_offset = resumed
        end_offset = found.survey.end_offset
        if found and (end_offset == resumed or resumed == file_end):
            self.end_offset = end_offset
            log.error(
                "damaged record at %d in %s: %s; it is kept as it is, a replica may have it whole",
                at, path, reason,
            )  # fmt: skip
            return found
        log.error(
            "%d bytes at %d in %s are no records: %s; skipped, the log goes on at %d. "
            "Messages in them are lost: check the disk",
            resumed - at, at, path, reason, resumed,
        )  # fmt: skip
        return self._survey(b"", at, file_end, False)

    def _next_record(self, at: int, file_end: int) -> int | None:
        """Return where the next verified record begins, in this file or at the start of the next."""
        position = at + 1
        while position < file_end:
            data = self._segments.read_now(position, min(CHUNK_BYTES, file_end - position))
            hit = data.find(_MAGIC_START)
            while hit >= 0:
                candidate = position + hit - _MAGIC_AT
                if candidate > at and self._is_record(candidate, file_end):
                    return candidate
                hit = data.find(_MAGIC_START, hit + 1)
            # A magic that is cut in two by the end of the chunk is found by the next one.
            position += len(data) if position + len(data) == file_end else len(data) - len(_MAGIC_START)
        if self._is_record(file_end, file_end + self._segments.file_size_bytes):
            return file_end
        return None

    def _is_record(self, at: int, file_end: int) -> bool:
        head = self._segments.read_now(at, record.HEAD_SIZE_BYTES)
        if len(head) < record.HEAD_SIZE_BYTES:
            return False
        if int.from_bytes(head[_LOG_OFFSET_AT : _LOG_OFFSET_AT + 8], "big") != at:
            return False
        size = int.from_bytes(head[:4], "big")
        store_ms, durable = record.store_ms_of(head), self._durable
        if at + size > file_end or store_ms < self.last_store_ms:
            return False
        if durable is not None and at >= durable.before_offset and store_ms >= durable.before_ms:
            return False
        data = self._segments.read_now(at, size)
        return bool(record.scan(data, at, file_end, True, (), 1).entries)
