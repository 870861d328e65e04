"""Sifting: a read that has to look at records before it knows which it wants.

    queue entries ── next ──▶ places to look at ── judge ──▶ kept, refused ── selected ──▶ as any other read

The store does the reading between `next` and `judge`, with or without waiting. Only properties are looked
at. How much of it all an answer takes is decided by `reading.select`, for all reads alike: it gets the
entries with the verdict in place of their tag code. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from roquet.model.match import Accept
from roquet.store.format import record
from roquet.store.format.queue_entry import FILLER_SIZE, pack, unpack_all
from roquet.store.reading import Ask, LogRange, Selected, select
from roquet.store.settings import StoreSettings

LOOK_COUNT = 64
"""Records looked at together."""

LOOK_BYTES = 256 * 1024
"""The same in bytes; a larger record is looked at alone."""

HOT_BYTES_MAX = 1024 * 1024
"""Bytes that a read looks at on the event loop; one that needs more goes on in a task."""

TOTAL_BYTES_MAX = 64 * 1024 * 1024
"""Bytes that one read looks at in all; then it answers with what it has, and the next one goes on."""

Place = tuple[int, int]

_WANTED = 1
_REFUSED = 0
_VERDICT = frozenset((_WANTED,))


class Sift:
    """One read with a selector. Ask for `next`, read those places, `judge` them, until none is left."""

    def __init__(
        self,
        data: bytes,
        ask: Ask,
        accept: Accept,
        log: LogRange,
        settings: StoreSettings,
        unwanted: frozenset[int] = frozenset(),
    ) -> None:
        """`unwanted` are the log offsets of records that need not be looked at."""
        self._entries = list(unpack_all(data))
        self._ask = ask
        self._accept = accept
        self._log = log
        self._settings = settings
        self._done = 0
        self._kept_bytes = 0
        self._kept: dict[int, bytes | memoryview] = {}
        self._refused = set(unwanted)
        self.looked_bytes = 0

    def next(self) -> list[Place]:
        """Return the places to read next; none when there is enough or nothing more."""
        places: list[Place] = []
        size_bytes = 0
        if self._is_enough():
            return places
        while self._done < len(self._entries) and len(places) < LOOK_COUNT:
            log_offset, size, _ = self._entries[self._done]
            is_open = size != FILLER_SIZE and log_offset not in self._refused
            if is_open and self._is_held(log_offset, size):
                if places and size_bytes + size > LOOK_BYTES:
                    break
                places.append((log_offset, size))
                size_bytes += size
            self._done += 1
        self.looked_bytes += size_bytes
        return places

    def _is_enough(self) -> bool:
        ask = self._ask
        recent, _ = ask.limits(self._settings)
        count = min(max(ask.max_count, 1), recent.messages)
        size_bytes = min(ask.max_bytes, recent.size_bytes)
        is_full = len(self._kept) >= count or self._kept_bytes > size_bytes
        return is_full or self.looked_bytes >= TOTAL_BYTES_MAX

    def _is_held(self, log_offset: int, size: int) -> bool:
        return self._log.min_offset <= log_offset and log_offset + size <= self._log.end_offset

    def judge(self, places: Sequence[Place], found: Sequence[bytes]) -> None:
        """Decide on records, given the bytes of the spans of their places."""
        wholes = iter(found)
        view, position, end = memoryview(b""), 0, -1
        for log_offset, size in places:
            if log_offset != end:
                view, position = memoryview(next(wholes)), 0
            end = log_offset + size
            one = view[position : position + size]
            position += size
            if len(one) < size:
                continue  # its file has gone meanwhile: `select` decides what that means
            if self._accept(record.properties_of(one)):
                self._kept[log_offset] = one
                self._kept_bytes += size
            else:
                self._refused.add(log_offset)

    def selected(self) -> Selected:
        """Return what the read takes of the entries that were looked at."""
        refused = self._refused
        judged = b"".join(
            pack(log_offset, size, _REFUSED if log_offset in refused else _WANTED)
            for log_offset, size, _ in self._entries[: self._done]
        )
        return select(judged, self._ask._replace(match=_VERDICT), self._log, self._settings)

    def records(self, places: Sequence[Place]) -> list[bytes | memoryview]:
        """Return the records of selected places; those of a file deleted meanwhile are left out."""
        return [self._kept[log_offset] for log_offset, _ in places if log_offset in self._kept]
