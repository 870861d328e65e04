"""The index: from a message's key to the places in the log where it was stored.

Fed by dispatch behind every batch of appends, asked by queries. It is a view of the log: a file that
is damaged is deleted, and `rebuild_from` says which part of the log must be put again (putting twice
changes nothing). It compares hashes only: the reader of the log must check that the record has the key.

    put         rows of keys ─▶ the last file's table in memory; a full file is followed by the next
    write_out   once a second, in parts of a millisecond: memory ─▶ files         flush: and on disk
    query       newest file first, newest entry first; links must go down, so damage always ends

No send waits for it or fails because of it: when the disk refuses, entries stay in memory up to
`MEMORY_BYTES_MAX` and `error` says so. After an unclean stop a file is believed when its entries prove
each other right (see `index_file`), and the log behind the last one is put again. Apache deletes what the
checkpoint does not vouch for instead (see `index_vouch`); our rule holds for its files as well.
Reference: Apache's IndexService and IndexFile, 5.5.0.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

from roquet.model.message import Entry
from roquet.ports import Clock, Disk, File, FileStat
from roquet.store.format.entries import ROW, key_rows
from roquet.store.format.index_page import (
    EMPTY_HEADER,
    ENTRY,
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    Geometry,
    Header,
    key_hash,
    parse_header,
)
from roquet.store.index_file import PENDING_BYTES_MAX, IndexFile

log = logging.getLogger(__name__)

QUERY_COUNT_MAX = 64  # Apache's maxMsgsNumBatch
QUERY_STEPS_MAX = 200_000  # entries looked at for one query; a hot key's chain may be millions long
STEPS_BETWEEN_PAUSES = 500  # about a millisecond of the event loop

MEMORY_BYTES_MAX = 64 << 20
"""What waits for a disk that refuses, 3.3 million keys; beyond it the index stands still until a restart."""

WARM_STEP_BYTES = 1 << 20

EVERYWHERE = 1 << 62
"""A log offset behind all others."""


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
    ) -> None:
        assert slots > 0 and max_entries > 1
        self._disk = disk
        self._folder = folder
        self._geometry = Geometry(slots, max_entries)
        self._clock = clock
        self._files: list[IndexFile] = []
        self._synced_ms = 0
        self._backlog = bytearray()  # rows for a file that cannot be made yet
        self._is_standing_still = self._is_doubtful = False
        self._put_before = EVERYWHERE  # log offset of the last record that was put; EVERYWHERE: ask the files
        self.rebuild_from: int | None = None
        self.error = ""
        """Why the files are behind or doubtful: then a stop is not clean. Empty when all is well."""

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
        """Store time up to which entries are on disk."""
        return self._synced_ms

    @property
    def finished(self) -> list[Header]:
        """The headers of the files that are full and on disk, up to the first that is not."""
        full = takewhile(lambda file: file.is_on_disk, self._full_files())
        return [file.header for file in full if not file.header.is_empty]

    def _full_files(self) -> list[IndexFile]:
        last = self._files[-1:]
        return self._files if last and last[0].is_full else self._files[:-1]

    @property
    def file_names(self) -> list[str]:
        return [file.name for file in self._files]

    # Start and end.

    def load(self, safe_ms: int | None) -> None:
        """Open what is there. `safe_ms` is None after a clean stop, else what the checkpoint vouches for.

        That is the end of a full file. One that ends later is looked at entry by entry, and deleted when it
        is damaged; all behind that one, or behind one that is not full, are deleted, since entries may be
        missing before them. Afterwards `rebuild_from` is the log offset from which the log must be put
        again, None when nothing is missing.
        """
        assert not self._files
        found: list[FileStat] = []
        for entry in self._disk.list_dir(self._folder):
            if entry.is_dir or not (entry.name.isascii() and entry.name.isdigit()):
                log.warning("leaving %s/%s alone: index files are named by digits", self._folder, entry.name)
            else:
                found.append(entry)
        headers = [self._header_of(entry) for entry in found]
        is_whole = bool(found) and safe_ms is None
        for number, header in enumerate(headers):
            file = IndexFile(self._disk, f"{self._folder}/{found[number].name}", self._geometry, EMPTY_HEADER)
            why = header if isinstance(header, str) else ""
            if isinstance(header, Header):
                file.begin_with(header)
                why = "" if safe_ms is None or self._is_vouched(file, safe_ms) else file.relink()
            if not why:
                self._files.append(file)
            if why or not (safe_ms is None or file.is_full):
                self._delete_files([entry.name for entry in found[len(self._files) :]], why)
                is_whole = False
                break
        self.rebuild_from = None if is_whole else self.last_log_offset
        self._synced_ms = self.last_store_ms if safe_ms is None else min(safe_ms, self.last_store_ms)
        if self._files:
            self._warm(self._files[-1].opened)

    def _is_vouched(self, file: IndexFile, safe_ms: int) -> bool:
        # Of several files that end in that millisecond the first is meant.
        return file.is_full and self.last_store_ms < safe_ms and file.header.end_ms <= safe_ms

    def _header_of(self, entry: FileStat) -> Header | str:
        """Return a file's header, or why it cannot be one of ours."""
        if entry.size_bytes != self._geometry.file_size_bytes:
            return f"it has {entry.size_bytes} bytes instead of {self._geometry.file_size_bytes}"
        file = self._disk.open(f"{self._folder}/{entry.name}")
        try:
            return parse_header(file.read_now(0, HEADER_BYTES), self._geometry)
        finally:
            file.close()

    def _delete_files(self, names: list[str], why: str) -> None:
        for name in names:
            path = f"{self._folder}/{name}"
            log.warning(
                "deleting index file %s: %s; it is rebuilt from log offset %d",
                path, why or "the one before it may lack its end", self.last_log_offset,
            )  # fmt: skip
            self._disk.remove(path)
        if names:
            # A power cut must not bring them back beside newer ones: they lead to what is no longer there.
            self._disk.sync_dir(self._folder)

    def _warm(self, file: File) -> None:
        """Read the slots once, so that the first `put` finds them in the page cache."""
        position, end = 0, self._geometry.table_size_bytes
        while position < end:
            position += len(file.read_now(position, min(WARM_STEP_BYTES, end - position)))

    def forget_from(self, log_offset: int) -> None:
        """Delete the files that lead to this place of the log or behind it; sets `rebuild_from`.

        For a start that finds the log shorter than the index, as a power cut can leave it.
        """
        while self._files and self._files[-1].header.end_log_offset >= log_offset:
            file = self._files.pop()
            log.warning("deleting index file %s: it leads behind the end of the log", file.path)
            file.delete()
        if self._disk.exists(self._folder):
            self._disk.sync_dir(self._folder)  # a power cut must not bring them back beside newer ones
        self._put_before = EVERYWHERE
        self.rebuild_from = self.last_log_offset
        self._synced_ms = min(self._synced_ms, self.last_store_ms)

    async def write_out(self) -> None:
        """Write what is in memory, leaving turns to others; `error` says whether it was possible."""
        self._drain()
        for file in list(self._files):
            if file.is_behind:
                while self._write_part(file):
                    await self._clock.sleep_until(self._clock.monotonic())

    def _write_part(self, file: IndexFile) -> bool:
        """Write a part of a file's memory; return whether there is more to do now."""
        if file.is_deleted:
            return False
        try:
            if file.write_some():
                return True
        except OSError as error:
            self._failed(error)
            return False
        if file is not self._files[-1] and not file.is_behind:
            file.drop_table()
        self._worked()
        return False

    async def flush(self) -> None:
        """Put all files on disk; `error` says when that failed. Costly under load: all slots are dirty."""
        await self.write_out()  # first the rest of a round that an error has cut off
        last_ms = self.last_store_ms
        await self.write_out()
        if not self.error and await self._sync(list(self._files)):
            self._synced_ms = last_ms

    async def sync_full_files(self) -> None:
        """Put full files on disk, each once; `error` says when that failed."""
        waiting = [file for file in self._full_files() if not file.is_on_disk]
        if waiting and not self.error:
            await self._sync(waiting)

    async def _sync(self, files: list[IndexFile]) -> bool:
        try:
            for file in files:
                if not file.is_deleted:
                    await file.sync()
            if files:
                self._disk.sync_dir(self._folder)
        except OSError as error:
            # The kernel may have dropped the pages: a later sync that succeeds would prove nothing.
            self._is_doubtful = True
            self.error = f"the index could not be synced: {error}; check the disk, then restart"
            log.error("%s", self.error)
            return False
        return True

    def write_now(self) -> None:
        """Write what is in memory, blocking; `error` says whether it was possible."""
        self._drain()
        try:
            for file in self._files:
                file.write_all()
        except OSError as error:
            self._failed(error)
        else:
            self._worked()

    def close(self) -> None:
        """Write what can be written and close the files; `flush` before it puts them on disk."""
        self.write_now()
        for file in self._files:
            file.close()

    def remove_before(self, log_min_offset: int) -> None:
        """Delete the files, except the last, that lead only to log offsets which are gone."""
        while len(self._files) > 1 and self._files[0].header.end_log_offset < log_min_offset:
            self._files.pop(0).delete()

    # Writing.

    def put(self, entries: Sequence[Entry]) -> None:
        """File the entries under their keys; those that were put before are skipped. Never raises."""
        rows = key_rows(entries)
        if not rows:
            return
        if entries[0].log_offset > self._put_before and not (self._backlog or self._is_standing_still):
            self._file(rows, 0)  # the send path: nothing to look up
        else:
            self.put_rows(rows)
        self._put_before = entries[-1].log_offset

    def put_rows(self, rows: bytes) -> None:
        """File rows of keys, in log order; those that were put before are skipped. Never raises."""
        if self._is_standing_still:
            return
        if self._backlog:
            self._backlog += rows  # `write_out` tries again
            return
        position = self._first_new(rows)
        if position < len(rows):
            self._file(rows, position)

    def _file(self, rows: bytes, position: int) -> None:
        files = self._files
        try:
            if not files:
                self._begin_file()
            position = files[-1].take(rows, position)
            while position < len(rows):
                files[-1].fill_up()
                self._begin_file()
                position = files[-1].take(rows, position)
            if files[-1].pending_bytes > PENDING_BYTES_MAX and not self.error:
                files[-1].write_entries()
        except OSError as error:
            self._backlog += memoryview(rows)[position:]
            self._failed(error)

    def _first_new(self, rows: bytes) -> int:
        """Return the position of the first row that was not put before."""
        header = self._newest()
        newest = header.end_log_offset if not header.is_empty else -1
        if not rows or ROW.unpack_from(rows)[1] > newest:
            return 0
        numbers = range(len(rows) // ROW.size)
        return ROW.size * bisect_right(numbers, newest, key=lambda n: ROW.unpack_from(rows, n * ROW.size)[1])

    def _drain(self) -> None:
        if self._backlog:
            rows, self._backlog = bytes(self._backlog), bytearray()
            self.put_rows(rows)

    def _failed(self, error: OSError) -> None:
        if self._is_doubtful or self._is_standing_still:
            return
        if not self.error:
            log.error("the index cannot be written: %s; free space there, nothing is lost", error)
        self.error = f"the index cannot be written: {error}; free space on its disk"
        waiting = len(self._backlog) + sum(file.pending_bytes for file in self._files)
        if waiting > MEMORY_BYTES_MAX:
            self._is_standing_still = True
            self.error = (
                f"the index stands still: {error}; queries by key find nothing stored from now on, "
                "until a restart files it"
            )
            log.error("%s", self.error)

    def _worked(self) -> None:
        if self.error and not (self._backlog or self._is_standing_still or self._is_doubtful):
            log.warning("the index can be written again")
            self.error = ""

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
        created = IndexFile(self._disk, f"{self._folder}/{name}", self._geometry, EMPTY_HEADER)
        created.create()
        self._files.append(created)
        # A power cut must not leave out a file between others: nothing in them would tell of it.
        self._disk.sync_dir(self._folder)

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
        geometry, header, opened = self._geometry, file.header, file.opened
        slot = geometry.slot_of(wanted.key_hash)
        number = file.head(slot)
        if number is None:
            number = SLOT.unpack(await _read(opened, geometry.slot_position(slot), SLOT_BYTES))[0]
        # A file that is deleted or closed while we wait ends its chain.
        while 0 < number < geometry.max_entries and len(found) < wanted.count_max and file.is_same(opened):
            data = file.pending_entry(number)
            if not data:
                data = await _read(opened, geometry.entry_position(number), ENTRY_BYTES)
            word, log_offset, seconds, previous = ENTRY.unpack(data)
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
