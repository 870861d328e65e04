"""The extension of one queue: for each message the bits of the selectors that it matches.

Dispatch puts a unit in front of each queue entry, which then carries the unit's address; reads with tags or
selectors look it up. Like the queue, new units lie in a tail in memory until the queue is written out, and
all of it can be had again from the log: what cannot be read here is looked up there by the reader.

    files   [ units ........ | end mark )[ units ....... )[ zeros ... ]
                                                          ^ tail position
    tail                                                  [ units ... )
                                                                      ^ end

Addresses in a queue only ever go up, whatever happens to the files: an address that was given twice would
let an old entry be judged by the bits of a newer message. It does not know what bits mean. Reference:
Apache's ConsumeQueueExt, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from roquet.store.format import queue_ext
from roquet.store.format.queue_ext import Unit, is_address, position_of
from roquet.store.segments import Segments, StoreDamaged

log = logging.getLogger("roquet.store")

SPARE_BYTES: Final = 4096
"""Read behind the place of the last unit that is wanted; a longer unit counts as missing."""

SPAN_BYTES_MAX: Final = 1024 * 1024
"""Units further apart than this are read one by one: such addresses are damaged."""

STEP_BYTES: Final = 64 * 1024

Span = tuple[int, int]
"""Position and size of a read."""


class Extension:
    """The units of one queue. Put, write out, look up."""

    __slots__ = ("_files", "_is_loaded", "_tail", "_tail_position", "is_placed")

    def __init__(self, files: Segments) -> None:
        self._files = files
        self._is_loaded = False
        self._tail = bytearray()
        self._tail_position = 0
        self.is_placed = False
        """Whether the end is known, behind which the next unit goes: see `place_now`."""

    @property
    def files(self) -> Segments:
        """The files, listed when first asked for; those that do not fit together count as missing."""
        if not self._is_loaded:
            try:
                self._files.load()
            except StoreDamaged as damage:
                log.warning("selectors are evaluated, the extension cannot be read: %s", damage)
            self._is_loaded = True
            if not self.is_placed:
                self._tail_position = self._files.end_capacity
        return self._files

    # Writing.

    def place_now(self, entry_count: int, last_tag_code: int) -> None:
        """Find the end by what the queue's last entry has for a tag code, blocking shortly.

        `entry_count` is the queue's next offset, 0 without an entry. What lies behind the end is forgotten.
        """
        files = self.files
        if files.is_empty:
            files.destroy()  # what lies there all the same cannot be read
        if not entry_count:
            self.destroy()
            end = 0
        elif is_address(last_tag_code):
            position = position_of(last_tag_code)
            unit = self._unit_now(position)
            end = position + unit.size_bytes if unit is not None else self._next_file(position + 1)
        elif not files.is_empty:
            end = files.end_capacity
        else:
            # Were there files once, then no unit of this queue was further up than this.
            end = self._next_file(entry_count * queue_ext.UNIT_BYTES_MAX)
        if not files.is_empty and not self._tail and end > files.end_capacity:
            files.destroy()  # files are missing at the end: those before them would leave a gap
        if self._tail and 0 <= end - self._tail_position <= len(self._tail):
            del self._tail[end - self._tail_position :]
        else:
            self._tail, self._tail_position = bytearray(), end
        self.is_placed = True

    def _next_file(self, position: int) -> int:
        size = self._files.file_size_bytes
        return -(-position // size) * size

    def put(self, unit: Unit) -> int:
        """Add a unit and return its address; where it cannot be kept, the tag code itself."""
        size, file_size = unit.size_bytes, self._files.file_size_bytes
        end = self._tail_position + len(self._tail)
        room = file_size - end % file_size
        if size > room - queue_ext.FILE_END_BYTES:
            is_too_large = size > min(queue_ext.UNIT_BYTES_MAX, file_size - queue_ext.FILE_END_BYTES)
            if is_too_large or end + room + size > queue_ext.POSITION_MAX:
                return unit.tag_code
            self._tail += queue_ext.FILE_END.ljust(room, b"\0")
            end += room
        self._tail += queue_ext.pack(unit)
        return queue_ext.address_of(end)

    def write_out(self) -> None:
        """Move the tail into the files; raises OSError, and then it stays where it is."""
        if not self._tail:
            return
        files, tail, position = self.files, self._tail, self._tail_position
        done = 0
        while done < len(tail):
            room = files.file_size_bytes - position % files.file_size_bytes
            files.ensure(position)
            files.write(position, memoryview(tail)[done : done + room].toreadonly())
            length = min(room, len(tail) - done)
            position += length
            done += length
        self._tail, self._tail_position = bytearray(), position

    @property
    def is_synced(self) -> bool:
        return self._files.is_synced

    async def sync(self) -> None:
        """Make the units that were written out survive a power cut; raises OSError."""
        await self._files.sync()

    def sync_now(self) -> None:
        """Like `sync`, blocking."""
        self._files.sync_now()

    def clear_behind_now(self) -> None:
        """Remove what lies in the files behind the last unit, blocking."""
        files, position = self.files, self._tail_position
        if not self.is_placed or files.is_empty:
            return
        files.truncate_files_after(position)
        while position < files.end_capacity:
            data = files.read_now(position, STEP_BYTES)
            if not data.strip(b"\0"):
                return
            files.write(position, bytes(len(data)))
            position += len(data)

    def remove_before(self, address: int) -> None:
        """Delete the files whose units all lie before an address."""
        if not is_address(address):
            return
        files, position = self.files, min(position_of(address), self._tail_position)
        while not files.is_empty and files.min_offset + files.file_size_bytes <= position:
            files.remove_first()

    def destroy(self) -> None:
        """Delete the files and become empty."""
        self._files.destroy()
        self._is_loaded = True
        self._tail, self._tail_position = bytearray(), 0
        self.is_placed = False

    # Reading.

    def try_units(self, tag_codes: Sequence[int]) -> list[Unit | None] | None:
        """Return the units that tag codes of queue entries lead to, or None when that needs the disk.

        A unit is None where the code is no address, or nothing is found there.
        """
        units = self._in_tail(tag_codes)
        spans = self._spans(tag_codes, units)
        found: list[bytes] = []
        for position, size in spans:
            data = self.files.try_read(position, size)
            if data is None:
                return None
            found.append(data)
        return _with_found(tag_codes, units, spans, found)

    async def units(self, tag_codes: Sequence[int]) -> list[Unit | None]:
        """Like `try_units`, waiting for the disk where that is needed."""
        units = self._in_tail(tag_codes)
        spans = self._spans(tag_codes, units)
        found = [await self.files.read(*span) for span in spans]
        return _with_found(tag_codes, units, spans, found)

    def _in_tail(self, tag_codes: Sequence[int]) -> list[Unit | None]:
        tail, start = self._tail, self._tail_position
        if not tail:
            return [None] * len(tag_codes)
        return [
            queue_ext.unpack_from(tail, position_of(code) - start) if is_address(code) else None
            for code in tag_codes
        ]

    def _spans(self, tag_codes: Sequence[int], units: Sequence[Unit | None]) -> list[Span]:
        """Return the reads that the units which are not in the tail need."""
        spans: list[Span] = []
        start = file_end = 0
        for code, unit in zip(tag_codes, units, strict=True):
            if unit is not None or not is_address(code):
                continue
            position = position_of(code)
            if not spans or not start <= position < min(file_end, start + SPAN_BYTES_MAX):
                start, file_end = position, self._next_file(position + 1)
                spans.append((start, 0))
            stop = min(position + SPARE_BYTES, file_end)
            spans[-1] = (start, max(spans[-1][1], stop - start))
        return spans

    def _unit_now(self, position: int) -> Unit | None:
        if self._tail and position >= self._tail_position:
            return queue_ext.unpack_from(self._tail, position - self._tail_position)
        return queue_ext.unpack_from(self.files.read_now(position, queue_ext.UNIT_BYTES_MAX))


def _with_found(
    tag_codes: Sequence[int], units: list[Unit | None], spans: Sequence[Span], found: Sequence[bytes]
) -> list[Unit | None]:
    """Fill in the units that were read from the files; the spans are in the order of their first use."""
    if not spans:
        return units
    reads = zip(spans, found, strict=True)
    (start, size), data = next(reads)
    for index, code in enumerate(tag_codes):
        if units[index] is not None or not is_address(code):
            continue
        position = position_of(code)
        while not start <= position < start + size:
            (start, size), data = next(reads)
        units[index] = queue_ext.unpack_from(data, position - start)
    return units
