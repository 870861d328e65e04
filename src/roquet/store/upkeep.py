"""Upkeep: what a running store does by itself, as tasks that the store owns.

    every 500 ms   sync the log if enough is dirty                            (ASYNC flush)
    every 1 s      write queue tails and the index out · sync full index files · save the checkpoint
    every 60 s     sync queues and index; only then does the checkpoint vouch for them
    every 10 s     delete what retention says may go

A task that ends by an error of ours stops the store from accepting messages: a store without upkeep
would fill the disk or lose its checkpoint unnoticed. Reference: Apache's Flush*Service classes, 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging

from roquet.ports import Clock
from roquet.store.checkpoint import Checkpoint
from roquet.store.deletion import Deletion
from roquet.store.dispatch import Dispatch
from roquet.store.flush import Flush
from roquet.store.index import Index
from roquet.store.index_vouch import vouched_ms
from roquet.store.queues import Queues
from roquet.store.segments import Segments
from roquet.store.settings import StoreSettings

log = logging.getLogger("roquet.store")

QUEUES_A_TURN = 256
TURN_S = 0.003
"""Tails written before other work gets its turn: so many, or for so long, as the making of a file takes
twenty times as long as a write to it."""

SYNCS_AT_STOP = 2
"""Queues synced at once when nothing else goes on: two take a third of the time of one after the other,
since the file system writes its journal for both; more would wait for a thread."""


class Upkeep:
    """The store's periodic work. `start` begins it, `stop` ends it; `settle` does it all at once."""

    def __init__(
        self,
        segments: Segments,
        queues: Queues,
        index: Index | None,
        checkpoint: Checkpoint,
        dispatch: Dispatch,
        flush: Flush,
        clock: Clock,
        settings: StoreSettings,
        deletion: Deletion,
    ) -> None:
        self._segments = segments
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._dispatch = dispatch
        self._flush = flush
        self._clock = clock
        self._deletion = deletion
        self.settings = settings
        self.failure = ""
        """Set when a sync of queues or index failed: from then on the checkpoint stands still."""
        self._saved = checkpoint.page
        self._is_checkpoint_failing = False
        self._settled_at = clock.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._pausing: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._settling = asyncio.Lock()

    def start(self) -> None:
        """Begin the periodic work on the running loop."""
        loop = asyncio.get_running_loop()
        for work in (self._flush_log(), self._write_queues(), self._clean_up()):
            task = loop.create_task(work)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        """End the periodic work; a round that is under way is finished, so that no failure is missed."""
        self._is_stopping = True
        for task in self._pausing:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failure = f"the store's upkeep has ended: {task.exception()!r}; restart the broker"
            log.critical("%s", self.failure, exc_info=task.exception())

    async def _pause(self, interval_ms: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._is_stopping:
            task.cancel()
        self._pausing.append(task)
        try:
            await self._clock.sleep_until(self._clock.monotonic() + interval_ms / 1000)
        finally:
            self._pausing.remove(task)

    async def _flush_log(self) -> None:
        while True:
            await self._pause(self.settings.flush_interval_ms)
            self._flush.tick()

    async def _write_queues(self) -> None:
        while True:
            await self._pause(self.settings.queue_flush_interval_ms)
            if self._is_thorough_due():
                await self.settle()
            else:
                await self._write_out()
                await self._vouch_for_index()
            await self.save_checkpoint()

    async def _clean_up(self) -> None:
        await self._pause(self.settings.clean_first_delay_ms)
        while True:
            await self._deletion.run()
            await self._pause(self.settings.clean_interval_ms)

    def _is_thorough_due(self) -> bool:
        if self._dispatch.offset == self._checkpoint.queues_log_offset and self._queues.is_synced:
            return False
        if self._deletion.is_waiting:
            return True
        idle_ms = (self._clock.monotonic() - self._settled_at) * 1000
        return idle_ms >= self.settings.queue_flush_thorough_interval_ms

    async def _write_out(self) -> None:
        monotonic = self._clock.monotonic
        count, turn_end = 0, monotonic() + TURN_S
        for queue in self._queues.dirty():
            if count == QUEUES_A_TURN or monotonic() >= turn_end:
                await self._clock.sleep_until(monotonic())
                count, turn_end = 0, monotonic() + TURN_S
            if queue.tail:
                self._queues.write_out(queue)
                count += 1
        if self._index is not None:
            await self._index.write_out()

    async def _vouch_for_index(self) -> None:
        """Put full index files on disk and say so: until then a crash costs more in Apache's hands."""
        if self._index is not None:
            await self._index.sync_full_files()
            self._checkpoint.index_ms = vouched_ms(self._index, self._segments)

    async def settle(self) -> None:
        """Put queues and index on disk, then let the checkpoint vouch for what they covered before."""
        async with self._settling:
            await self._settle()

    async def _settle(self) -> None:
        self._settled_at = self._clock.monotonic()
        offset, store_ms = self._dispatch.offset, self._dispatch.store_ms
        if self.failure:
            return
        # The log first: what the checkpoint says of the queues also vouches for the log up to there.
        if self._flush.flushed_offset < offset:
            await self._flush.sync()
        await self._write_out()
        if self._flush.failure or self._queues.error:
            return
        try:
            await self._queues.sync(SYNCS_AT_STOP if self._is_stopping else 1)
        except OSError as error:
            # The kernel may have dropped the pages: a later sync that succeeds would prove nothing.
            self.failure = f"queues could not be synced: {error}; check the disk, then restart"
            log.critical("%s", self.failure)
            return
        self._checkpoint.queues_ms = store_ms
        self._checkpoint.queues_log_offset = offset
        if self._index is not None:
            await self._index.flush()
            self._checkpoint.index_ms = vouched_ms(self._index, self._segments)

    async def save_checkpoint(self) -> None:
        """Save the checkpoint if it has changed; a refusal is tried again with the next change."""
        page = self._checkpoint.page
        if page == self._saved:
            return
        try:
            await self._checkpoint.flush()
        except OSError as error:
            if not self._is_checkpoint_failing:
                log.error("the checkpoint cannot be saved: %s; a crash now means a longer recovery", error)
            self._is_checkpoint_failing = True
            return
        self._is_checkpoint_failing = False
        self._saved = page
