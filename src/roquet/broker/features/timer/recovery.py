"""The timer's start: what the checkpoint says, then what the timer log and the log know beyond it.

    timercheck ─▶ wheel: delivered slots are emptied
               ─▶ timer log from the checked position on: units that the wheel may not know
               ─▶ log from the checked offset on: deliveries that the checkpoint does not know
               ─▶ queue offset: behind the last unit that is there

A unit that leads behind the end of the log was written for a message that a power cut took: it ends the
timer log. Without a checkpoint delivery begins as far back as the wheel reaches, as Apache's does: twice is
better than never. Reference: Apache's TimerMessageStore.recover, 5.5.0.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from roquet.broker.features.timer import terms
from roquet.broker.features.timer.shelf import Shelf
from roquet.broker.features.timer.state import State, TimedStore
from roquet.model.message import Entry, parse_properties
from roquet.model.names import TIMER_TOPIC
from roquet.ports import Clock, Disk, File
from roquet.store.format import record
from roquet.store.format.timer_check import FILE_BYTES, TimerCheck, decode_check, encode_check
from roquet.store.format.timer_log import UNIT_BYTES, Unit
from roquet.store.format.timer_wheel import SLOTS, Slot

log = logging.getLogger("roquet.broker")

BLANK_SLOTS: Final = 60
LAST_UNITS: Final = 1_024
"""Units that may lead to records which a power cut has torn: more than it finds unsynced in a second."""

DEQUEUED: Final = b"TIMER_DEQUEUE_MS\x01"


class CheckFile:
    """config/timercheck."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self.check = TimerCheck()
        self.delivered_from: int | None = None

    @property
    def exists(self) -> bool:
        return self._disk.exists(self._path)

    def load(self) -> None:
        """Read the page; one that is absent or senseless counts as zeros."""
        try:
            self.check, self.delivered_from = decode_check(self._disk.read_file(self._path))
        except FileNotFoundError:
            return
        if min(self.check) < 0:
            log.warning("%s holds negative numbers (%s): starting without it", self._path, self.check)
            self.check, self.delivered_from = TimerCheck(), None

    async def save(self, check: TimerCheck, delivered_from: int) -> None:
        """Put the page on disk; raises OSError."""
        if self._file is None:
            self._file = self._opened()
        self._file.write_at(0, encode_check(check, delivered_from))
        await self._file.sync()
        self.check, self.delivered_from = check, delivered_from

    def _opened(self) -> File:
        folder = self._path.rpartition("/")[0]
        self._disk.make_dirs(folder)
        file = self._disk.open(self._path, FILE_BYTES)
        if file.size_bytes != FILE_BYTES:
            # A crash before the first sync can leave the name without the length.
            file.close()
            self._disk.write_file(self._path, bytes(FILE_BYTES))
            file = self._disk.open(self._path)
        self._disk.sync_dir(folder)
        return file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


async def recover(
    store: TimedStore, shelf: Shelf, file: CheckFile, clock: Clock, precision_ms: int, state: State
) -> None:
    """Bring the state and the wheel to where the last life ended; raises OSError and StoreDamaged."""
    file.load()
    check = file.check
    now_tick = clock.now_ms() // precision_ms
    state.read_tick = check.read_ms // precision_ms if check.read_ms else now_tick - SLOTS // 2 + BLANK_SLOTS
    units = shelf.units
    units.load()
    is_wheel_there = shelf.wheel.open()
    shelf.pending = _sift(shelf, state.read_tick)
    start = check.log_position if is_wheel_there else 0
    last = await _take_in(store, shelf, min(max(start, units.min_position), units.max_position), state)
    await _set_queue_offset(store, check, last, state)
    await _find_delivered(store, file.delivered_from, clock, state)
    state.delivered_until = now_tick + BLANK_SLOTS
    log.info(
        "timer: read up to %d ms, queue offset %d, timer log %d, %d messages wait",
        state.read_tick * precision_ms, state.queue_offset, units.end, shelf.pending,
    )  # fmt: skip


def _sift(shelf: Shelf, read_tick: int) -> int:
    """Empty the slots that were delivered, and return how many messages the others hold."""
    pending = 0

    def is_kept(slot: Slot) -> bool:
        nonlocal pending
        if slot.tick < read_tick:
            return False
        pending += max(slot.number, 0)
        return True

    shelf.wheel.sift(is_kept)
    return pending


async def _take_in(store: TimedStore, shelf: Shelf, start: int, state: State) -> deque[Unit]:
    """Let the wheel know the units from a position on; return the last ones."""
    end, last = start, deque[Unit](maxlen=LAST_UNITS)
    async for position, unit in shelf.units.scan(start):
        if unit.log_offset + unit.size_bytes > store.log_max_offset:
            break
        shelf.units.doubt(position, unit)
        state.read_tick = min(state.read_tick, await shelf.take_in(position, unit))
        end = position + UNIT_BYTES
        last.append(unit)
    shelf.units.begin_at(end)
    return last


async def _set_queue_offset(store: TimedStore, check: TimerCheck, last: deque[Unit], state: State) -> None:
    """Go on behind the last unit whose record is there: filing those before it again delivers them twice."""
    queue_offset = check.queue_offset
    for unit in reversed(last):
        data = await store.record_at(unit.log_offset)
        found = record.decode(data) if data is not None else None
        if found is not None and found.topic == TIMER_TOPIC:
            queue_offset = max(queue_offset, found.queue_offset + 1)
            break
    low, high = store.min_offset(TIMER_TOPIC, 0), store.max_offset(TIMER_TOPIC, 0)
    state.queue_offset = min(max(queue_offset, low), high)
    if state.queue_offset != queue_offset:
        log.warning("timer: the queue offset %d is set to %d", queue_offset, state.queue_offset)


async def _find_delivered(store: TimedStore, delivered_from: int | None, clock: Clock, state: State) -> None:
    if delivered_from is None:
        return
    for entries in store.walk(max(delivered_from, store.log_min_offset)):
        for entry in entries:
            if DEQUEUED in entry.properties and await _is_delivery(store, entry):
                state.delivered[entry.prepared_log_offset] = entry.log_offset
        await clock.sleep_until(clock.monotonic())


async def _is_delivery(store: TimedStore, entry: Entry) -> bool:
    """Say whether a record was delivered from where it says. Place 0 is also what records have that were
    never parked and yet carry our properties: timed messages that consumers handed back."""
    if entry.prepared_log_offset:
        return True
    data = await store.record_at(0)
    if data is None:
        return False
    parked = record.decode(data)
    waiting, come = (
        parse_properties(bytes(each.properties).decode(errors="replace")) for each in (parked, entry)
    )
    return parked.topic == TIMER_TOPIC and all(
        waiting.get(name) == come.get(name) for name in ("UNIQ_KEY", terms.OUT_NAME)
    )
