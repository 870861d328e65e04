"""From the wheel to the real topic: everything of a slot that is due, oldest first.

    slot ─▶ markers: what is cancelled ─▶ messages, some at once ─▶ log ─▶ shelf.done

Some records are one append, stored whole or not at all. A delivered record names the parked one in its
`prepared_log_offset` (Apache leaves 0 there, and nobody reads it without a transaction): after a crash the
log itself tells what was delivered. What is rolled goes back into the timer's own queue the same way. A
message is given up only when the log no longer has it or the store can never take it. Reference: Apache's
TimerMessageStore.dequeue, 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from roquet.broker.core.pipeline import Pipeline
from roquet.broker.core.redraft import reopen
from roquet.broker.features.timer import terms
from roquet.broker.features.timer.metrics import Metrics
from roquet.broker.features.timer.shelf import Shelf
from roquet.broker.features.timer.state import PutCounter, State, TimedStore
from roquet.model.message import Draft, SysFlag, parse_properties
from roquet.model.names import TIMER_TOPIC
from roquet.model.properties import edit_properties
from roquet.model.status import Appended, PutStatus
from roquet.ports import Clock
from roquet.store.format import record
from roquet.store.format.timer_log import Unit

log = logging.getLogger("roquet.broker")

COUNT_AT_ONCE: Final = 128
BYTES_AT_ONCE: Final = 1024 * 1024
AGAIN_AFTER_S: Final = 0.5

NEVER_FILED_MS: Final = 2**63 - 1
"""TIMER_ENQUEUE_MS of a message that was due before it had a slot."""

_STORE_V6: Final = int(SysFlag.STORE_HOST_V6)
_HOPELESS: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


class Due(NamedTuple):
    """A draft that goes out now; `plain` is the same without the properties that we add."""

    draft: Draft
    plain: Draft
    topic: str


class Delivery:
    """Delivers slots."""

    def __init__(
        self,
        store: TimedStore,
        pipeline: Pipeline,
        shelf: Shelf,
        metrics: Metrics,
        stats: PutCounter,
        clock: Clock,
        state: State,
        precision_ms: int,
        store_v6: bool,
        between: Callable[[], Awaitable[None]],
    ) -> None:
        """`between` runs after each append: a slot may hold more than what is delivered in a second."""
        self._store = store
        self._pipeline = pipeline
        self._shelf = shelf
        self._metrics = metrics
        self._stats = stats
        self._clock = clock
        self._state = state
        self._precision_ms = precision_ms
        self._store_v6 = _STORE_V6 if store_v6 else 0
        self._between = between

    async def serve(self, tick: int) -> bool:
        """Deliver what waits in a slot; return False when told to stop before its end. Raises OSError."""
        slot = await self._shelf.wheel.get(tick)
        waiting = await self._shelf.waiting(tick)
        cancelled = await self._cancelled(waiting.markers)
        at = 0
        while at < len(waiting.messages):
            if self._state.is_stopping:
                return False
            log_start = self._store.log_max_offset
            units = await self._units(waiting.messages[at : at + COUNT_AT_ONCE])
            for unit in units:
                if unit is not None and unit.log_offset in self._state.delivered:
                    log_start = min(log_start, self._state.delivered[unit.log_offset])
            found = await self._due_of(tick, units, cancelled)
            if not await self._store_all(found):
                return False
            at += len(units)
            log_end = self._store.log_max_offset if found else 0
            self._shelf.done(tick, waiting.messages[at - 1], len(units), log_start, log_end)
            self._shelf.pending -= len(units)
            await self._between()
        if slot.tick == tick:
            self._shelf.done(tick, slot.last, 0, self._store.log_max_offset, 0)
        return True

    async def _units(self, positions: Sequence[int]) -> list[Unit | None]:
        """Return the units at the first of these positions, as many as are stored at once."""
        units: list[Unit | None] = []
        size_bytes = 0
        for position in positions:
            unit = await self._shelf.units.get(position)
            units.append(unit)
            size_bytes += 0 if unit is None else unit.size_bytes
            if size_bytes >= BYTES_AT_ONCE:
                break
        return units

    async def _due_of(
        self, tick: int, units: Sequence[Unit | None], cancelled: dict[tuple[str, str], str]
    ) -> list[Due]:
        """Return what to store for units, without those that were delivered before a crash."""
        delivered = self._state.delivered
        ours = [unit for unit in units if unit is not None and delivered.pop(unit.log_offset, None) is None]
        records = await self._store.records_at([(unit.log_offset, unit.size_bytes) for unit in ours])
        found = [self._due(tick, unit, data, cancelled) for unit, data in zip(ours, records, strict=True)]
        return [due for due in found if due is not None]

    async def _cancelled(self, markers: array[int]) -> dict[tuple[str, str], str]:
        """Return which messages the markers of a slot delete."""
        found: dict[tuple[str, str], str] = {}
        for position in markers:
            unit = await self._shelf.units.get(position)
            data = await self._store.record_at(unit.log_offset) if unit is not None else None
            if data is not None:
                properties = parse_properties(record.decode(data).properties.decode(errors="replace"))
                found[terms.cancelled(properties)] = ""
            self._shelf.pending += 1
        return found

    def _due(
        self, tick: int, unit: Unit, data: bytes | None, cancelled: dict[tuple[str, str], str]
    ) -> Due | None:
        """Return what to store for a unit; None when there is nothing to deliver."""
        if data is None:
            log.error("a timed message is lost: the log no longer has its record at %d", unit.log_offset)
            return None
        parked = reopen(data)
        draft, properties = parked.draft, parked.properties
        out_text, topic = properties.get(terms.OUT_NAME, ""), properties.get("REAL_TOPIC", "")
        if draft.topic != TIMER_TOPIC or not out_text.isdecimal() or not topic:
            log.error("the record at %d is no timed message: a crash cut the log short", unit.log_offset)
            return None
        if (topic, properties.get("UNIQ_KEY", "")) in cancelled:
            return None
        now_ms = self._clock.now_ms()
        is_roll = int(out_text) // self._precision_ms > tick
        if is_roll and not unit.is_roll:
            log.error("the unit of the record at %d is of another message: passed over", unit.log_offset)
            return None
        self._metrics.add(topic, 1 if terms.DELETE_NAME in properties else -1, now_ms)
        draft = draft._replace(
            sys_flag=draft.sys_flag & ~_STORE_V6 | self._store_v6, prepared_log_offset=parked.log_offset
        )
        put = {}
        if is_roll:
            put["TIMER_ROLL_TIMES"] = str(_number(properties.get("TIMER_ROLL_TIMES", "")) + 1)
        elif terms.DELETE_NAME in properties:
            return None  # a marker that was rolled and came too late
        else:
            queue_id = _number(properties.get("REAL_QID", ""))
            draft = draft._replace(topic=topic, queue_id=queue_id)
        filed_ms = unit.write_ms if unit.write_ms <= int(out_text) else NEVER_FILED_MS
        put |= {"TIMER_ENQUEUE_MS": str(filed_ms), "TIMER_DEQUEUE_MS": str(now_ms)}
        return Due(draft._replace(properties=edit_properties(draft.properties, put)), draft, topic)

    async def _store_all(self, found: Sequence[Due]) -> bool:
        """Append drafts, fewer at once when the store refuses; return False when told to stop."""
        at, count = 0, len(found)
        while at < len(found):
            some = found[at : at + count]
            result = await self._append([due.draft for due in some])
            if result.log_offsets:
                at += len(some)
                self._count(some, result)
            elif len(some) > 1:
                count = 1
            elif result.status in _HOPELESS:
                await self._last_try(some[0], result)
                at += 1
            elif self._state.is_stopping:
                return False
            else:
                log.error("a timed message waits: %s; tried again", result.reason or result.status.value)
                await self._clock.sleep_until(self._clock.monotonic() + AGAIN_AFTER_S)
        return True

    async def _last_try(self, due: Due, refused: Appended) -> None:
        """Store a message without what we add to its properties: with that they may be too long."""
        result = await self._append([due.plain])
        if result.log_offsets:
            self._count([due], result)
        else:
            log.error(
                "a timed message for %s is given up, its record stays at %d: %s",
                due.topic, due.draft.prepared_log_offset, refused.reason or refused.status.value,
            )  # fmt: skip

    async def _append(self, drafts: Sequence[Draft]) -> Appended:
        """Store drafts, all or none, and wait. They have passed the features when they were sent."""
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._pipeline.append(drafts, lambda result: None if future.done() else future.set_result(result))
        return await future

    def _count(self, some: Sequence[Due], result: Appended) -> None:
        self._state.delivered_total += len(some)
        for due in some:
            self._stats.put(due.draft.topic, due.draft.queue_id, 1, result.size_bytes // len(some))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
