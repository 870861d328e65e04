"""What waits, by topic and time: a look at the wheel that changes nothing.

    slots in order of time ─▶ units ─▶ by the topic's hash ─▶ records: topic, time, key

For administrators: `Timer.pending` and whoever opens a store. A message that is rolled is found by its
slot on the way, which is never behind its own time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from roquet.broker.features.timer import terms
from roquet.broker.features.timer.shelf import Shelf
from roquet.broker.features.timer.state import TimedStore
from roquet.model.message import java_hash, parse_properties
from roquet.model.names import TIMER_TOPIC
from roquet.store.format import record
from roquet.store.format.timer_wheel import SLOTS


class Pending(NamedTuple):
    """A message that waits. `out_ms` is its slot's time: it is delivered one precision later."""

    topic: str
    queue_id: int
    out_ms: int
    unique_key: str
    log_offset: int
    roll_times: int


class Wanted(NamedTuple):
    """Which messages to list: of one topic or of all (empty), due within a time."""

    topic: str = ""
    begin_ms: int = 0
    end_ms: int = 2**63 - 1


EVERYTHING: Final = Wanted()


def pending_of(data: bytes | memoryview, wanted: Wanted) -> Pending | None:
    """Return what a parked record says, or None when it is not wanted; pure."""
    found = record.decode(data)
    properties = parse_properties(found.properties.decode(errors="replace"))
    out_text, topic = properties.get(terms.OUT_NAME, ""), properties.get("REAL_TOPIC", "")
    if found.topic != TIMER_TOPIC or not out_text.isdecimal() or terms.DELETE_NAME in properties:
        return None
    if wanted.topic not in ("", topic) or not wanted.begin_ms <= int(out_text) < wanted.end_ms:
        return None
    queue_text, rolls_text = properties.get("REAL_QID", ""), properties.get("TIMER_ROLL_TIMES", "")
    return Pending(
        topic,
        int(queue_text) if queue_text.isdecimal() else 0,
        int(out_text),
        properties.get("UNIQ_KEY", ""),
        found.log_offset,
        int(rolls_text) if rolls_text.isdecimal() else 0,
    )


async def pending_messages(
    shelf: Shelf, store: TimedStore, read_tick: int, precision_ms: int, wanted: Wanted
) -> AsyncIterator[Pending]:
    """Yield the messages that wait, in order of their slots; those that were cancelled are left out."""
    topic_hash = java_hash(wanted.topic)
    begin, end = read_tick, min(read_tick + SLOTS - 1, wanted.end_ms // precision_ms + 1)
    while (tick := await shelf.wheel.first(begin, end)) is not None:
        begin = tick + 1
        waiting = await shelf.waiting(tick)
        cancelled = set()
        for position in waiting.markers:
            unit = await shelf.units.get(position)
            data = await store.record_at(unit.log_offset) if unit is not None else None
            if data is not None:
                properties = parse_properties(record.decode(data).properties.decode(errors="replace"))
                cancelled.add(terms.cancelled(properties))
        for position in waiting.messages:
            unit = await shelf.units.get(position)
            if unit is None or (wanted.topic and unit.topic_hash != topic_hash):
                continue
            data = await store.record_at(unit.log_offset)
            found = pending_of(data, wanted) if data is not None else None
            if found is not None and (found.topic, found.unique_key) not in cancelled:
                yield found
