"""The face of the store: open, append, read, query, close.

    append ─▶ commitlog (one write a turn) ─▶ flush ─▶ dispatch ─▶ queues · index · listeners
    read, query ─▶ lookup            open ─▶ recovery            start ─▶ upkeep

One store has one folder, one writer and one event loop. It does not know brokers, groups or the wire:
drafts come in, records go out. What each flush mode promises is in `store.flush`. Reference: Apache's
DefaultMessageStore, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from roquet.model.match import Match
from roquet.model.message import Draft, Entry, Host
from roquet.model.status import Appended, Boundary, Got, PutStatus
from roquet.ports import Clock, Disk, Lock
from roquet.store import clean_stop
from roquet.store.checkpoint import Checkpoint
from roquet.store.commitlog import CommitLog, Done, refusal
from roquet.store.deletion import Deletion
from roquet.store.dispatch import Dispatch, Listener
from roquet.store.flush import Flush
from roquet.store.format.queue_entry import QueueEntry
from roquet.store.format.queue_ext import Unit
from roquet.store.format.run import share_out
from roquet.store.index import Index
from roquet.store.index_refill import refill_index
from roquet.store.logscan import LogScan
from roquet.store.lookup import Lookup, QueryResult
from roquet.store.queues import BitsOf, queues_of
from roquet.store.reading import Ask
from roquet.store.recovery import LogEnd, Recovery
from roquet.store.segments import OpenFiles, Segments
from roquet.store.settings import StoreSettings
from roquet.store.space import SpaceAhead
from roquet.store.upkeep import Upkeep

log = logging.getLogger("roquet.store")

TURN_BYTES_MAX = 8 * 1024 * 1024
"""Pending bytes at which a turn is written before it is over."""

LOG_FILES_OPEN_MAX = 64


class Store:
    """One message store. `open`, `start`, use it, `close`; all on one event loop."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        settings: StoreSettings,
        store_host: Host,
        call_soon: Callable[[Callable[[], None]], object],
        process_id: int = 0,
    ) -> None:
        """`call_soon` runs a function in the event loop's next turn; `process_id` goes into `abort`."""
        self._disk = disk
        self._clock = clock
        self._call_soon = call_soon
        self._process_id = process_id
        self.settings = settings
        self.listeners: list[Listener] = []
        root = settings.root_dir
        self._segments = Segments(
            disk, settings.log_dir, settings.log_file_size_bytes, OpenFiles(disk, LOG_FILES_OPEN_MAX)
        )
        self._log = CommitLog(self._segments, clock, store_host)
        self._queues = queues_of(disk, settings)
        self._index = self._make_index()
        self._checkpoint = Checkpoint(disk, f"{root}/checkpoint")
        self._dispatch = Dispatch(self._queues, self._index, self.listeners)
        self._flush = Flush(self._log, self._dispatch, self._checkpoint, clock, settings, call_soon)
        self._space = SpaceAhead(self._segments)
        self._lookup = Lookup(self._log, self._queues, self._index, settings)
        self._deletion = Deletion(
            disk, clock, self._log, self._queues, self._index, self._checkpoint, settings
        )
        self._upkeep = Upkeep(
            self._segments,
            self._queues,
            self._index,
            self._checkpoint,
            self._dispatch,
            self._flush,
            clock,
            settings,
            self._deletion,
        )
        self._lock: Lock | None = None
        self._is_started = False
        self._is_turn_scheduled = False
        self._is_failing = False
        self._refusal = "the store is not open"

    def note_bits(self, bits_of: BitsOf) -> None:
        """Let the queues' extensions, if they are on, hold what `bits_of` says of each message."""
        self._queues.bits_of = bits_of

    def _make_index(self) -> Index | None:
        settings = self.settings
        if not settings.message_index_enable:
            return None
        return Index(
            self._disk,
            settings.index_dir,
            settings.index_slot_count,
            settings.index_entry_count,
            self._clock,
        )

    def configure(self, settings: StoreSettings) -> None:
        """Take new settings; those marked fixed keep the values that the store was opened with."""
        self.settings = settings
        for part in (self._flush, self._lookup, self._upkeep, self._deletion):
            part.settings = settings

    # Life.

    def open(self) -> None:
        """Lock the folder, load the files and recover; blocks until the store can serve.

        Raises StoreDamaged when the files are not what these settings can have written, and
        BlockingIOError when another process has the store.
        """
        root = self.settings.root_dir
        self._disk.make_dirs(root)
        self._lock = self._disk.lock(f"{root}/lock")
        try:
            self._segments.load()
            self._checkpoint.load()
            is_clean = not self._disk.exists(f"{root}/abort")
            # From here on files change: a crash in the middle must not look like a clean stop.
            self._disk.write_file(f"{root}/abort", str(self._process_id).encode())
            self._disk.sync_dir(root)
            self._recover(is_clean)
        except BaseException:
            self._lock.release()
            raise
        self._refusal = ""

    def _recover(self, is_clean: bool) -> None:
        root = self.settings.root_dir
        if self._index is not None:
            self._index.load(None if is_clean else self._checkpoint.index_ms)
        left = clean_stop.take(self._disk, root)
        if is_clean and left is not None and clean_stop.is_still_true(left, self._segments, self._queues):
            clean_stop.apply(left, self._queues)
            end = LogEnd(left.log_end_offset, left.last_record_offset, left.last_store_ms)
            self._refill_index(end.log_offset, is_clean)
        else:
            recovery = Recovery(self._segments, self._queues, self._checkpoint, self.settings)
            recovery.load_queues()
            start = recovery.choose_start(is_clean)
            # The index takes records in log order only: what it misses before the start comes first.
            self._refill_index(start, is_clean)
            end = recovery.run(start, is_clean, self._dispatch.run_recovered)
            if self._index is not None and self._index.last_log_offset >= max(end.log_offset, 1):
                self._index.forget_from(end.log_offset)
                self._refill_index(end.log_offset, is_clean)
            self._save_recovered(end)
        self._log.begin_at(*end)
        self._dispatch.begin_at(end.log_offset, end.store_ms)
        self._flush.begin_at(end.log_offset)
        self._deletion.begin_at(self._log.min_offset)
        log.info(
            "store %s: log %d to %d, %d queues, %s stop",
            root, self._segments.min_offset, end.log_offset, len(self._queues),
            "clean" if is_clean else "unclean",
        )  # fmt: skip

    def _save_recovered(self, end: LogEnd) -> None:
        """Let the checkpoint say that recovery has put the log on disk; upkeep syncs queues and index."""
        self._checkpoint.log_ms = end.store_ms
        try:
            self._checkpoint.flush_now()
        except OSError as error:
            log.error("the checkpoint cannot be saved: %s; a crash now means a longer recovery", error)

    def _refill_index(self, scanned_from: int, is_clean: bool) -> None:
        parts = (self._index, self._segments, self._checkpoint, self._dispatch, self.settings)
        refill_index(*parts, scanned_from, is_clean)

    async def start(self) -> None:
        """Begin the periodic work."""
        self._is_started = True
        self._upkeep.start()

    async def close(self) -> None:
        """Finish what was accepted, put everything on disk and mark the stop as clean if it is."""
        if self._lock is None:
            return
        self._refusal = "the store is closing"
        self._turn()
        await self._upkeep.stop()
        await self._flush.close()
        await self._upkeep.settle()
        await self._space.close(self._log.written_offset)
        await self._upkeep.save_checkpoint()
        if self._is_safe_to_call_clean():
            try:
                self._mark_clean()
            except OSError as error:
                log.error("not a clean stop, the next start will recover: %s", error)
        if self._index is not None:
            self._index.close()
        self._checkpoint.close()
        self._queues.close()
        self._segments.close()
        self._lock.release()
        self._lock = None

    def _is_safe_to_call_clean(self) -> bool:
        problems = [
            self._flush.failure,
            self._upkeep.failure,
            self._queues.error,
            self._index.error if self._index is not None else "",
            "the log has a torn end" if self._log.is_torn else "",
            "not everything is dispatched" if self._dispatch.offset != self._log.written_offset else "",
        ]
        for problem in filter(None, problems):
            log.error("not a clean stop, the next start will recover: %s", problem)
        return not any(problems)

    def _mark_clean(self) -> None:
        root = self.settings.root_dir
        log_end, last_record = self._log.written_offset, self._log.last_record_offset
        if not self._segments.is_empty:
            state = clean_stop.describe(
                self._segments, self._queues, log_end, last_record, self._log.written_store_ms
            )
            clean_stop.save(self._disk, root, state)
        self._disk.remove(f"{root}/abort")
        self._disk.sync_dir(root)

    # Writing.

    def append(self, drafts: Sequence[Draft], done: Done) -> None:
        """Store the drafts, all or none, and call `done` with the outcome in a later turn; never waits."""
        assert drafts
        reason = self.refusal
        if reason:
            self._refuse(Appended(PutStatus.SERVICE_NOT_AVAILABLE, reason=reason), done)
            return
        settings = self.settings
        shared = share_out(drafts)
        refused = refusal(drafts, shared.shares, self._queues, settings)
        if refused is not None:
            self._refuse(refused, done)
            return
        queues = [self._queues.get(share.topic, share.queue_id) for share in shared.shares]
        reason = self._log.append(drafts, shared, queues, done, settings)
        if reason:
            self._refuse(Appended(PutStatus.MESSAGE_ILLEGAL, reason=reason), done)
        elif not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self._call_soon(self._end_of_turn)
        elif self._log.pending_bytes > TURN_BYTES_MAX:
            self._turn()

    def _refuse(self, refused: Appended, done: Done) -> None:
        self._call_soon(partial(done, refused))

    def _end_of_turn(self) -> None:
        self._is_turn_scheduled = False
        self._turn()

    def _turn(self) -> None:
        written = self._log.write()
        if written.stored:
            if self._is_started:
                self._space.follow(self._log.written_offset)
            self._flush.written(written.stored)
        if written.failed:
            if not self._is_failing:
                log.error("messages are refused: %s", written.reason)
            self._flush.refuse(written.failed, written.reason)
        elif self._is_failing and written.stored:
            log.warning("the log can be written again")
        self._is_failing = bool(written.failed)

    async def sync_log(self) -> None:
        """Put all that is written of the log on disk now, not only when its time comes."""
        await self._flush.sync()

    @property
    def refusal(self) -> str:
        """Why the store does not accept messages now; empty when it does."""
        return (
            self._refusal
            or self._flush.failure
            or self._upkeep.failure
            or self._queues.error
            or (self._deletion.reason if self._deletion.is_disk_full else "")
        )

    @property
    def is_writable(self) -> bool:
        return not self.refusal

    # Reading. `match` says which messages are wanted, None for all.

    def read_hot(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        match: Match = None,
        bulk: bool = False,
    ) -> Got | None:
        """Read a queue without waiting; None when it takes the disk: then `await read(...)`."""
        return self._lookup.read_hot(topic, queue_id, Ask(queue_offset, max_count, max_bytes, match, bulk))

    async def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        match: Match = None,
        bulk: bool = False,
    ) -> Got:
        """Read a queue, waiting for the disk where that is needed."""
        return await self._lookup.read(topic, queue_id, Ask(queue_offset, max_count, max_bytes, match, bulk))

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first offset of a queue; 0 when there is no such queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that the next visible message will have; 0 when there is no such queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    async def offset_by_time(
        self, topic: str, queue_id: int, ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """Return the queue offset that a store time stands for."""
        return await self._lookup.offset_by_time(topic, queue_id, ms, boundary)

    async def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return when a message was stored, in ms; None when there is none."""
        return await self._lookup.store_time(topic, queue_id, queue_offset)

    async def earliest_store_time(self, topic: str, queue_id: int) -> int | None:
        """Return when the first message of a queue was stored; None when it is empty."""
        return await self._lookup.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    async def record_at(self, log_offset: int) -> bytes | None:
        """Return the record that begins at a place of the log; None when none does."""
        return await self._lookup.record_at(log_offset)

    async def records_at(self, places: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """Return the records at places (log offset, size) that were noted before; see `record_at`."""
        return await self._lookup.records_at(places)

    async def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> QueryResult:
        """Return messages by key; other keys with the same hash may be among them."""
        return await self._lookup.query(topic, key, max_count, begin_ms, end_ms)

    async def queue_entries(self, topic: str, queue_id: int, first: int, count: int) -> list[QueueEntry]:
        """Return queue entries from an offset on."""
        return await self._lookup.queue_entries(topic, queue_id, first, count)

    async def queue_units(
        self, topic: str, queue_id: int, first: int, count: int
    ) -> list[tuple[QueueEntry, Unit | None]]:
        """Return queue entries as they lie in the files, each with its unit, if there is one."""
        return await self._lookup.queue_units(topic, queue_id, first, count)

    def walk(self, log_offset: int) -> Iterator[Sequence[Entry]]:
        """Yield what the log holds from the beginning of a record on; each step may block for the disk."""
        return LogScan(self._segments, self.settings).records(log_offset, self._log.written_offset)

    def check_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Return whether a message counts as recent."""
        return self._lookup.check_in_memory(topic, queue_id, queue_offset)

    # Queues and numbers.

    def topics(self) -> list[str]:
        return self._queues.topics()

    def queues_of(self, topic: str) -> list[int]:
        return self._queues.queues_of(topic)

    def delete_topic(self, topic: str) -> bool:
        """Delete a topic's queues; its records stay in the log. True when there were any."""
        return self._queues.delete_topic(topic)

    async def delete_expired_log(self) -> int:
        """Delete expired log files now, at any hour; return how many went."""
        await self._upkeep.settle()
        return await self._deletion.delete_expired_log()

    async def clean_expired_queues(self, is_kept: Callable[[str], bool]) -> int:
        """Delete queues of which the log has no message left; return how many. See `store.deletion`."""
        return await self._deletion.clean_expired_queues(is_kept)

    def hide_until(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Let a queue begin at an offset; its records stay in the log, and a restart shows them again."""
        queue = self._queues.find(topic, queue_id)
        if queue is not None:
            queue.min_offset = max(queue.min_offset, min(queue_offset, queue.max_offset))

    @property
    def log_disk_ratio(self) -> float:
        """Used share of the partition that holds the log, 0 to 1."""
        return self._deletion.log_disk_ratio

    @property
    def queue_disk_ratio(self) -> float:
        """Used share of the partition that holds the queues, 0 to 1."""
        return self._deletion.queue_disk_ratio

    @property
    def log_min_offset(self) -> int:
        return self._log.min_offset

    @property
    def log_max_offset(self) -> int:
        return self._log.written_offset

    @property
    def newest_store_ms(self) -> int:
        """Store time of the last message that was accepted, or a later one."""
        return self._log.last_store_ms

    @property
    def flushed_offset(self) -> int:
        return self._flush.flushed_offset

    @property
    def dispatch_behind_bytes(self) -> int:
        return self._log.written_offset - self._dispatch.offset
