"""The index: from a message's key to the places in the log where it was stored.

Fed by dispatch behind every batch of appends, asked by queries. It is a view of the log: a file that
is damaged, or not known to be on disk after a crash, is deleted, and `rebuild_from` says which part
of the log must be put again (putting twice changes nothing). It compares hashes only: the reader of
the log must check that the record really has the key.

    put     entries ▸ slot words ▸ header, in this order: a number beyond the header's count is followed
            down its chain, so a process that dies in between leaves nothing that is not repaired
    query   newest file first, newest entry first; links must go down, so damage always ends

Slots are read and written by position, not through a mapping: a store into a mapped page can stall
the event loop behind the journal. Measured beside a mapping: about 2 µs more for a key.
Reference: Apache's IndexService and IndexFile, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from roquet.model.message import Entry, SysFlag
from roquet.ports import Clock, Disk, File
from roquet.store.format.index_page import (
    EMPTY_HEADER,
    ENTRY,
    ENTRY_BYTES,
    HEADER,
    HEADER_BYTES,
    INT_MIN,
    SLOT,
    SLOT_BYTES,
    Geometry,
    Header,
    key_hash,
    parse_header,
    seconds_since,
)

log = logging.getLogger(__name__)

QUERY_COUNT_MAX = 64  # Apache's maxMsgsNumBatch
QUERY_STEPS_MAX = 200_000  # entries looked at for one query; a hot key's chain may be millions long
STEPS_BETWEEN_PAUSES = 500  # about a millisecond of the event loop
WARM_STEP_BYTES = 1 << 20

_ROLLBACK = int(SysFlag.TRANSACTION_MASK)  # a plain number: flags cost a microsecond for each message


class IndexFile:
    """One file and its header, as far as it is known to be written."""

    __slots__ = ("file", "header", "is_deleted", "is_dirty", "name", "path")

    def __init__(self, name: str, path: str, header: Header) -> None:
        self.name = name
        self.path = path
        self.header = header
        self.file: File | None = None
        self.is_dirty = False
        self.is_deleted = False


class Wanted(NamedTuple):
    """What a query looks for."""

    key_hash: int
    begin_ms: int
    end_ms: int
    count_max: int


class Index:
    """All index files of a store. `load` first; then `put` in log order, one caller."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        slots: int,
        max_entries: int,
        clock: Clock,
        on_roll: Callable[[], None],
    ) -> None:
        """`on_roll` is called when a file is full and the next one begun: `flush` soon after."""
        assert slots > 0 and max_entries > 1
        self._disk = disk
        self._folder = folder
        self._geometry = Geometry(slots, max_entries)
        self._clock = clock
        self._on_roll = on_roll
        self._files: list[IndexFile] = []
        self._synced_ms = 0
        self.rebuild_from: int | None = None

    @property
    def last_store_ms(self) -> int:
        """Store time of the newest entry; 0 when there is none."""
        return self._newest().end_ms

    @property
    def last_log_offset(self) -> int:
        """Log offset of the newest entry; 0 when there is none."""
        return self._newest().end_log_offset

    def _newest(self) -> Header:
        """Return the header of the last file that has entries; the one behind it may be just begun."""
        for file in reversed(self._files):
            if not file.header.is_empty:
                return file.header
        return EMPTY_HEADER

    @property
    def synced_ms(self) -> int:
        """Store time up to which entries are on disk: what the checkpoint may say."""
        return self._synced_ms

    @property
    def file_names(self) -> list[str]:
        return [file.name for file in self._files]

    # Start and end.

    def load(self, safe_ms: int | None) -> None:
        """Open what is there. `safe_ms` is None after a clean stop, else what the checkpoint vouches for.

        The first file that is damaged or not vouched for is deleted with all later ones. Afterwards
        `rebuild_from` is the log offset from which the log must be put again, None when nothing is
        missing; an index without files asks for 0.
        """
        assert not self._files
        why = ""
        for entry in self._disk.list_dir(self._folder):
            path = f"{self._folder}/{entry.name}"
            if entry.is_dir or not (entry.name.isascii() and entry.name.isdigit()):
                log.warning("leaving %s alone: an index file is named by digits", path)
                continue
            if why:
                log.warning("deleting %s too: it follows a file that must be rebuilt", path)
                self._disk.remove(path)
                continue
            found = self._look_at(path, entry.size_bytes, safe_ms)
            if isinstance(found, Header):
                self._files.append(IndexFile(entry.name, path, found))
            else:
                why = found
                log.warning(
                    "deleting index file %s: %s; it is rebuilt from log offset %d",
                    path,
                    why,
                    self.last_log_offset,
                )
                self._disk.remove(path)
        self.rebuild_from = self.last_log_offset if why or not self._files else None
        self._synced_ms = self.last_store_ms
        if self._files:
            self._warm(self._files[-1])

    def _look_at(self, path: str, size_bytes: int, safe_ms: int | None) -> Header | str:
        if size_bytes != self._geometry.file_size_bytes:
            return f"it has {size_bytes} bytes instead of {self._geometry.file_size_bytes}"
        file = self._disk.open(path)
        try:
            header = parse_header(file.read_now(0, HEADER_BYTES), self._geometry)
        finally:
            file.close()
        if isinstance(header, Header) and safe_ms is not None and header.end_ms > safe_ms:
            return f"it reaches to {header.end_ms} ms, and only {safe_ms} ms was known to be on disk"
        return header

    def _warm(self, file: IndexFile) -> None:
        """Read the slots once, so that `put` finds them in the page cache."""
        position, end = 0, self._geometry.entry_position(0)
        while position < end:
            position += len(self._open(file).read_now(position, min(WARM_STEP_BYTES, end - position)))

    async def flush(self) -> None:
        """Put all files on disk. Costly under load (each slot page is dirty): do it seldom."""
        last_ms = self.last_store_ms
        for file in list(self._files):
            if file.is_dirty and not file.is_deleted:
                header = file.header
                await self._open(file).sync()
                file.is_dirty = file.header is not header
        if self._files:
            self._disk.sync_dir(self._folder)
        self._synced_ms = last_ms

    def flush_now(self) -> None:
        """Like `flush`, blocking: for start-up and shutdown only."""
        for file in self._files:
            if file.is_dirty:
                self._open(file).sync_now()
                file.is_dirty = False
        if self._files:
            self._disk.sync_dir(self._folder)
        self._synced_ms = self.last_store_ms

    def close(self) -> None:
        for file in self._files:
            if file.file is not None:
                file.file.close()
                file.file = None

    def remove_before(self, log_min_offset: int) -> None:
        """Delete the files, except the last, that lead only to log offsets which are gone."""
        while len(self._files) > 1 and self._files[0].header.end_log_offset < log_min_offset:
            self._delete(self._files.pop(0))

    def _delete(self, file: IndexFile) -> None:
        if file.file is not None:
            file.file.close()
            file.file = None
        file.is_deleted = True
        self._disk.remove(file.path)

    def _open(self, file: IndexFile) -> File:
        if file.file is None:
            file.file = self._disk.open(file.path)
        return file.file

    # Writing.

    def put(self, entries: Sequence[Entry]) -> None:
        """File the entries under their keys; those that were put before are skipped.

        Raises OSError when the disk refuses; then nothing counts as put, and the same entries may be
        put again.
        """
        run: list[tuple[int, int, int]] = []  # key hash, log offset, store ms
        header = self._newest()
        newest = header.end_log_offset if not header.is_empty else -1
        room = self._room()
        for entry in entries:
            keys = entry.keys
            if not keys or entry.log_offset <= newest:
                continue
            if entry.sys_flag & _ROLLBACK == _ROLLBACK:
                continue  # a rollback
            # All keys of a record go into one file, so that "put before" is true for all or none.
            if len(run) + len(keys) > room and (run or self._has_entries()):
                self._write(run)
                run = []
                self._roll()
                room = self._room()
            log_offset, topic, store_ms = entry.log_offset, entry.topic, entry.store_ms
            for key in keys[: self._geometry.max_entries - 1]:
                run.append((key_hash(topic, key), log_offset, store_ms))
            newest = log_offset
        self._write(run)

    def _has_entries(self) -> bool:
        return bool(self._files) and not self._files[-1].header.is_empty

    def _room(self) -> int:
        if not self._files:
            return self._geometry.max_entries - 1
        return self._geometry.max_entries - self._files[-1].header.next_number

    def _write(self, run: list[tuple[int, int, int]]) -> None:
        if not run:
            return
        if not self._files:
            self._begin_file()
        current = self._files[-1]
        file = self._open(current)
        geometry, header = self._geometry, current.header
        begin_ms = header.begin_ms if not header.is_empty else run[0][2]
        begin_log_offset = header.begin_log_offset if not header.is_empty else run[0][1]
        first = number = header.next_number
        used_slots = header.used_slots
        heads: dict[int, int] = {}
        packed = bytearray(len(run) * ENTRY_BYTES)
        position = 0
        slots, pack = geometry.slots, ENTRY.pack_into
        for hashed, log_offset, store_ms in run:  # the send path: no calls that can be avoided
            slot = abs(hashed) % slots if hashed != INT_MIN else 0
            previous = heads.get(slot)
            if previous is None:
                previous = self._head(file, slot, first)
                used_slots += previous == 0
            pack(packed, position, hashed, log_offset, seconds_since(begin_ms, store_ms), previous)
            position += ENTRY_BYTES
            heads[slot] = number
            number += 1
        current.is_dirty = True
        file.write_at(geometry.entry_position(first), packed)
        write, pack_slot = file.write_at, SLOT.pack
        for slot, head in heads.items():
            write(HEADER_BYTES + slot * SLOT_BYTES, pack_slot(head))
        after = Header(
            begin_ms, run[-1][2], begin_log_offset, run[-1][1], min(used_slots, geometry.slots), number
        )
        file.write_at(0, HEADER.pack(*after))
        current.header = after

    def _head(self, file: File, slot: int, next_number: int) -> int:
        """Return the newest entry of a slot that counts.

        The read may block when the page is not cached; `load` has made that rare.
        """
        head: int = SLOT.unpack(file.read_now(HEADER_BYTES + slot * SLOT_BYTES, SLOT_BYTES))[0]
        while head >= next_number:
            # Left by a write that did not reach the header. Its entries were written before the slot.
            if head >= self._geometry.max_entries:
                return 0
            previous: int = ENTRY.unpack(file.read_now(self._geometry.entry_position(head), ENTRY_BYTES))[3]
            head = previous if previous < head else 0
        return max(head, 0)

    def _roll(self) -> None:
        self._begin_file()
        self._on_roll()

    def _begin_file(self) -> None:
        if not self._files:
            self._disk.make_dirs(self._folder)
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000)
        name = f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}"
        # Names give the order, also when the clock was turned back.
        if self._files and name <= self._files[-1].name:
            name = _next_name(self._files[-1].name)
        while self._disk.exists(f"{self._folder}/{name}"):
            name = _next_name(name)
        path = f"{self._folder}/{name}"
        created = IndexFile(name, path, EMPTY_HEADER)
        created.file = self._disk.open(path, self._geometry.file_size_bytes)
        self._files.append(created)

    # Reading.

    async def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Return log offsets of records that probably have the key, newest first.

        Times are store times, compared in whole seconds behind their file's first entry. At most 64
        are returned; different keys with the same hash are among them.
        """
        wanted = Wanted(key_hash(topic, key), begin_ms, end_ms, min(max_count, QUERY_COUNT_MAX))
        found: list[int] = []
        steps = 0
        for file in reversed(list(self._files)):
            header = file.header
            if header.is_empty or header.begin_ms > end_ms or file.is_deleted:
                continue
            if header.end_ms < begin_ms or len(found) >= wanted.count_max or steps >= QUERY_STEPS_MAX:
                break
            steps = await self._follow(file, wanted, found, steps)
        return found

    async def _follow(self, file: IndexFile, wanted: Wanted, found: list[int], steps: int) -> int:
        """Walk one chain, adding to `found`; return the number of steps that the query has made."""
        geometry, header, opened = self._geometry, file.header, self._open(file)
        slot = geometry.slot_position(geometry.slot_of(wanted.key_hash))
        number: int = SLOT.unpack(await _read(opened, slot, SLOT_BYTES))[0]
        # A file that is deleted or closed while we wait ends its chain.
        while 0 < number < geometry.max_entries and len(found) < wanted.count_max and file.file is opened:
            word, log_offset, seconds, previous = ENTRY.unpack(
                await _read(opened, geometry.entry_position(number), ENTRY_BYTES)
            )
            if number < header.next_number:
                store_ms = header.begin_ms + seconds * 1000
                if store_ms < wanted.begin_ms:
                    break
                if word == wanted.key_hash and store_ms <= wanted.end_ms:
                    found.append(log_offset)
            if previous >= number:
                log.warning("entry %d of %s leads to %d: its chain ends here", number, file.path, previous)
                break
            number = previous
            steps += 1
            if steps >= QUERY_STEPS_MAX:
                log.warning("query stopped after %d entries in %s: its chain is too long", steps, file.path)
                break
            if steps % STEPS_BETWEEN_PAUSES == 0:
                await self._clock.sleep_until(self._clock.monotonic())
        return steps


async def _read(file: File, position: int, size: int) -> bytes:
    data = file.try_read(position, size)
    return data if data is not None else await file.read(position, size)


def _next_name(name: str) -> str:
    return f"{int(name) + 1:0{len(name)}d}"
