"""Deletion: carries out what retention decides, and lets queues and index follow the log.

    oldest log files go ─▶ queues begin with the first message that is left ─▶ their old files go
                        └▶ index files that lead only to deleted places go

Runs every ten seconds and on demand. Queue files need the log to shrink first, so a full queue partition
shrinks the log too. It decides nothing by itself: see `store.retention`. Reference: Apache's
CleanCommitLogService and CleanConsumeQueueService, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from roquet.ports import Clock, Disk, FileStat
from roquet.store.checkpoint import Checkpoint
from roquet.store.commitlog import CommitLog
from roquet.store.format.queue_entry import ENTRY_SIZE_BYTES, FILLER_SIZE, unpack_from
from roquet.store.index import Index
from roquet.store.queues import Queue, Queues
from roquet.store.retention import decide, used_percent
from roquet.store.segments import StoreDamaged
from roquet.store.settings import StoreSettings

log = logging.getLogger("roquet.store")

QUEUES_A_TURN = 64
"""Queues looked at before other work gets its turn."""

PAUSE_BETWEEN_FILES_S = 0.1
"""Deleting a file of a GiB keeps the disk busy: others get their chance in between."""


class Deletion:
    """Deletes what has expired. `is_disk_full` and `reason` are what the last round found."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        commitlog: CommitLog,
        queues: Queues,
        index: Index | None,
        checkpoint: Checkpoint,
        settings: StoreSettings,
    ) -> None:
        self._checkpoint = checkpoint
        self.is_waiting = False
        """Whether files that should go wait for the queues to be put on disk; upkeep then does that soon."""
        self._disk = disk
        self._clock = clock
        self._log = commitlog
        self._queues = queues
        self._index = index
        self.settings = settings
        self.is_disk_full = False
        self.reason = ""
        self._corrected_for = 0

    def begin_at(self, log_min_offset: int) -> None:
        self._corrected_for = log_min_offset

    @property
    def log_disk_ratio(self) -> float:
        return used_percent(self._disk.usage(self.settings.log_dir)) / 100

    @property
    def queue_disk_ratio(self) -> float:
        return used_percent(self._disk.usage(self.settings.queues_dir)) / 100

    async def run(self) -> None:
        """Delete what may go at this hour, and note whether the disk is too full to write."""
        hour = datetime.fromtimestamp(self._clock.now_ms() / 1000).hour
        try:
            await self._delete(self.settings, hour)
            await self._follow_log()
        except (OSError, StoreDamaged) as error:
            # The next round tries again; until then the disk only fills a little more.
            log.error("cannot delete what has expired: %s", error)

    async def delete_expired_log(self) -> int:
        """Delete expired log files at any hour; return how many went."""
        count = await self._delete(replace(self.settings, delete_when_hours=(0,)), 0)
        await self._follow_log()
        return count

    async def _delete(self, settings: StoreSettings, hour: int) -> int:
        usages = [self._disk.usage(settings.log_dir), self._disk.usage(settings.queues_dir)]
        now_ms = self._clock.now_ms()
        verdict = decide(settings, self._full_files(), usages, now_ms, hour, self.is_disk_full)
        if verdict.disk_full and not self.is_disk_full:
            log.error("%s", verdict.reason)
        elif self.is_disk_full and not verdict.disk_full:
            log.warning("there is space on the disk again: %s", verdict.reason)
        self.is_disk_full, self.reason = verdict.disk_full, verdict.reason
        segments = self._log.segments
        for number in range(verdict.delete_count):
            if number:
                await self._clock.sleep_until(self._clock.monotonic() + PAUSE_BETWEEN_FILES_S)
            # Once the log is gone nothing can rebuild a queue: it would begin at offset 0 again.
            self.is_waiting = (
                segments.min_offset + segments.file_size_bytes > self._checkpoint.queues_log_offset
            )
            if self.is_waiting:
                return number
            log.info("deleting %s: %s", segments.path_of(segments.min_offset), verdict.reason)
            segments.remove_first()
        return verdict.delete_count

    def _full_files(self) -> list[FileStat]:
        segments = self._log.segments
        current = segments.start_of(self._log.written_offset)
        # The last file stays even when it is full and the next one could not be made: without any, log and
        # queues would begin at 0 again.
        starts = [start for start in segments.starts[:-1] if start < current]
        return [self._disk.stat(segments.path_of(start)) for start in starts]

    async def _follow_log(self) -> None:
        log_min_offset = self._log.min_offset
        if log_min_offset == self._corrected_for:
            return
        for number, queue in enumerate(self._queues):
            if number % QUEUES_A_TURN == 0:
                await self._clock.sleep_until(self._clock.monotonic())
            await queue.correct_min(log_min_offset)
            await self._delete_queue_files(queue, log_min_offset)
            await queue.trim_extension()
        if self._index is not None:
            self._index.remove_before(log_min_offset)
        self._corrected_for = log_min_offset

    async def _delete_queue_files(self, queue: Queue, log_min_offset: int) -> None:
        """Delete a queue's files, except the last, whose entries all lead to deleted places."""
        while not queue.is_gone and len(queue.files.starts) > 1:
            end = queue.files.min_offset + queue.files.file_size_bytes
            if end > queue.tail_offset * ENTRY_SIZE_BYTES:
                return
            data = await queue.files.read(end - ENTRY_SIZE_BYTES, ENTRY_SIZE_BYTES)
            log_offset, size_bytes, _ = unpack_from(data)
            if log_offset >= log_min_offset and size_bytes != FILLER_SIZE:
                return
            queue.files.remove_first()

    async def clean_expired_queues(self, is_kept: Callable[[str], bool]) -> int:
        """Delete queues that lead only to deleted places, except of topics that `is_kept`; return how many.

        Such a queue begins again at offset 0 with its next message: this is for topics no longer used.
        """
        count = 0
        for queue in self._queues:
            if is_kept(queue.topic) or not queue.max_offset or queue.min_offset < queue.max_offset:
                continue
            if queue.next_offset == queue.max_offset:
                log.info("deleting %s: the log has none of its messages any more", queue.folder)
                self._queues.remove(queue)
                count += 1
        return count
