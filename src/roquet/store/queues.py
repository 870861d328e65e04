"""Consume queues: all of a store, by topic and queue id, and which of them are to be written or synced.

Dispatch adds entries here, reads find their queue here; what one queue is and where its entries lie is in
`store.queue`. With extensions each entry is preceded by a unit in the files of its queue's extension
(`store.queue_ext`), whose bits come from whoever set `bits_of`. Reference: Apache's ConsumeQueueStore, 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from roquet.model.message import Entry
from roquet.ports import Disk
from roquet.store.format.queue_entry import pack, unpack_all
from roquet.store.format.queue_ext import Unit
from roquet.store.queue import Queue
from roquet.store.queue_ext import Extension
from roquet.store.segments import OpenFiles, Segments, StoreDamaged
from roquet.store.settings import StoreSettings

__all__ = ["NO_RECORDS", "BitsOf", "ExtensionFiles", "Queue", "Queues", "is_name", "queues_of"]

log = logging.getLogger("roquet.store")

TOPIC_NAME = re.compile(r"[%|a-zA-Z0-9_+-]{1,255}")
"""What a topic may be called: its name becomes a folder, so this is a safety check too."""

QUEUE_ID_MAX = 0x7FFFFFFF

TAIL_BYTES_MAX = 64 * 1024
"""A tail that has grown to this is written out at once: 3,276 entries."""

NO_RECORDS: Mapping[int, Entry] = {}

BitsOf = Callable[[Entry], bytes]
"""Says which bits the extension notes of a message; none when nothing is known of it."""


class ExtensionFiles(NamedTuple):
    """Where extensions lie; they are read where there are any, and written only when that `is_on`."""

    folder: str
    file_size_bytes: int
    is_on: bool


class Queues:
    """All queues of a store, by topic and queue id."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        file_size_bytes: int,
        open_files_max: int,
        extensions: ExtensionFiles | None = None,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._file_size_bytes = file_size_bytes
        self._open_files = OpenFiles(disk, open_files_max)
        self._extensions = extensions
        self.is_extending = extensions is not None and extensions.is_on
        """Whether new entries get units in their queue's extension."""
        self.bits_of: BitsOf = lambda entry: b""
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
            queue = Queue(topic, queue_id, files, self._extension(topic, queue_id))
            self._topics.setdefault(topic, {})[queue_id] = queue
        return queue

    def _extension(self, topic: str, queue_id: int) -> Extension | None:
        place = self._extensions
        if place is None:
            return None
        folder = f"{place.folder}/{topic}/{queue_id}"
        return Extension(Segments(self._disk, folder, place.file_size_bytes, self._open_files))

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

    def note(self, queue: Queue, entry: Entry) -> int:
        """Put the unit of a message into its queue's extension; return what its entry has for a tag code."""
        return queue.note(Unit(entry.tag_code, entry.store_ms, self.bits_of(entry)))

    def extend(self, queue: Queue, entries: bytes, records: Mapping[int, Entry] = NO_RECORDS) -> None:
        """Make messages visible as the next ones of their queue.

        `records` are what the entries lead to, by place in the log: only extensions need them.
        """
        if records:
            entries = b"".join(
                pack(log_offset, size_bytes, self.note(queue, records[log_offset]))
                for log_offset, size_bytes, _ in unpack_all(entries)
            )
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

    async def sync(self, at_once: int = 1) -> None:
        """Make all entries that were written out survive a power cut; raises OSError.

        Several syncs `at_once` share the file system's work, but others' syncs have to wait for them.
        """
        waiting = iter(list(self._unsynced))

        async def sync_some() -> None:
            for queue in waiting:
                await self._sync_one(queue)

        if at_once == 1:
            await sync_some()
            return
        ended = await asyncio.gather(*(sync_some() for _ in range(at_once)), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    async def _sync_one(self, queue: Queue) -> None:
        extension = queue.extension
        if extension is not None:
            await extension.sync()
        await queue.files.sync()
        if queue.files.is_synced and (extension is None or extension.is_synced):
            self._unsynced.pop(queue, None)

    def sync_now(self) -> None:
        """Like `sync`, blocking."""
        for queue in list(self._unsynced):
            if queue.extension is not None:
                queue.extension.sync_now()
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
        if self._extensions is not None:
            self._disk.remove_tree(f"{self._extensions.folder}/{topic}")
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


def queues_of(disk: Disk, settings: StoreSettings) -> Queues:
    """Return the queues of a store with these settings, not loaded yet."""
    is_on, folder = settings.queue_ext_enable, settings.queue_ext_dir
    extensions = None
    if is_on or disk.exists(folder):
        extensions = ExtensionFiles(folder, settings.queue_ext_file_size_bytes, is_on)
    return Queues(
        disk, settings.queues_dir, settings.queue_file_bytes, settings.open_queue_files_max, extensions
    )


def is_name(topic: str, queue_id: int) -> bool:
    """Return whether these may name a queue, and with it a folder."""
    return TOPIC_NAME.fullmatch(topic) is not None and 0 <= queue_id <= QUEUE_ID_MAX
