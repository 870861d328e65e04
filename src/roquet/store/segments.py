"""Equal-size files in one folder, seen as one long address space.

The commit log, every consume queue and the timer log lie on this. It knows lengths and names, never
what the bytes mean or where the written part ends: that is its owner's knowledge.

    00000000000000000000   00000000001073741824   00000000002147483648     names: 20-digit start offset
    |<-- file_size_bytes -->|<------ same ------->|<------ same ------->|
    ^ min_offset                                                        ^ end_capacity

Files are aligned to their size and without gaps, so a file is found by division, and an instance
costs about 300 bytes: there may be one for each of 80,000 queues. Files are sparse. Open ones are
shared through `OpenFiles`. Reference: Apache's MappedFileQueue, 5.5.0 (tests pin its loading rules).
"""

from __future__ import annotations

import logging
import posixpath
from collections import OrderedDict
from collections.abc import Sequence

from roquet.ports import Disk, File

log = logging.getLogger(__name__)

NAME_DIGITS = 20

# A batch of appends reaches at most into the next file; a jump over more is a wild offset, and
# following it would fill the folder with empty files.
FILES_PER_ENSURE_MAX = 64

# Enough for a store of one folder; those with many folders share one larger `OpenFiles`.
OPEN_FILES_OF_ONE_FOLDER = 16


class StoreDamaged(Exception):
    """The files are not what a store of these settings can have written; the text says what to do."""

    def __init__(self, path: str, found: str, advice: str) -> None:
        super().__init__(f"{path}: {found}. {advice}")
        self.path = path
        self.found = found
        self.advice = advice


class OpenFiles:
    """The files that are open now, at most `limit`, the least recently used closed first."""

    __slots__ = ("_disk", "_files", "_limit")

    def __init__(self, disk: Disk, limit: int) -> None:
        assert limit > 0
        self._disk = disk
        self._limit = limit
        self._files: OrderedDict[tuple[str, int], File] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, folder: str, start: int, size_bytes: int | None = None) -> File:
        """Return the open file; with `size_bytes` a missing one is created."""
        key = (folder, start)
        file = self._files.get(key)
        if file is not None:
            self._files.move_to_end(key)
            return file
        file = self._disk.open(f"{folder}/{start:0{NAME_DIGITS}d}", size_bytes)
        self._files[key] = file
        if len(self._files) > self._limit:
            self._files.popitem(last=False)[1].close()
        return file

    def drop(self, folder: str, start: int) -> None:
        """Close the file if it is open; a read of it that is under way still ends well."""
        file = self._files.pop((folder, start), None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files. They open again when they are asked for."""
        while self._files:
            self._files.popitem()[1].close()


class Segments:
    """One folder of equal-size files. Offsets are absolute; a call never crosses a file's end."""

    __slots__ = (
        "_disk",
        "_end",
        "_files",
        "_first",
        "_folders_to_sync",
        "_serial",
        "_unsynced",
        "file_size_bytes",
        "folder",
    )

    def __init__(
        self, disk: Disk, folder: str, file_size_bytes: int, open_files: OpenFiles | None = None
    ) -> None:
        assert file_size_bytes > 0
        self._disk = disk
        self.folder = folder
        self.file_size_bytes = file_size_bytes
        self._files = open_files if open_files is not None else OpenFiles(disk, OPEN_FILES_OF_ONE_FOLDER)
        self._first = 0
        self._end = 0
        self._serial = 0
        # Start of each file that was written since its last sync, with the serial number of the write:
        # a write that comes in while the sync is under way keeps the file in here.
        self._unsynced: dict[int, int] = {}
        # How many folders, this one first and then its parents, have names that a power cut could lose.
        self._folders_to_sync = 0

    def load(self) -> None:
        """Take over the files that lie in the folder; an absent folder is an empty one.

        Files of no length at the end are deleted (a crash between creating and extending leaves
        them). Anything else that does not fit raises StoreDamaged and changes nothing.
        """
        found = [entry for entry in self._disk.list_dir(self.folder) if not entry.is_dir]
        empty_tail: list[str] = []
        while found and found[-1].size_bytes == 0:
            empty_tail.append(found.pop().name)
        first = end = self._start_of_name(found[0].name) if found else 0
        for entry in found:
            path = f"{self.folder}/{entry.name}"
            start = self._start_of_name(entry.name)
            if entry.size_bytes != self.file_size_bytes:
                raise StoreDamaged(
                    path,
                    f"the file has {entry.size_bytes} bytes instead of {self.file_size_bytes}",
                    "Start with the file size that this store was created with, "
                    "or move the file away if it is not part of the store",
                )
            if start != end or start % self.file_size_bytes:
                raise StoreDamaged(
                    path,
                    f"the file starts at {start}, but the one before it ends at {end}",
                    "Restore the missing file, or move away the files on one side of the gap",
                )
            end += self.file_size_bytes
        for name in empty_tail:
            log.warning("deleting %s/%s: it has no bytes, a crash left it", self.folder, name)
            self._disk.remove(f"{self.folder}/{name}")
        self._first, self._end = first, end
        if found:
            # Whoever made the files may have been killed before their names were on disk.
            self._folders_to_sync = max(self._folders_to_sync, 1)

    def _start_of_name(self, name: str) -> int:
        if not (name.isascii() and name.isdigit()):
            raise StoreDamaged(
                f"{self.folder}/{name}", "the name is not a start offset", "Move the file out of the store"
            )
        if len(name) != NAME_DIGITS:
            raise StoreDamaged(
                f"{self.folder}/{name}",
                f"the name has {len(name)} digits instead of {NAME_DIGITS}",
                "Move the file out of the store",
            )
        return int(name)

    @property
    def starts(self) -> list[int]:
        """Start offsets of all files, ascending."""
        return list(range(self._first, self._end, self.file_size_bytes))

    @property
    def is_empty(self) -> bool:
        return self._first == self._end

    @property
    def min_offset(self) -> int:
        """Start of the first file; equal to `end_capacity` while there is none."""
        return self._first

    @property
    def end_capacity(self) -> int:
        """End of the last file, whether it is written that far or not."""
        return self._end

    def start_of(self, offset: int) -> int:
        """Return the start of the file that holds, or would hold, `offset`."""
        return offset - offset % self.file_size_bytes

    def path_of(self, offset: int) -> str:
        """Return the path of the file that holds, or would hold, `offset`."""
        return f"{self.folder}/{self.start_of(offset):0{NAME_DIGITS}d}"

    def ensure(self, offset: int) -> None:
        """Create the file that holds `offset`, and those between it and the last one.

        The first file of an empty folder may begin anywhere (aligned). Raises OSError when the disk
        refuses, StoreDamaged when `offset` lies absurdly far behind the end.
        """
        start = self.start_of(offset)
        if self.is_empty:
            self._make_folder()
            self._first = self._end = start
        if start < self._end:
            assert offset >= self._first, f"{self.folder}: {offset} was removed, files start at {self._first}"
            return
        missing = (start - self._end) // self.file_size_bytes + 1
        if missing > FILES_PER_ENSURE_MAX:
            raise StoreDamaged(
                self.path_of(offset),
                f"offset {offset} lies {missing} files behind the end of {self.folder}",
                "Delete that folder if it is a queue: it is rebuilt from the log",
            )
        while self._end <= start:
            file = self._files.get(self.folder, self._end, self.file_size_bytes)
            if file.size_bytes != self.file_size_bytes:
                raise StoreDamaged(
                    file.path,
                    f"the file exists with {file.size_bytes} bytes instead of {self.file_size_bytes}",
                    "Move the file away: it is not part of the store",
                )
            self._end += self.file_size_bytes
            self._folders_to_sync = max(self._folders_to_sync, 1)

    def _make_folder(self) -> None:
        folder, new_folders = self.folder, 0
        while folder and not self._disk.exists(folder):
            folder = posixpath.dirname(folder)
            new_folders += 1
        self._disk.make_dirs(self.folder)
        self._folders_to_sync = max(self._folders_to_sync, new_folders + 1)

    def ensure_durable(self, offset: int) -> None:
        """Like `ensure`, and make lengths and names of new files survive a power cut, blocking shortly.

        For a log: no file of it may be lost or empty while a later one has bytes. Raises OSError.
        """
        known_end = self._end if not self.is_empty else self.start_of(offset)
        self.ensure(offset)
        try:
            for start in range(known_end, self._end, self.file_size_bytes):
                self._files.get(self.folder, start).sync_now()
            self._sync_names()
        except OSError:
            self._end = known_end  # the next call takes the files up again
            raise

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write inside one existing file; raises OSError, and then the range may hold anything."""
        position = offset % self.file_size_bytes
        start = offset - position
        assert self._first <= start < self._end, f"{self.folder}: no file for {offset}"
        assert position + len(data) <= self.file_size_bytes, f"{self.folder}: {offset} crosses a file's end"
        self._serial = self._unsynced[start] = self._serial + 1
        self._files.get(self.folder, start).write_at(position, data)

    def try_read(self, offset: int, size: int) -> bytes | None:
        """Return the bytes up to the file's end, or None when only `read` can give them.

        Where no file holds `offset` there is nothing: the result is empty.
        """
        position = offset % self.file_size_bytes
        start = offset - position
        if not self._first <= start < self._end:
            return b""
        return self._files.get(self.folder, start).try_read(
            position, min(size, self.file_size_bytes - position)
        )

    def try_read_many(self, places: Sequence[tuple[int, int]]) -> bytearray | None:
        """Return the bytes of several places (offset, size) of one file, one behind the other.

        None when one of them is not at hand, or when they lie in different files.
        """
        first, last = places[0][0], places[-1][0]
        start = self.start_of(first)
        if not self._first <= start < self._end or self.start_of(last) != start:
            return None
        file = self._files.get(self.folder, start)
        return file.try_read_many([(offset - start, size) for offset, size in places])

    async def read(self, offset: int, size: int) -> bytes:
        """Return the bytes up to the file's end, waiting for the disk where that is needed."""
        data = self.try_read(offset, size)
        if data is not None:
            return data
        position = offset % self.file_size_bytes
        file = self._files.get(self.folder, offset - position)
        return await file.read(position, min(size, self.file_size_bytes - position))

    def read_now(self, offset: int, size: int) -> bytes:
        """Return the bytes up to the file's end, blocking: for start-up and recovery only."""
        position = offset % self.file_size_bytes
        start = offset - position
        if not self._first <= start < self._end:
            return b""
        return self._files.get(self.folder, start).read_now(
            position, min(size, self.file_size_bytes - position)
        )

    @property
    def is_synced(self) -> bool:
        return not self._unsynced and not self._folders_to_sync

    async def sync(self) -> None:
        """Make all that was written before this call survive a power cut, names of new files included.

        Raises OSError; the files that were not reached stay to be synced.
        """
        for start, serial in list(self._unsynced.items()):
            if start in self._unsynced:
                await self._files.get(self.folder, start).sync()
                self._forget(start, serial)
        self._sync_names()

    def sync_now(self) -> None:
        """Like `sync`, blocking: for start-up and shutdown only."""
        for start, serial in list(self._unsynced.items()):
            self._files.get(self.folder, start).sync_now()
            self._forget(start, serial)
        self._sync_names()

    def _forget(self, start: int, serial: int) -> None:
        if self._unsynced.get(start) == serial:
            del self._unsynced[start]
            if not self._unsynced:
                self._unsynced = {}  # a dict that was ever filled keeps its table; most queues are idle

    def _sync_names(self) -> None:
        # After the files: their sync has already put the folders into the file system's journal, so
        # that this returns at once on the usual ones.
        folder = self.folder
        for _ in range(self._folders_to_sync):
            self._disk.sync_dir(folder)
            folder = posixpath.dirname(folder)
        self._folders_to_sync = 0

    async def reserve(self, offset: int, size: int) -> None:
        """Allocate real blocks for the part of the range that has files; raises OSError (ENOSPC)."""
        offset, stop = max(offset, self._first), min(offset + size, self._end)
        while offset < stop:
            position = offset % self.file_size_bytes
            length = min(stop - offset, self.file_size_bytes - position)
            await self._files.get(self.folder, offset - position).reserve(position, length)
            offset += length

    def truncate_files_after(self, offset: int) -> None:
        """Delete the files that start at `offset` or beyond it; the one that holds bytes before it stays.

        When `offset` is not above the first file's start, no file is left, and `ensure` may begin
        anywhere again. Bytes behind `offset` in the file that stays are not touched.
        """
        if self.is_empty or self._end - self.file_size_bytes < offset:
            return
        while self._end > self._first and self._end - self.file_size_bytes >= offset:
            self._remove(self._end - self.file_size_bytes)
            self._end -= self.file_size_bytes
        # Without this a power cut could bring the old bytes back behind newer ones.
        self._disk.sync_dir(self.folder)

    def remove_first(self) -> None:
        """Delete the oldest file. A power cut may bring it back: older files are harmless."""
        assert not self.is_empty, f"{self.folder} has no files"
        self._remove(self._first)
        self._first += self.file_size_bytes

    def _remove(self, start: int) -> None:
        self._files.drop(self.folder, start)
        self._unsynced.pop(start, None)
        self._disk.remove(self.path_of(start))

    def destroy(self) -> None:
        """Delete the folder with all that is in it."""
        self.close()
        self._disk.remove_tree(self.folder)
        self._first = self._end = 0
        self._unsynced = {}
        self._folders_to_sync = 0

    def close(self) -> None:
        """Close this folder's open files, unsynced or not; they open again when they are used."""
        for start in range(self._first, self._end, self.file_size_bytes):
            self._files.drop(self.folder, start)
