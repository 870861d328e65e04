"""Consume queues: for each topic and queue id, where its messages lie in the log.

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

import logging
import re
from collections.abc import Iterator

from roquet.ports import Disk
from roquet.store.format.entries import count_valid
from roquet.store.format.queue_entry import (
    ENTRY_SIZE_BYTES,
    FILLER,
    FILLER_SIZE,
    log_offset_at,
    pack,
    unpack_from,
)
from roquet.store.segments import OpenFiles, Segments, StoreDamaged

log = logging.getLogger("roquet.store")

TOPIC_NAME = re.compile(r"[%|a-zA-Z0-9_+-]{1,255}")
"""What a topic may be called: its name becomes a folder, so this is a safety check too."""

QUEUE_ID_MAX = 0x7FFFFFFF

TAIL_BYTES_MAX = 64 * 1024
"""A tail that has grown to this is written out at once: 3,276 entries."""

READ_BYTES = 64 * 1024
"""Step in which a queue's end is looked for."""


class Queue:
    """One queue. Its files are opened when first needed; an idle one is a few hundred bytes."""

    __slots__ = (
        "_files",
        "_is_loaded",
        "is_gone",
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "tail",
        "tail_offset",
        "topic",
    )

    def __init__(self, topic: str, queue_id: int, files: Segments) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._files = files
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

    def extend(self, entries: bytes) -> None:
        """Make the next entries visible to reads."""
        self.tail += entries
        self.max_offset += len(entries) // ENTRY_SIZE_BYTES
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset

    def write_out(self) -> None:
        """Move the tail into the files; raises OSError, and then it stays where it is."""
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
        low, high = self.tail_offset, self.max_offset
        if not self.files.is_empty:
            low = min(low, self.files.min_offset // ENTRY_SIZE_BYTES)
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

    def clear_behind_now(self) -> None:
        """Remove what lies in the files behind the last entry, so that no later load takes it for entries."""
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


class Queues:
    """All queues of a store, by topic and queue id."""

    def __init__(self, disk: Disk, folder: str, file_size_bytes: int, open_files_max: int) -> None:
        self._disk = disk
        self._folder = folder
        self._file_size_bytes = file_size_bytes
        self._open_files = OpenFiles(disk, open_files_max)
        self._topics: dict[str, dict[int, Queue]] = {}
        # Ordered and without duplicates; queues whose tail is not empty.
        self._dirty: dict[Queue, None] = {}
        # Queues written since their last sync.
        self._unsynced: dict[Queue, None] = {}
        # Why each queue that the disk refused is not written out; one that works says nothing of the others.
        self._refused: dict[Queue, str] = {}

    @property
    def error(self) -> str:
        """Why some queue cannot be written; empty when all can."""
        return next(iter(self._refused.values()), "")

    def find(self, topic: str, queue_id: int) -> Queue | None:
        """Return the queue if there is one; a read never creates it."""
        of_topic = self._topics.get(topic)
        return of_topic.get(queue_id) if of_topic is not None else None

    def get(self, topic: str, queue_id: int) -> Queue:
        """Return the queue, a new one if there is none; the names must have passed `is_name`."""
        of_topic = self._topics.get(topic)
        queue = of_topic.get(queue_id) if of_topic is not None else None
        if queue is None:
            assert is_name(topic, queue_id), f"{topic!r}/{queue_id} is no name of a queue"
            files = Segments(
                self._disk, f"{self._folder}/{topic}/{queue_id}", self._file_size_bytes, self._open_files
            )
            queue = Queue(topic, queue_id, files)
            self._topics.setdefault(topic, {})[queue_id] = queue
        return queue

    def __iter__(self) -> Iterator[Queue]:
        for of_topic in list(self._topics.values()):
            yield from list(of_topic.values())

    def __len__(self) -> int:
        return sum(len(of_topic) for of_topic in self._topics.values())

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def queues_of(self, topic: str) -> list[int]:
        return sorted(self._topics.get(topic, ()))

    def discover(self) -> list[tuple[str, int]]:
        """Return the names of the queues that have a folder; other folders are left alone."""
        found: list[tuple[str, int]] = []
        for topic in self._disk.list_dir(self._folder):
            if not topic.is_dir:
                continue
            for queue in self._disk.list_dir(f"{self._folder}/{topic.name}"):
                name = queue.name
                queue_id = int(name) if name.isascii() and name.isdigit() else -1
                if queue.is_dir and str(queue_id) == name and is_name(topic.name, queue_id):
                    found.append((topic.name, queue_id))
                else:
                    log.warning("%s/%s/%s is no queue of a topic: left alone", self._folder, topic.name, name)
        return found

    def add(self, queue: Queue, log_offset: int, size_bytes: int, tag_code: int) -> None:
        """Make a message visible as the next one of its queue."""
        queue.add(log_offset, size_bytes, tag_code)
        self._dirty[queue] = None
        if len(queue.tail) >= TAIL_BYTES_MAX:
            self.write_out(queue)

    def extend(self, queue: Queue, entries: bytes) -> None:
        """Make messages visible as the next ones of their queue."""
        queue.extend(entries)
        self._dirty[queue] = None
        if len(queue.tail) >= TAIL_BYTES_MAX:
            self.write_out(queue)

    def write_out(self, queue: Queue) -> None:
        """Write one queue's tail; a disk that refuses makes `error` say so, until it works again."""
        try:
            queue.write_out()
        except (OSError, StoreDamaged) as error:
            if not self._refused:
                log.error("cannot write %s: %s; free space there, nothing is lost", queue.folder, error)
            self._refused[queue] = f"the consume queue {queue.folder} cannot be written: {error}"
            return
        del self._dirty[queue]
        self._unsynced[queue] = None
        if self._refused.pop(queue, "") and not self._refused:
            log.warning("consume queues can be written again")

    def dirty(self) -> list[Queue]:
        """Return the queues that have a tail."""
        return list(self._dirty)

    @property
    def is_synced(self) -> bool:
        return not self._unsynced

    async def sync(self) -> None:
        """Make all entries that were written out survive a power cut; raises OSError."""
        for queue in list(self._unsynced):
            await queue.files.sync()
            if queue.files.is_synced:
                self._unsynced.pop(queue, None)

    def sync_now(self) -> None:
        """Like `sync`, blocking."""
        for queue in list(self._unsynced):
            queue.files.sync_now()
        self._unsynced.clear()

    def sync_names_now(self) -> None:
        """Make the folders that were found at the start survive a power cut, blocking: whoever made them
        may have been killed before."""
        for topic in self.topics():
            if self._disk.exists(f"{self._folder}/{topic}"):
                self._disk.sync_dir(f"{self._folder}/{topic}")
        if self._disk.exists(self._folder):
            self._disk.sync_dir(self._folder)

    def clear_behind_now(self, queue: Queue) -> None:
        """Remove stale bytes behind a queue's last written entry, blocking."""
        queue.clear_behind_now()
        self._unsynced[queue] = None

    def delete_topic(self, topic: str) -> bool:
        """Delete the queues of a topic with their files; True when there were any."""
        of_topic = self._topics.pop(topic, None)
        if of_topic is None:
            return False
        for queue in of_topic.values():
            self.forget(queue)
            queue.is_gone = True
        self._disk.remove_tree(f"{self._folder}/{topic}")
        return True

    def remove(self, queue: Queue) -> None:
        """Delete one queue and its files; its next message begins a new one."""
        of_topic = self._topics[queue.topic]
        del of_topic[queue.queue_id]
        if not of_topic:
            del self._topics[queue.topic]
        self.forget(queue)
        queue.is_gone = True

    def forget(self, queue: Queue) -> None:
        """Delete one queue's files and make it an empty queue."""
        queue.destroy()
        self._refused.pop(queue, None)
        self._dirty.pop(queue, None)
        self._unsynced.pop(queue, None)

    def close(self) -> None:
        self._open_files.close()


def is_name(topic: str, queue_id: int) -> bool:
    """Return whether these may name a queue, and with it a folder."""
    return TOPIC_NAME.fullmatch(topic) is not None and 0 <= queue_id <= QUEUE_ID_MAX
