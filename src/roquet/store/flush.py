"""Flush: when written appends are synced, dispatched and answered.

    ASYNC   written ─▶ dispatch ─▶ answer                    (synced every 500 ms in the background)
    SYNC    written ─▶ waits ─▶ sync ─▶ dispatch ─▶ answer    (group commit: one sync in flight, the next
                                                              one covers everything written meanwhile)

A sync that fails is final: the kernel may have dropped the pages, and a later sync that succeeds says
nothing about them. From then on nothing is accepted, and what waited is refused. In SYNC mode a message
with the property WAIT=false is answered at once, and any other after a time-out at the latest.
Reference: Apache's FlushManager and GroupCommitService, 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from roquet.model.status import Appended, PutStatus
from roquet.ports import Clock, Timer
from roquet.store.checkpoint import Checkpoint
from roquet.store.commitlog import CommitLog, Waiting
from roquet.store.dispatch import Dispatch
from roquet.store.settings import FlushMode, StoreSettings

log = logging.getLogger("roquet.store")

PAGE_BYTES = 4096
_NO_WAIT = b"WAIT\x01false"


class Flush:
    """The only one that syncs the log, answers appends and moves `flushed_offset`."""

    def __init__(
        self,
        commitlog: CommitLog,
        dispatch: Dispatch,
        checkpoint: Checkpoint,
        clock: Clock,
        settings: StoreSettings,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._log = commitlog
        self._dispatch = dispatch
        self._checkpoint = checkpoint
        self._clock = clock
        self._call_soon = call_soon
        self.settings = settings
        self.flushed_offset = 0
        self.failure = ""
        self._unsynced: deque[Waiting] = deque()
        self._answers: deque[tuple[Waiting, Appended]] = deque()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._synced_at = clock.monotonic()

    def begin_at(self, log_offset: int) -> None:
        self.flushed_offset = log_offset

    def written(self, stored: Sequence[Waiting]) -> None:
        """Take appends that are in the file now: dispatch and answer them, or let them wait for a sync."""
        if self.failure:
            self.refuse(stored, self.failure)
            return
        if self.settings.flush_mode is FlushMode.ASYNC and not self._unsynced:
            self._dispatch.run(stored)
            for waiting in stored:
                self._answers.append((waiting, waiting.appended))
            self._answer()
            return
        deadline = self._clock.monotonic() + self.settings.sync_flush_timeout_ms / 1000
        for waiting in stored:
            waiting.deadline = deadline
            self._unsynced.append(waiting)
            if is_no_wait(waiting.properties):
                self._settle(waiting, waiting.appended)
        self._start_sync()
        if self._timer is None:
            self._timer = self._clock.call_at(deadline, self._expire)
        self._answer()

    def refuse(self, failed: Sequence[Waiting], reason: str) -> None:
        """Answer appends that did not reach the file."""
        for waiting in failed:
            self._settle(waiting, Appended(PutStatus.SERVICE_NOT_AVAILABLE, reason=reason))
        self._answer()

    def _settle(self, waiting: Waiting, appended: Appended) -> None:
        if not waiting.is_answered:
            waiting.is_answered = True
            self._answers.append((waiting, appended))

    def _answer(self) -> None:
        # An answer that raises must not keep the ones behind it: they go out in the next turn, and the
        # error reaches the event loop's handler.
        try:
            while self._answers:
                waiting, appended = self._answers.popleft()
                waiting.done(appended)
        finally:
            if self._answers:
                self._call_soon(self._answer)

    def _start_sync(self) -> None:
        # A task of its own, which `close` waits for: a sync that is cut off would hide its failure.
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._sync_all())

    async def _sync_all(self) -> None:
        await self.sync()
        while self._unsynced and not self.failure:
            await self.sync()

    async def sync(self) -> None:
        """Sync the log as far as it is written, then dispatch and answer what waited for that."""
        async with self._lock:
            if self.failure:
                return
            target, store_ms = self._log.written_offset, self._log.written_store_ms
            try:
                await self._log.segments.sync()
            except OSError as error:
                self._fail(error)
                return
            self._advance(target, store_ms)

    def _advance(self, target: int, store_ms: int) -> None:
        self.flushed_offset = target
        self._synced_at = self._clock.monotonic()
        self._checkpoint.log_ms = store_ms
        synced: list[Waiting] = []
        while self._unsynced and self._unsynced[0].end_offset <= target:
            synced.append(self._unsynced.popleft())
        if not synced:
            return
        self._dispatch.run(synced)
        for waiting in synced:
            self._settle(waiting, waiting.appended)
        self._answer()

    def _fail(self, error: OSError) -> None:
        self.failure = (
            f"the log could not be synced behind {self.flushed_offset} "
            f"({self._log.segments.path_of(self.flushed_offset)}): {error}; "
            "what was written since may be lost: check the disk, then restart the broker"
        )
        log.critical("%s", self.failure)
        self.refuse(self._unsynced, self.failure)
        self._unsynced.clear()

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for waiting in self._unsynced:
            if waiting.is_answered:
                continue
            if waiting.deadline > now:
                self._timer = self._clock.call_at(waiting.deadline, self._expire)
                break
            late = waiting.appended._replace(
                status=PutStatus.FLUSH_DISK_TIMEOUT,
                reason=f"stored, but not synced within {self.settings.sync_flush_timeout_ms} ms",
            )
            self._settle(waiting, late)
        self._answer()

    def tick(self) -> None:
        """Begin a sync when enough is dirty or the last one is long ago."""
        dirty = self._log.written_offset - self.flushed_offset
        if not dirty or self.failure:
            return
        idle_ms = (self._clock.monotonic() - self._synced_at) * 1000
        if (
            dirty >= self.settings.flush_least_pages * PAGE_BYTES
            or idle_ms >= self.settings.flush_thorough_interval_ms
        ):
            self._start_sync()

    async def close(self) -> None:
        """Sync what is left and answer everything; `failure` says when that was not possible."""
        if self._task is not None:
            await self._task
        if self._log.written_offset > self.flushed_offset and not self.failure:
            await self.sync()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def is_no_wait(properties: bytes) -> bool:
    """Return whether the sender does not want to wait for the sync (WAIT=false)."""
    at = properties.find(_NO_WAIT)
    if at < 0:
        return False
    end = at + len(_NO_WAIT)
    return (at == 0 or properties[at - 1] == 2) and (end == len(properties) or properties[end] == 2)
