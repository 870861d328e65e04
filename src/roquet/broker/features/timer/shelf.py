"""Wheel and timer log as one: file a message under a moment, find again what waits there.

    chain ─▶ add: a unit behind it ─▶ keep: its slot leads to the last one
    waiting(tick) ─▶ positions of the chain, oldest first

What was delivered of a slot is known by a position: all units before it are done. That is the slot's own
first position on disk, and a higher one in memory until the deliveries are surely in the log (`settle`).
A chain may hold a record twice after a crash, and units of records that the log lost: the newest unit of a
place in the log is the one that counts. Reference: Apache's TimerMessageStore, 5.5.0.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable
from typing import Final, NamedTuple

from roquet.broker.features.timer.units import Units
from roquet.broker.features.timer.wheel import Wheel
from roquet.ports import Clock
from roquet.store.format.timer_log import DEFAULT, DELETE, NO_POSITION, ROLL, UNIT_BYTES, Unit
from roquet.store.format.timer_wheel import Slot

log = logging.getLogger("roquet.broker")

COLLISIONS_MAX: Final = 1_000
"""Slots that may be tried when the clock was set so far that a slot is still another time's."""

STEPS_BETWEEN_PAUSES: Final = 512


class Message(NamedTuple):
    """A record of the timer's queue, as much of it as a unit says."""

    log_offset: int
    size_bytes: int
    topic_hash: int
    is_delete: bool


class Chain:
    """A slot while messages are added to it; positions are NO_POSITION while it has none."""

    __slots__ = ("first", "last", "number", "tick")

    def __init__(self, tick: int, first: int, last: int, number: int) -> None:
        self.tick = tick
        self.first = first
        self.last = last
        self.number = number


class Waiting(NamedTuple):
    """What waits in a slot: positions of messages, oldest first, and of deletion markers."""

    messages: array[int]
    markers: array[int]


class _Done(NamedTuple):
    """Deliveries of one slot that are not surely on disk: units before `position`, in a part of the log."""

    position: int
    number: int
    log_start: int
    log_end: int


class Shelf:
    """Everything that waits for its time on one broker."""

    def __init__(self, wheel: Wheel, units: Units, clock: Clock, precision_ms: int) -> None:
        self.wheel = wheel
        self.units = units
        self.pending = 0
        """Messages that wait."""
        self._clock = clock
        self._precision_ms = precision_ms
        self._done: dict[int, _Done] = {}

    async def chain(self, slot_ms: int, read_tick: int, others: dict[int, Chain]) -> Chain:
        """Return the chain of a slot, or of the next one that has room, to `add` to; raises OSError.

        `others` are those that are not kept yet, by tick: the wheel does not know how far they go. It is
        one of them from then on.
        """
        tick, slot = await self._slot_for(slot_ms // self._precision_ms, read_tick)
        chain = others.get(tick)
        if chain is None:
            is_new = slot.tick != tick
            chain = Chain(tick, NO_POSITION, NO_POSITION, 0) if is_new else Chain(*slot[:4])
            others[tick] = chain
        return chain

    def add(self, chain: Chain, message: Message, write_ms: int, is_roll: bool) -> None:
        """Add a message to a chain; raises OSError, and then nothing has changed."""
        log_offset, size_bytes, topic_hash, is_delete = message
        flags = DEFAULT | (ROLL if is_roll else 0) | (DELETE if is_delete else 0)
        delay_ms = chain.tick * self._precision_ms - write_ms
        chain.last = position = self.units.append(
            Unit(chain.last, flags, write_ms, delay_ms, log_offset, size_bytes, topic_hash)
        )
        if chain.first == NO_POSITION:
            chain.first = position
        step = -1 if is_delete else 1
        chain.number += step
        self.pending += step

    def keep(self, chains: Iterable[Chain]) -> None:
        """Let the slots lead to what was added."""
        for chain in chains:
            if chain.last != NO_POSITION:
                self.wheel.put(Slot(chain.tick, chain.first, chain.last, chain.number))

    async def take_in(self, position: int, unit: Unit) -> int:
        """Let the wheel know a unit that the log has and it may not; return its tick. For recovery."""
        tick = unit.slot_ms // self._precision_ms
        slot = await self.wheel.at_index(tick)
        is_new = slot.tick != tick
        if is_new or slot.last < position:
            step = -1 if unit.flags & DELETE else 1
            first, number = (position, step) if is_new else (slot.first, slot.number + step)
            self.wheel.put(Slot(tick, first, position, number))
            self.pending += step
        return tick

    async def _slot_for(self, tick: int, read_tick: int) -> tuple[int, Slot]:
        """Return a tick, the wanted one or the next that has room, and the slot that it would use."""
        for step in range(COLLISIONS_MAX):
            slot = await self.wheel.at_index(tick + step)
            if slot.tick in (tick + step, 0) or (slot.tick < read_tick and slot.tick not in self._done):
                return tick + step, slot
        raise OSError(f"the timer wheel has no room behind tick {tick}: was the clock set by many days?")

    async def waiting(self, tick: int) -> Waiting:
        """Return what of a slot is not delivered."""
        slot = await self.wheel.get(tick)
        done = self._done.get(tick)
        bound = max(slot.first, done.position if done is not None else 0, self.units.min_position)
        messages, markers = array("q"), array("q")
        position, newest, steps = slot.last, NO_POSITION, 0
        while slot.tick == tick and position >= bound:
            unit = await self.units.get(position)
            if unit is None or unit.slot_ms // self._precision_ms != tick or unit.previous >= position:
                log.error("the timer log holds no unit of tick %d at %d: the rest is lost", tick, position)
                break
            # Newest first, places in the log go down; one that does not was filed again later.
            if newest == NO_POSITION or unit.log_offset < newest:
                newest = unit.log_offset
                (markers if unit.is_delete else messages).append(position)
            position = unit.previous
            steps += 1
            if steps % STEPS_BETWEEN_PAUSES == 0:
                await self._clock.sleep_until(self._clock.monotonic())
        messages.reverse()
        return Waiting(messages, markers)

    def done(self, tick: int, position: int, count: int, log_start: int, log_end: int) -> None:
        """Note that the units of a slot up to this one are delivered, by records in a part of the log."""
        before = self._done.get(tick)
        if before is not None:
            count, log_start = count + before.number, min(log_start, before.log_start)
            log_end = max(log_end, before.log_end)
        self._done[tick] = _Done(position + UNIT_BYTES, count, log_start, log_end)

    async def settle(self, flushed_offset: int) -> None:
        """Let the wheel forget the deliveries that are on disk now."""
        for tick, done in list(self._done.items()):
            if done.log_end > flushed_offset:
                continue
            slot = await self.wheel.get(tick)
            if slot.tick == tick and slot.last < done.position:
                self.wheel.free(tick)
            elif slot.tick == tick:
                self.wheel.put(slot._replace(first=done.position, number=max(slot.number - done.number, 0)))
            del self._done[tick]

    @property
    def unsettled_tick(self) -> int | None:
        """The earliest slot with deliveries that are not surely on disk."""
        return min(self._done, default=None)

    @property
    def unsettled_log_offset(self) -> int | None:
        """Where in the log the first of those deliveries is, or something before it."""
        return min((done.log_start for done in self._done.values()), default=None)

    @property
    def unsettled_log_end(self) -> int | None:
        """How far the log must be on disk for the first slot to be settled."""
        return min((done.log_end for done in self._done.values()), default=None)

    async def flush(self) -> None:
        """Put units, then slots, on disk; raises OSError."""
        self.units.write()
        await self.units.sync()
        await self.wheel.flush()
