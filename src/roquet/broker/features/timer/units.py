"""The timer log's files: append units, read them again, drop the oldest files.

Appends gather in memory and go out together with `write`; only what was written can be read. Knows
positions, never what a unit means. Layout: `store.format.timer_log`; files: `store.segments`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from roquet.ports import Disk
from roquet.store.format.timer_log import (
    BLANK_BYTES,
    UNIT_BYTES,
    Unit,
    decode_unit,
    encode_blank,
    encode_unit,
    fits,
    is_blank,
    last_unit_position,
)
from roquet.store.segments import Segments

SCAN_BYTES: Final = UNIT_BYTES * 1024


class Units:
    """All units of one broker, by position."""

    def __init__(self, disk: Disk, folder: str, file_size_bytes: int) -> None:
        self._files = Segments(disk, folder, file_size_bytes)
        self._pending = bytearray()
        self._pending_at = 0
        self._doubted: set[int] = set()

    def load(self) -> None:
        """Take over the files; raises StoreDamaged."""
        self._files.load()

    def close(self) -> None:
        self._files.close()

    @property
    def min_position(self) -> int:
        return self._files.min_offset

    @property
    def max_position(self) -> int:
        """The end of the last file."""
        return self._files.end_capacity

    @property
    def end(self) -> int:
        """Where the next unit goes, unless its file is full."""
        return self._pending_at + len(self._pending)

    @property
    def is_synced(self) -> bool:
        return self._files.is_synced and not self._pending

    def begin_at(self, position: int) -> None:
        """Let the next unit go here; what lies behind is overwritten."""
        assert not self._pending
        self._pending_at = position

    def append(self, unit: Unit) -> int:
        """Return the position that the unit gets; raises OSError, and then nothing has changed."""
        size = self._files.file_size_bytes
        position = self.end
        if not fits(position % size, size):
            left = size - position % size
            self._pending += encode_blank(left)
            try:
                self.write()
            except OSError:
                del self._pending[-BLANK_BYTES:]
                raise
            self._pending_at = position = position + left
        self._pending += encode_unit(unit)
        return position

    def doubt(self, position: int, unit: Unit) -> None:
        """Have the file of a unit that was found synced again: a program that was killed may have left it
        unsynced, and what is saved next must not lead to a unit that a power cut can still take."""
        start = self._files.start_of(position)
        if start not in self._doubted:
            self._doubted.add(start)
            self._files.write(position, encode_unit(unit))

    def write(self) -> None:
        """Hand what was appended to the operating system; raises OSError, and then it is still pending."""
        if not self._pending:
            return
        self._files.ensure_durable(self._pending_at)
        self._files.write(self._pending_at, self._pending)
        self._pending_at += len(self._pending)
        self._pending = bytearray()

    async def get(self, position: int) -> Unit | None:
        """Return the unit at a position; None when there is none."""
        data = self._files.try_read(position, UNIT_BYTES)
        return decode_unit(data if data is not None else await self._files.read(position, UNIT_BYTES))

    async def scan(self, position: int) -> AsyncIterator[tuple[int, Unit]]:
        """Yield (position, unit) from a position on, up to the first place that holds none."""
        while position < self._files.end_capacity:
            data = await self._files.read(position, SCAN_BYTES)
            at = 0
            while (unit := decode_unit(data, at)) is not None:
                yield position + at, unit
                at += UNIT_BYTES
            if is_blank(data, at) and at < len(data):
                size = self._files.file_size_bytes
                position += size - position % size
            elif at:
                position += at
            else:
                return

    async def sync(self) -> None:
        """Make all that was written survive a power cut; raises OSError."""
        await self._files.sync()

    async def drop_before(self, log_min_offset: int) -> int:
        """Delete the first files, never the last, whose records the log no longer has; return how many."""
        dropped = 0
        while len(self._files.starts) > 1:
            last = self.min_position + last_unit_position(self._files.file_size_bytes)
            unit = await self.get(last)
            if unit is None or unit.log_offset >= log_min_offset:
                break
            self._files.remove_first()
            dropped += 1
        return dropped
