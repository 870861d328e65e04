"""Delay levels at work: park what asks for a delay, and deliver what is due while master.

    before_append   DELAY > 0 ─▶ parked
    run             catch up ─▶ for each level: due records ─▶ log ─▶ offset moves ─▶ sleep until the next

One round delivers a level in order, some records as one append that is stored whole or not at all; the
offset moves when it is stored. After a crash the log itself tells what was delivered (`progress`). Once a
second a tick looks for new work, which also notices a clock that was set. Not here: which level a retry
gets (`features.retry`). Compatibility: ScheduleMessageService and HookUtils of Apache 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from roquet.broker.core.pipeline import Pipeline, Rewrite
from roquet.broker.core.redraft import reopen
from roquet.broker.core.table_hook import TableHook
from roquet.broker.features.delay import drafts
from roquet.broker.features.delay.due import Due
from roquet.broker.features.delay.progress import Progress
from roquet.model.message import Draft, Entry, parse_properties
from roquet.model.names import SCHEDULE_TOPIC
from roquet.model.status import Appended, Got
from roquet.ports import Clock
from roquet.store.format.queue_entry import QueueEntry
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.codes import Code
from roquet.wire.reply import Outcome, Refusal, Reply
from roquet.wire.requests.replica import GetDelayOffsets
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker")

DELIVERED_AT_ONCE: Final = 256
"""Records of one append: enough for speed, and over before another request waits for long."""

DELIVERED_BYTES_AT_ONCE: Final = 1024 * 1024

AGAIN_AFTER_S: Final = 10.0
"""Time until a level whose delivery failed is tried again; Apache waits as long."""

NEVER: Final = float("inf")


class Parked(Protocol):
    """What the delivery needs of the store."""

    @property
    def log_min_offset(self) -> int: ...
    @property
    def log_max_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...
    def min_offset(self, topic: str, queue_id: int) -> int: ...
    def max_offset(self, topic: str, queue_id: int) -> int: ...
    def queues_of(self, topic: str) -> list[int]: ...
    def walk(self, log_offset: int) -> Iterator[Sequence[Entry]]: ...
    def read_hot(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int, max_bytes: int
    ) -> Got | None: ...
    async def read(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int, max_bytes: int
    ) -> Got: ...
    async def record_at(self, log_offset: int) -> bytes | None: ...
    async def queue_entries(self, topic: str, queue_id: int, first: int, count: int) -> list[QueueEntry]: ...


class PutCounter(Protocol):
    """What it needs of the statistics."""

    def put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None: ...


class Delivery(NamedTuple):
    """A draft that is due, and the offset of its level once it and all before it are delivered."""

    draft: Draft
    next_offset: int


class Delay:
    """The delay levels of one broker."""

    def __init__(
        self,
        clock: Clock,
        store: Parked,
        pipeline: Pipeline,
        stats: PutCounter,
        store_v6: bool,
        levels_ms: Callable[[], Sequence[int]],
        save_period_s: float,
        version_step: int,
    ) -> None:
        self._clock = clock
        self._store = store
        self._pipeline = pipeline
        self._stats = stats
        self._store_v6 = store_v6
        self._levels_ms = levels_ms
        self._save_period_s = save_period_s
        self._progress = Progress(version_step)
        self._due: dict[int, Due] = {}
        self._wake = asyncio.Event()
        self._first_save = asyncio.Event()
        self._flight: asyncio.Future[Appended] | None = None

    # hooks

    def routes(self) -> dict[type[Header], Handler]:
        return {GetDelayOffsets: self.get_offsets}

    marks = frozenset({"DELAY"})

    def before_append(self, draft: Draft, properties: Mapping[str, str]) -> Draft | Rewrite:
        """Park a draft that asks for a delay."""
        text = properties.get("DELAY")
        if text is None or drafts.is_parked_elsewhere(draft):
            return draft
        try:
            level = drafts.level_of(text, len(self._levels_ms()))
        except ValueError:
            remark = f"DELAY {text[:40]!r} is not a level; levels are numbers from 1 to {self._level_max()}"
            raise Refusal(Code.MESSAGE_ILLEGAL, remark) from None
        return drafts.park(draft, properties, level) if level else draft

    def tables(self) -> tuple[TableHook, ...]:
        return (
            TableHook(
                "delayOffset.json",
                self._progress.load,
                lambda: self._progress.dump(self._store.flushed_offset),
                lambda: self._progress.is_save_wanted(self._store.log_max_offset),
                self._saved,
                self._save_period_s,
            ),
        )

    def runtime_texts(self) -> dict[str, str]:
        """Return how far each level is, and how far its queue goes."""
        return {
            f"scheduleMessageOffset_{queue + 1}": f"{self._offset(queue + 1)},{self._end(queue + 1)}"
            for queue in sorted(self._store.queues_of(SCHEDULE_TOPIC))
        }

    def get_offsets(self, request: GetDelayOffsets, call: Call) -> Outcome:
        progress = self._progress
        table = admin.by_number(dict(sorted(progress.offsets.items())))
        version = msgspec.to_builtins(progress.version)
        return Reply(body=admin.encode({"dataVersion": version, "offsetTable": table}))

    def on_tick(self, now: float) -> None:
        """Look for messages that were parked meanwhile, and for a clock that was set."""
        if any(self._end(level) > self._offset(level) for level in self._levels()):
            self._wake.set()

    async def run(self) -> None:
        """Deliver for as long as this broker is master."""
        if self._flight is not None:
            await asyncio.wait([self._flight])
        while not await self._is_caught_up():
            await self._clock.sleep_until(self._clock.monotonic() + AGAIN_AFTER_S)
        while True:
            self._wake.clear()
            next_at = NEVER
            for level in self._levels():
                next_at = min(next_at, await self._serve(level))
            await self._sleep(next_at)

    # what was delivered before

    async def _is_caught_up(self) -> bool:
        try:
            await self._catch_up()
        except OSError as error:
            log.error(
                "deliveries wait, the log cannot be read: %s; tried again in %d s", error, AGAIN_AFTER_S
            )
            return False
        return True

    async def _catch_up(self) -> None:
        """Find the deliveries that the saved offsets do not cover, so that none happens twice."""
        begin = self._progress.log_offset
        if begin is None:
            # Nothing of ours is in the log yet; before there is, the file must say from where to look.
            self._progress.is_changed = True
            await self._first_save.wait()
            return
        for entries in self._store.walk(max(begin, self._store.log_min_offset)):
            for entry in entries:
                if b"REAL_TOPIC\x01" in entry.properties and entry.topic != SCHEDULE_TOPIC:
                    await self._note(entry)
            await self._clock.sleep_until(self._clock.monotonic())

    async def _note(self, entry: Entry) -> None:
        """Move a level behind the parked record of a delivery that is in the log."""
        data = await self._store.record_at(entry.prepared_log_offset)
        if data is None:
            return
        parked = reopen(data)
        properties = parse_properties(entry.properties.decode(errors="replace"))
        level, place = parked.draft.queue_id + 1, (entry.topic, entry.queue_id, entry.prepared_log_offset)
        if drafts.is_delivery_of(parked, *place, properties) and parked.queue_offset >= self._offset(level):
            log_end = entry.log_offset + entry.size_bytes
            self._progress.move(
                level, parked.queue_offset + 1, entry.log_offset, log_end, self._clock.now_ms()
            )

    # delivery

    async def _serve(self, level: int) -> float:
        """Deliver some of what is due of a level; return when to look at it again, in monotonic time."""
        try:
            low, end = self._store.min_offset(SCHEDULE_TOPIC, level - 1), self._end(level)
            offset = self._offset(level)
            if not low <= offset <= end:
                offset = low if offset < low else end
                self._skip(level, offset, "its queue no longer reaches so far")
            if offset == end:
                return NEVER
            entries = await self._store.queue_entries(SCHEDULE_TOPIC, level - 1, offset, DELIVERED_AT_ONCE)
            count, wait_s = self._count_due(level, offset, entries)
            if not count:
                return self._clock.monotonic() + wait_s
            found, next_offset = await self._read(level, offset, count)
            if found:
                return await self._deliver(level, found)
            if next_offset > offset:
                self._skip(level, next_offset, "nothing in between can be delivered")
                return self._clock.monotonic()
        except OSError as error:
            log.error("delay level %d cannot be read: %s; tried again in %d s", level, error, AGAIN_AFTER_S)
        return self._clock.monotonic() + AGAIN_AFTER_S

    def _count_due(self, level: int, offset: int, entries: Sequence[QueueEntry]) -> tuple[int, float]:
        """Return how many of a level's next entries may go now, and how long the one behind must wait."""
        due = self._due.setdefault(level, Due())
        levels_ms = self._levels_ms()
        delay_ms = levels_ms[min(level, len(levels_ms)) - 1] if levels_ms else 0
        now_ms, now, end = self._clock.now_ms(), self._clock.monotonic(), self._end(level)
        for count, entry in enumerate(entries):
            wait_s = due.wait_s(offset + count, entry.tag_code, delay_ms, now_ms, now, end)
            if wait_s > 0:
                return count, wait_s
        return len(entries), AGAIN_AFTER_S

    async def _read(self, level: int, offset: int, count: int) -> tuple[list[Delivery], int]:
        """Return deliveries from an offset on, and the offset behind them."""
        found: list[Delivery] = []
        end, size_bytes = offset + count, 0
        while offset < end and size_bytes < DELIVERED_BYTES_AT_ONCE:
            ask = (SCHEDULE_TOPIC, level - 1, offset, end - offset, DELIVERED_BYTES_AT_ONCE)
            got = self._store.read_hot(*ask) or await self._store.read(*ask)
            if got.next_offset <= offset:
                break
            offset = min(got.next_offset, end)
            size_bytes += got.size_bytes
            for data in got.records:
                parked = reopen(data)
                if parked.queue_offset >= end:  # entries whose records are gone were passed over
                    break
                try:
                    draft = drafts.back(parked, self._store_v6)
                except drafts.Lost as error:
                    log.error("message %d of delay level %d: %s", parked.queue_offset, level, error)
                    continue
                found.append(Delivery(draft, parked.queue_offset + 1))
        return found, offset

    async def _deliver(self, level: int, found: list[Delivery]) -> float:
        """Append deliveries, fewer at once when the store refuses; return when to go on."""
        while True:
            result = await self._append(level, found)
            if result.log_offsets:
                return self._clock.monotonic()
            if len(found) == 1:
                log.error(
                    "message %d of delay level %d cannot be delivered: %s; tried again in %d s",
                    found[0].next_offset - 1, level, result.reason or result.status.value, AGAIN_AFTER_S,
                )  # fmt: skip
                return self._clock.monotonic() + AGAIN_AFTER_S
            found = found[: len(found) // 2]

    async def _append(self, level: int, found: Sequence[Delivery]) -> Appended:
        """Store deliveries, all or none; the offset has moved when this returns, even if cancelled."""
        log_start = self._store.log_max_offset
        flight: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

        def done(result: Appended) -> None:
            self._progress.end()
            if result.log_offsets:
                log_end = self._store.log_max_offset
                next_offset = found[-1].next_offset
                self._progress.move(level, next_offset, log_start, log_end, self._clock.now_ms())
                for delivery in found:
                    draft = delivery.draft
                    self._stats.put(draft.topic, draft.queue_id, 1, result.size_bytes // len(found))
            if not flight.done():
                flight.set_result(result)

        self._flight = flight
        self._progress.begin(log_start)
        # Not through the features again: they have seen the message when it was sent.
        self._pipeline.append([delivery.draft for delivery in found], done)
        try:
            return await asyncio.shield(flight)
        except asyncio.CancelledError:
            await asyncio.wait([flight])
            raise

    def _skip(self, level: int, offset: int, reason: str) -> None:
        log.error(
            "delay level %d goes on at %d instead of %d: %s", level, offset, self._offset(level), reason
        )
        log_end = self._store.log_max_offset
        self._progress.move(level, offset, log_end, log_end, self._clock.now_ms())

    # small things

    async def _sleep(self, until: float) -> None:
        """Return at a monotonic time, or when a tick has found work."""
        if until == NEVER:
            await self._wake.wait()
            return
        timer = self._clock.call_at(until, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _saved(self) -> None:
        self._progress.saved()
        self._first_save.set()

    def _levels(self) -> range:
        """Return all levels that can hold messages, those of an earlier setting too."""
        return range(
            1, max(self._level_max(), max(self._store.queues_of(SCHEDULE_TOPIC), default=-1) + 1) + 1
        )

    def _level_max(self) -> int:
        return len(self._levels_ms())

    def _offset(self, level: int) -> int:
        return self._progress.offsets.get(level, 0)

    def _end(self, level: int) -> int:
        return self._store.max_offset(SCHEDULE_TOPIC, level - 1)
