"""The wheel's file: slots by tick, changes kept in memory until they may go to disk.

A slot must never reach the file before the units that it leads to are on disk, or a power cut would leave
it pointing at nothing. So changes wait in a small table, over which reads look first; `flush` writes them
when the timer log is synced. It knows neither units nor clocks. Layout: `store.format.timer_wheel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from roquet.ports import Disk, File
from roquet.store.format.timer_wheel import (
    FILE_BYTES,
    FREE,
    SLOT_BYTES,
    SLOTS,
    Slot,
    decode_slot,
    encode_slot,
    index_of,
    used_slots,
)
from roquet.store.segments import StoreDamaged

PIECE_SLOTS: Final = 2048
"""Slots that a search reads at once."""


class Wheel:
    """All slots of one broker. Ticks are whole units of the precision since 1970."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._changed: dict[int, Slot] = {}
        self._is_doubted = True  # a program that was killed may have left what it wrote unsynced

    @property
    def exists(self) -> bool:
        return self._disk.exists(self._path)

    def open(self) -> bool:
        """Open the file, or create it; return whether it was there. Raises StoreDamaged."""
        was_there = self._disk.exists(self._path)
        file = self._disk.open(self._path, FILE_BYTES)
        if file.size_bytes == 0:  # a crash before its first sync
            file.close()
            self._disk.remove(self._path)
            file, was_there = self._disk.open(self._path, FILE_BYTES), False
        if file.size_bytes != FILE_BYTES:
            raise StoreDamaged(
                self._path,
                f"the file has {file.size_bytes} bytes instead of {FILE_BYTES}",
                "Move it away: it is built again from the timer log",
            )
        if not was_there:
            file.sync_now()
            self._disk.sync_dir(self._path.rpartition("/")[0])
        self._file = file
        return was_there

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def changes(self) -> int:
        """How many slots wait to be written."""
        return len(self._changed)

    async def at_index(self, tick: int) -> Slot:
        """Return the slot that the tick would use, whichever tick has it."""
        changed = self._changed.get(index_of(tick))
        if changed is not None:
            return changed
        return decode_slot(await self._read(index_of(tick), 1))

    async def get(self, tick: int) -> Slot:
        """Return the slot of a tick; FREE when another or none has it."""
        slot = await self.at_index(tick)
        return slot if slot.tick == tick else FREE

    def put(self, slot: Slot) -> None:
        """Change the slot of its tick."""
        self._changed[index_of(slot.tick)] = slot

    def free(self, tick: int) -> None:
        """Empty the slot of a tick."""
        self._changed[index_of(tick)] = FREE

    async def first(self, begin: int, end: int) -> int | None:
        """Return the first tick of a range that has a slot, or None."""
        if end <= begin:
            return None
        best = min((slot.tick for slot in self._changed.values() if begin <= slot.tick < end), default=end)
        if end - begin >= SLOTS:
            # More than a turn: the order of the file says nothing.
            return await self._least(begin, best, end)
        tick = begin
        while tick < best:
            index = index_of(tick)
            count = min(PIECE_SLOTS, SLOTS - index, best - tick)
            for at, slot in used_slots(await self._read(index, count), index):
                if begin <= slot.tick < best and at not in self._changed:
                    return slot.tick
            tick += count
        return best if best < end else None

    async def _least(self, begin: int, best: int, end: int) -> int | None:
        for index in range(0, SLOTS, PIECE_SLOTS):
            count = min(PIECE_SLOTS, SLOTS - index)
            for at, slot in used_slots(await self._read(index, count), index):
                if begin <= slot.tick < best and at not in self._changed:
                    best = slot.tick
        return best if best < end else None

    async def _read(self, index: int, count: int) -> bytes:
        assert self._file is not None, "the wheel is not open"
        place = (index * SLOT_BYTES, count * SLOT_BYTES)
        data = self._file.try_read(*place)
        return data if data is not None else await self._file.read(*place)

    def sift(self, is_kept: Callable[[Slot], bool]) -> None:
        """Show every slot of the file once and empty those that are not kept; blocks: at the start only."""
        assert self._file is not None, "the wheel is not open"
        for first in range(0, SLOTS, PIECE_SLOTS):
            count = min(PIECE_SLOTS, SLOTS - first)
            data = self._file.read_now(first * SLOT_BYTES, count * SLOT_BYTES)
            for index, slot in used_slots(data, first):
                if not is_kept(slot):
                    self._file.write_at(index * SLOT_BYTES, encode_slot(FREE))

    async def flush(self) -> None:
        """Put the changes on disk; raises OSError, and then they are still waiting."""
        if self._file is None or not (self._changed or self._is_doubted):
            return
        written = dict(self._changed)
        for index, slots in _runs(written):
            self._file.write_at(index * SLOT_BYTES, b"".join(map(encode_slot, slots)))
        await self._file.sync()
        self._is_doubted = False
        for index, slot in written.items():
            if self._changed.get(index) is slot:
                del self._changed[index]


def _runs(slots: Mapping[int, Slot]) -> Iterator[tuple[int, list[Slot]]]:
    """Yield slots that lie side by side, with the index of the first: one write each."""
    run: list[Slot] = []
    first = 0
    for index in sorted(slots):
        if run and index != first + len(run):
            yield first, run
            run = []
        if not run:
            first = index
        run.append(slots[index])
    if run:
        yield first, run
