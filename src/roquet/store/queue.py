"""One consume queue: where the messages of a topic's queue lie in the log.

Dispatch adds entries, reads look them up. An entry that is not yet in a file lies in the queue's tail
in memory; tails are written out every second, because everything here can be rebuilt from the log and
one small write for each message would cost more than the message itself.

    files   [ fillers | entries ................ )[ zeros ... ]
                      ^ min_offset               ^ tail_offset
    tail                                         [ entries ... )
                                                               ^ max_offset     next_offset >= max_offset

`next_offset` is what the next append gets; between the two lie appends that are not dispatched yet.
This module does not know records. Reference: Apache's ConsumeQueue, 5.5.0.
"""

from __future__ import annotations

from roquet.store.format.entries import count_valid
from roquet.store.format.queue_entry import (
    ENTRY_SIZE_BYTES,
    FILLER,
    FILLER_SIZE,
    log_offset_at,
    pack,
    unpack_from,
)
from roquet.store.format.queue_ext import Unit
from roquet.store.queue_ext import Extension
from roquet.store.segments import Segments, StoreDamaged

READ_BYTES = 64 * 1024
"""Step in which a queue's end is looked for."""


class Queue:
    """One queue. Its files are opened when first needed; an idle one is a few hundred bytes."""

    __slots__ = (
        "_files",
        "_is_loaded",
        "extension",
        "is_gone",
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "tail",
        "tail_offset",
        "topic",
    )

    def __init__(
        self, topic: str, queue_id: int, files: Segments, extension: Extension | None = None
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._files = files
        self.extension = extension
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0
        self.tail_offset = 0
        self.tail = bytearray()
        self._is_loaded = True
        self.is_gone = False  # deleted while appends to it were under way

    @property
    def files(self) -> Segments:
        """The files, listed when first asked for; raises StoreDamaged when entries are missing."""
        if not self._is_loaded:
            self._files.load()
            if self._files.end_capacity < self.tail_offset * ENTRY_SIZE_BYTES:
                raise StoreDamaged(
                    self._files.folder,
                    f"the files end at {self._files.end_capacity}, but there were {self.tail_offset} entries",
                    "Delete the folder and restart: the queue is rebuilt from the log",
                )
            self._is_loaded = True
        return self._files

    def take_over(self, min_offset: int, max_offset: int) -> None:
        """Begin with these offsets, known from a clean stop; the files are not looked at before a use."""
        self.min_offset = min_offset
        self.max_offset = self.next_offset = self.tail_offset = max_offset
        self._is_loaded = False

    @property
    def folder(self) -> str:
        return self._files.folder

    def begin_at(self, queue_offset: int) -> None:
        """Make an empty queue one whose first message is `queue_offset`."""
        assert self.max_offset == self.tail_offset and not self.tail
        self.min_offset = self.max_offset = self.tail_offset = queue_offset
        self.next_offset = max(self.next_offset, queue_offset)

    def add(self, log_offset: int, size_bytes: int, tag_code: int) -> None:
        """Make the next entry visible to reads."""
        self.tail += pack(log_offset, size_bytes, tag_code)
        self.max_offset += 1
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset

    def note(self, unit: Unit) -> int:
        """Put a unit into the extension for the next entry; return what that has for a tag code."""
        extension = self.extension
        if extension is None:
            return unit.tag_code
        if not extension.is_placed:
            if self.max_offset > self._first_now():
                extension.place_now(self.max_offset, self._tag_code_now(self.max_offset - 1))
            else:
                extension.place_now(0, 0)
        return extension.put(unit)

    def extend(self, entries: bytes) -> None:
        """Make the next entries visible to reads."""
        self.tail += entries
        self.max_offset += len(entries) // ENTRY_SIZE_BYTES
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset

    def write_out(self) -> None:
        """Move the tail into the files; raises OSError, and then it stays where it is."""
        if self.extension is not None:
            self.extension.write_out()
        files, tail = self.files, self.tail
        position = self.tail_offset * ENTRY_SIZE_BYTES
        if files.is_empty:
            self._begin_files(position)
        done = 0
        while done < len(tail):
            room = files.file_size_bytes - position % files.file_size_bytes
            files.ensure(position)
            files.write(position, memoryview(tail)[done : done + room].toreadonly())
            position += min(room, len(tail) - done)
            done += min(room, len(tail) - done)
        self.tail_offset += len(tail) // ENTRY_SIZE_BYTES
        self.tail = bytearray()

    def _begin_files(self, position: int) -> None:
        self.files.ensure(position)
        start = self.files.start_of(position)
        if position > start:
            self.files.write(start, FILLER * ((position - start) // ENTRY_SIZE_BYTES))

    def try_entries(self, queue_offset: int, count: int) -> bytes | None:
        """Return the bytes of up to `count` entries, or None when they have to come from the disk.

        Fewer come at the end of a file and at the end of the queue.
        """
        stop = min(queue_offset + count, self.max_offset)
        if queue_offset >= self.tail_offset:
            return self._from_tail(queue_offset, stop)
        size = (min(stop, self.tail_offset) - queue_offset) * ENTRY_SIZE_BYTES
        data = self.files.try_read(queue_offset * ENTRY_SIZE_BYTES, size)
        return self._with_tail(data, size, stop) if data is not None else None

    async def entries(self, queue_offset: int, count: int) -> bytes:
        """Like `try_entries`, waiting for the disk where that is needed."""
        stop = min(queue_offset + count, self.max_offset)
        if queue_offset >= self.tail_offset:
            return self._from_tail(queue_offset, stop)
        size = (min(stop, self.tail_offset) - queue_offset) * ENTRY_SIZE_BYTES
        reaches_tail = stop > self.tail_offset
        tail_offset = self.tail_offset
        data = await self.files.read(queue_offset * ENTRY_SIZE_BYTES, size)
        # The tail may have moved into the files meanwhile: then this read simply ends where it began.
        return self._with_tail(data, size, stop) if reaches_tail and tail_offset == self.tail_offset else data

    def _from_tail(self, queue_offset: int, stop: int) -> bytes:
        first = (queue_offset - self.tail_offset) * ENTRY_SIZE_BYTES
        return bytes(self.tail[first : (stop - self.tail_offset) * ENTRY_SIZE_BYTES])

    def _with_tail(self, data: bytes, size: int, stop: int) -> bytes:
        if stop <= self.tail_offset or len(data) < size:
            return data
        return data + self._from_tail(self.tail_offset, stop)

    # Start-up and recovery: blocking reads.

    def entry_now(self, queue_offset: int) -> tuple[int, int]:
        """Return (log offset, size) of an entry, blocking; a filler has log offset -1."""
        if queue_offset >= self.tail_offset:
            data: bytes | bytearray = self.tail
            position = (queue_offset - self.tail_offset) * ENTRY_SIZE_BYTES
        else:
            data = self.files.read_now(queue_offset * ENTRY_SIZE_BYTES, ENTRY_SIZE_BYTES)
            position = 0
        log_offset, size_bytes = log_offset_at(data, position)
        return (-1 if size_bytes == FILLER_SIZE else log_offset), size_bytes

    def _first_now(self) -> int:
        """Return the first offset of which there is an entry, alive or not."""
        return self.tail_offset if self.files.is_empty else self.files.min_offset // ENTRY_SIZE_BYTES

    def _tag_code_now(self, queue_offset: int) -> int:
        if queue_offset >= self.tail_offset:
            position = (queue_offset - self.tail_offset) * ENTRY_SIZE_BYTES
            return int(unpack_from(self.tail, position)[2])
        data = self.files.read_now(queue_offset * ENTRY_SIZE_BYTES, ENTRY_SIZE_BYTES)
        return int(unpack_from(data)[2])

    def load(self, log_min_offset: int) -> None:
        """Take over the files and find where their entries begin and end, blocking."""
        self.files.load()
        end = self.files.min_offset // ENTRY_SIZE_BYTES
        for start in reversed(self.files.starts):
            count = self._count_in_file(start)
            if count:
                end = start // ENTRY_SIZE_BYTES + count
                break
        self.max_offset = self.next_offset = self.tail_offset = end
        self.correct_min_now(log_min_offset)

    def _count_in_file(self, start: int) -> int:
        count = 0
        step = READ_BYTES // ENTRY_SIZE_BYTES * ENTRY_SIZE_BYTES
        for position in range(start, start + self.files.file_size_bytes, step):
            data = self.files.read_now(position, min(step, start + self.files.file_size_bytes - position))
            valid = count_valid(data)
            count += valid
            if valid * ENTRY_SIZE_BYTES < len(data):
                break
        return count

    def find_now(self, log_offset: int) -> int:
        """Return the first queue offset whose record lies at `log_offset` or behind it, blocking."""
        low, high = min(self.tail_offset, self._first_now()), self.max_offset
        while low < high:
            middle = (low + high) // 2
            if self.entry_now(middle)[0] < log_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def correct_min_now(self, log_min_offset: int) -> None:
        """Let the queue begin with its first message that the log still has, blocking."""
        self.min_offset = self.find_now(log_min_offset)

    def truncate_now(self, queue_offset: int) -> None:
        """Forget the entries from `queue_offset` on; their bytes stay until `clear_behind_now`."""
        queue_offset = min(queue_offset, self.max_offset)
        if queue_offset >= self.tail_offset:
            del self.tail[(queue_offset - self.tail_offset) * ENTRY_SIZE_BYTES :]
        else:
            self.tail = bytearray()
            self.tail_offset = queue_offset
        self.max_offset = self.next_offset = queue_offset
        self.min_offset = min(self.min_offset, queue_offset)
        if self.extension is not None:
            self.extension.is_placed = False

    def clear_behind_now(self) -> None:
        """Remove what lies in the files behind the last entry, so that no later load takes it for entries."""
        if self.extension is not None:
            self.extension.clear_behind_now()
        files, position = self.files, self.tail_offset * ENTRY_SIZE_BYTES
        files.truncate_files_after(position)
        while position < files.end_capacity:
            data = files.read_now(position, READ_BYTES)
            if not data.strip(b"\0"):
                return
            files.write(position, bytes(len(data)))
            position += len(data)

    def destroy(self) -> None:
        """Delete the files and become an empty queue."""
        self._files.destroy()
        if self.extension is not None:
            self.extension.destroy()
        self._is_loaded = True
        self.tail = bytearray()
        self.min_offset = self.max_offset = self.next_offset = self.tail_offset = 0

    async def correct_min(self, log_min_offset: int) -> None:
        """Let the queue begin with its first message that the log still has."""
        low, high = self.min_offset, self.max_offset
        while low < high:
            middle = (low + high) // 2
            data = await self.entries(middle, 1)
            if len(data) < ENTRY_SIZE_BYTES:
                return
            found, size_bytes, _ = unpack_from(data)
            if found < log_min_offset or size_bytes == FILLER_SIZE:
                low = middle + 1
            else:
                high = middle
        self.min_offset = max(self.min_offset, low)

    async def trim_extension(self) -> None:
        """Delete the extension's files that only entries before the first message led to."""
        if self.extension is not None and self.min_offset < self.max_offset:
            data = await self.entries(self.min_offset, 1)
            if len(data) == ENTRY_SIZE_BYTES:
                self.extension.remove_before(unpack_from(data)[2])
