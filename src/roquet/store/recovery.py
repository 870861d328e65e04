"""Recovery: from the files of a stopped store to a log with a known end and queues that equal it.

    clean stop    the table that the stop left says everything; no record is read
    otherwise     choose a file ─▶ forget queue entries behind its start ─▶ scan records to the end,
                  refilling the queues ─▶ delete and zero what lies behind the end

The choice of the file follows Apache (checkpoint after a crash, newest queue entry otherwise). Unlike
with Apache, a damaged record in the part that was synced does not end the log: what was acknowledged
stays. A queue with a gap before the first scanned entry is rebuilt from the whole log.
Blocking; runs once, before the store serves anybody. Reference: Apache's CommitLog.recover*, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from roquet.store.checkpoint import SAFETY_MS, Checkpoint
from roquet.store.commitlog import ZEROS
from roquet.store.format.queue_entry import ENTRY_SIZE_BYTES, log_offset_at
from roquet.store.format.record import Part
from roquet.store.logscan import Durable, LogScan, Stretch, first_store_ms
from roquet.store.queues import NO_RECORDS, Queue, Queues, is_name
from roquet.store.segments import Segments, StoreDamaged
from roquet.store.settings import StoreSettings

log = logging.getLogger("roquet.store")

LOOK_BEHIND_BYTES = 64 * 1024
"""After a clean stop, how far behind the end stale bytes are looked for before the rest is trusted."""


class LogEnd(NamedTuple):
    """Where the log ends; place and store time of its last record (0 when it has none)."""

    log_offset: int
    last_record_offset: int
    store_ms: int


class Refill:
    """Puts scanned entries into their queues, and notices the queues that the scan cannot complete."""

    def __init__(self, queues: Queues, is_whole_log: bool, only: frozenset[Queue] = frozenset()) -> None:
        self._queues = queues
        self._is_whole_log = is_whole_log
        self._only = only
        self.incomplete: dict[Queue, None] = {}
        self._records = NO_RECORDS

    def take(self, stretch: Stretch) -> None:
        queues, incomplete, only = self._queues, self.incomplete, self._only
        self._records = {entry.log_offset: entry for entry in stretch} if queues.is_extending else NO_RECORDS
        for part in stretch.survey.parts:
            queue = queues.find(part.topic, part.queue_id)
            if queue is None:
                if not is_name(part.topic, part.queue_id):
                    log.error(
                        "the record at %d names queue %r/%d, which cannot be: it gets no queue entry",
                        log_offset_at(part.entries)[0], part.topic, part.queue_id,
                    )  # fmt: skip
                    continue
                queue = queues.get(part.topic, part.queue_id)
            if queue in incomplete or (only and queue not in only):
                continue
            if queue.max_offset == part.first_offset:
                queues.extend(queue, part.entries, self._records)
            else:
                self._fit(queue, part)

    def _fit(self, queue: Queue, part: Part) -> None:
        """Make the queue end where a part of it begins, and add the part."""
        expected, first = queue.max_offset, part.first_offset
        if first > expected and not self._is_whole_log:
            self.incomplete[queue] = None
            return
        if first > expected and expected == queue.min_offset:
            self._queues.forget(queue)
            queue.begin_at(first)
        elif first > expected:
            log.error(
                "%s: entries %d to %d are missing in the log; they lead to the next message instead",
                queue.folder, expected, first - 1,
            )  # fmt: skip
            for _ in range(expected, first):
                self._queues.extend(queue, part.entries[:ENTRY_SIZE_BYTES])
        # Offsets go back only where a topic was deleted and created again: the new one counts.
        elif first <= queue.min_offset:
            self._queues.forget(queue)
            queue.begin_at(first)
        else:
            queue.truncate_now(first)
        self._queues.extend(queue, part.entries, self._records)


class Recovery:
    """One run over the files: `load_queues`, `choose_start`, `run`."""

    def __init__(
        self, segments: Segments, queues: Queues, checkpoint: Checkpoint, settings: StoreSettings
    ) -> None:
        self._segments = segments
        self._queues = queues
        self._checkpoint = checkpoint
        self._settings = settings
        self._damaged: dict[Queue, None] = {}

    def load_queues(self) -> None:
        """Take over the queues that have folders; those without a log lead nowhere and are deleted."""
        for topic, queue_id in self._queues.discover():
            queue = self._queues.get(topic, queue_id)
            if self._segments.is_empty:
                log.warning("deleting %s: the log has no files, so its entries lead nowhere", queue.folder)
                self._queues.forget(queue)
                continue
            try:
                queue.load(self._segments.min_offset)
            except StoreDamaged as damage:
                # Queues can be rebuilt: a power cut may have lost files that were never synced.
                log.warning("%s", damage)
                self._damaged[queue] = None

    def run(self, start: int, is_clean: bool, tell: Callable[[Stretch], None]) -> LogEnd:
        """Find the end of the log behind `start` and make the queues agree with it.

        `tell` gets each scanned stretch, in log order.
        """
        if self._segments.is_empty:
            return LogEnd(0, 0, 0)
        is_whole_log = start == self._segments.min_offset
        self._vouch_only_until(self._ms_to_start_at(start))
        for queue in self._queues:
            if queue not in self._damaged:
                queue.truncate_now(queue.find_now(start))
        durable = Durable(self._checkpoint.queues_log_offset, self._checkpoint.log_ms)
        scan = LogScan(self._segments, self._settings, None if is_clean else durable)
        refill = Refill(self._queues, is_whole_log)
        refill.incomplete.update(self._damaged)
        unsure_from: int | None = None
        for stretch in scan.records(start):
            refill.take(stretch)
            tell(stretch)
            if unsure_from is None and stretch.survey.last_store_ms >= self._checkpoint.log_ms:
                unsure_from = stretch.log_offset
        end = LogEnd(scan.end_offset, scan.last_record_offset, scan.last_store_ms)
        self._rebuild(list(refill.incomplete), end.log_offset)
        self._clear_log_behind(end.log_offset, is_clean)
        self._settle_queues()
        self._sync_log(end.log_offset if unsure_from is None else unsure_from, end.log_offset)
        return end

    def choose_start(self, is_clean: bool) -> int:
        """Return the start of the file from which records must be read again."""
        newest = -1
        for queue in self._queues:
            if queue.max_offset > queue.min_offset:
                newest = max(newest, queue.entry_now(queue.max_offset - 1)[0])
        safe_ms = self._checkpoint.min_ms
        if self._settings.message_index_safe:
            safe_ms = min(safe_ms, self._checkpoint.index_ms)
        for start in reversed(self._segments.starts):
            store_ms = first_store_ms(self._segments, start)
            if start <= newest and store_ms > 0 and (is_clean or store_ms <= safe_ms):
                return start
        return self._segments.min_offset

    def _ms_to_start_at(self, start: int) -> int:
        """Return the time that makes the next recovery start at this file, or before it."""
        files = [
            first_store_ms(self._segments, file_start)
            for file_start in self._segments.starts
            if file_start >= start
        ]
        if not files[0]:
            return 0
        is_next_later = all(ms == 0 or ms > files[0] for ms in files[1:])
        return files[0] + SAFETY_MS if is_next_later else files[0]

    def _vouch_only_until(self, queues_ms: int) -> None:
        """Take back what the checkpoint says of queues that are about to be written anew.

        They are synced by the running store, in the background: a thousand files take seconds. Until
        then a crash means that the same records are read again.
        """
        if self._checkpoint.queues_ms > queues_ms:
            self._checkpoint.queues_ms = queues_ms
            self._checkpoint.flush_now()

    def _rebuild(self, incomplete: list[Queue], end_offset: int) -> None:
        if not incomplete:
            return
        self._vouch_only_until(0)
        names = ", ".join(f"{queue.topic}/{queue.queue_id}" for queue in incomplete[:10])
        log.warning(
            "%d consume queues are incomplete (%s): rebuilding them from the whole log",
            len(incomplete),
            names,
        )
        for queue in incomplete:
            self._queues.forget(queue)
        refill = Refill(self._queues, True, frozenset(incomplete))
        scan = LogScan(self._segments, self._settings)
        for stretch in scan.records(self._segments.min_offset, end_offset):
            refill.take(stretch)

    def _clear_log_behind(self, end_offset: int, is_clean: bool) -> None:
        """Delete later files, and zero stale bytes behind the end: they must never be read as records."""
        segments = self._segments
        for start in segments.starts:
            if start >= end_offset and start > segments.min_offset and any(segments.read_now(start, 8)):
                log.error(
                    "deleting %s: the log ends at %d, before this file", segments.path_of(start), end_offset
                )
        if end_offset > segments.min_offset:
            segments.truncate_files_after(end_offset)
        file_end = segments.end_capacity
        stop = min(file_end, end_offset + LOOK_BEHIND_BYTES) if is_clean else file_end
        position = end_offset
        while position < stop:
            data = segments.read_now(position, min(len(ZEROS), stop - position))
            if data != ZEROS[: len(data)]:
                log.warning("clearing %d bytes at %d, behind the end of the log", len(data), position)
                segments.write(position, bytes(len(data)))
                stop = file_end
            position += len(data)

    def _settle_queues(self) -> None:
        for queue in self._queues:
            if queue.tail:
                self._queues.write_out(queue)
            self._queues.clear_behind_now(queue)
            queue.correct_min_now(self._segments.min_offset)

    def _sync_log(self, unsure_from: int, end_offset: int) -> None:
        """Put on disk what a killed process left in the page cache: from here on it counts as flushed.

        It is written once more first. A sync that failed leaves pages that are not on disk and that the
        kernel takes for clean; the next sync would pass them by, and a power cut would tear a hole into
        the log, before messages that were acknowledged since.
        """
        position = unsure_from
        while position < end_offset:
            file_end = self._segments.start_of(position) + self._segments.file_size_bytes
            size = min(len(ZEROS), file_end - position, end_offset - position)
            data = self._segments.read_now(position, size)
            self._segments.write(position, data)
            position += len(data)
        self._segments.sync_now()
        self._queues.sync_names_now()
