"""One index file: its header, and while it is written its slot words and newest entries in memory.

    take      rows ─▶ slot words in the table, entries behind the pending ones: no system call
    write     pending entries ▸ dirty pages of slot words ▸ the first page with the header, in this order

So a process that dies in between leaves words that lead to entries which are there, and a header that
counts none whose word is missing: the state of an earlier moment, but for words that are ahead of it. A
power cut keeps any of the pages. After both, `relink` makes the words anew from the entries, which are
only ever added: each must lead to the one that its slot had before, so nothing wrong is believed,
whoever wrote the file. Layout: `format.index_page`.
"""

from __future__ import annotations

from roquet.ports import Disk, File
from roquet.store.format.entries import ROW, file_rows, link
from roquet.store.format.index_page import (
    ENTRY_BYTES,
    HEADER,
    HEADER_BYTES,
    PAGE_BYTES,
    SLOT,
    SLOT_BYTES,
    Geometry,
    Header,
)

PENDING_BYTES_MAX = 1 << 20
"""Entries kept in memory before they are written: a second's worth at 50,000 keys a second."""

PAGES_A_TURN = 256
"""Pages of slot words written before other work gets its turn: one to two milliseconds."""

NO_KEY_HASH = 0
"""Of entries that only fill a file up: a key that has it by chance is told by its record, like any other."""

READ_ENTRIES = 50_000
READ_BYTES = 1 << 20


class IndexFile:
    """A file of an index. Reads by position serve an older one; `take` gives the last one its table."""

    __slots__ = (
        "_begin_ms",
        "_dirty",
        "_disk",
        "_file",
        "_geometry",
        "_header",
        "_last_row",
        "_number",
        "_pages",
        "_pending",
        "_serial",
        "_synced_serial",
        "_table",
        "_target",
        "_used_slots",
        "is_deleted",
        "name",
        "path",
        "written",
    )

    def __init__(self, disk: Disk, path: str, geometry: Geometry, header: Header) -> None:
        self._disk = disk
        self._geometry = geometry
        self.path = path
        self.name = path.rpartition("/")[2]
        self.is_deleted = False
        self._file: File | None = None
        self._table: bytearray | None = None
        self._dirty = bytearray()
        self._pending = bytearray()
        # A round of writing: the header that ends it, and the pages that it has still to write.
        self._target: Header | None = None
        self._pages: list[int] = []
        self._serial = self._synced_serial = 0
        self.begin_with(header)

    def begin_with(self, header: Header) -> None:
        """Go on behind what the file holds."""
        self.written = self._header = header
        # What has changed since `_header` was made, which happens only when somebody asks for it.
        self._number, self._used_slots, self._begin_ms = (
            header.next_number,
            header.used_slots,
            header.begin_ms,
        )
        self._last_row = b""

    @property
    def header(self) -> Header:
        """The header with what is in memory, too; `written` is what the file says."""
        old = self._header
        if self._number != old.next_number:
            _, end_log_offset, end_ms = ROW.unpack(self._last_row)
            begin = old.begin_log_offset
            used_slots = min(self._used_slots, self._geometry.slots)
            self._header = Header(self._begin_ms, end_ms, begin, end_log_offset, used_slots, self._number)
        return self._header

    @property
    def opened(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def create(self) -> None:
        """Make the file; raises OSError."""
        self._file = self._disk.open(self.path, self._geometry.file_size_bytes)

    def is_same(self, file: File) -> bool:
        """Return whether `file` is still what `opened` would give: not closed, not deleted."""
        return self._file is file

    @property
    def pending_bytes(self) -> int:
        return len(self._pending)

    @property
    def is_full(self) -> bool:
        return self._number >= self._geometry.max_entries

    @property
    def is_on_disk(self) -> bool:
        """Whether all that the file was given is synced."""
        return not self.is_behind and self._serial == self._synced_serial

    @property
    def is_behind(self) -> bool:
        """Whether memory holds what the file does not."""
        return self._number != self.written.next_number or self._target is not None or 1 in self._dirty

    # Writing.

    def take(self, rows: bytes, position: int) -> int:
        """File rows from `position` on; return where the file was full, or their length.

        Raises OSError when the slot words cannot be read, which happens once for a file.
        """
        if self._table is None:
            self._load_table()
        assert self._table is not None
        if self._number == 1:
            _, log_offset, self._begin_ms = ROW.unpack_from(rows, position)
            self._header = self._header._replace(begin_log_offset=log_offset)
        slots, max_entries = self._geometry
        packed, stop, used = file_rows(
            rows, position, self._table, self._dirty, slots, max_entries, self._begin_ms, self._number
        )
        if packed:
            self._pending += packed
            self._number += len(packed) // ENTRY_BYTES
            self._used_slots += used
            self._last_row = rows[stop - ROW.size : stop]
        return stop

    def fill_up(self) -> None:
        """File the last record under no key until there is no room left, for the file is followed by another.

        Apache's broker would go on writing into a last file that has room; then its checkpoint no longer
        vouches for what the file held before, and its next crash would cost all of that.
        """
        header = self.header
        room = self._geometry.max_entries - header.next_number
        if room and not header.is_empty:
            self.take(ROW.pack(NO_KEY_HASH, header.end_log_offset, header.end_ms) * room, 0)

    def _load_table(self) -> None:
        table = bytearray(self._geometry.table_size_bytes)
        if self._number > 1:
            position = 0
            while position < len(table):
                data = self.opened.read_now(position, min(READ_BYTES, len(table) - position))
                table[position : position + len(data)] = data
                position += len(data)
        self._set_table(table)

    def _set_table(self, table: bytearray) -> None:
        self._table = table
        self._dirty = bytearray(-(-len(table) // PAGE_BYTES))

    def write_entries(self) -> None:
        """Write the pending entries; raises OSError, and then they stay pending."""
        if self._pending:
            first = self._number - len(self._pending) // ENTRY_BYTES
            self._write(self._geometry.entry_position(first), self._pending)
            self._pending = bytearray()

    def write_some(self) -> bool:
        """Do the next part of a round of writing; return whether the round has more to do.

        Raises OSError; nothing is lost then, and the next call goes on where this one failed.
        """
        if self._target is None:
            self._target = self.header
            self._pages = [page for page in range(len(self._dirty) - 1, 0, -1) if self._dirty[page]]
        # Words that came in since the last part lead to entries that must be there before them.
        self.write_entries()
        if self._table is not None:
            count = 0
            while self._pages:
                if count >= PAGES_A_TURN:
                    return True
                count += self._write_run(self._table, PAGES_A_TURN - count)
            self._table[:HEADER_BYTES] = HEADER.pack(*self._target)
            self._write(0, memoryview(self._table)[:PAGE_BYTES])
            self._dirty[0] = 0
        self.written, self._target = self._target, None
        return False

    def _write_run(self, table: bytearray, count_max: int) -> int:
        """Write the next page, with the dirty ones right behind it; return how many."""
        first = self._pages[-1]
        stop = first + 1
        while stop < len(self._dirty) and self._dirty[stop] and stop - first < count_max:
            stop += 1
        self._write(first * PAGE_BYTES, memoryview(table)[first * PAGE_BYTES : stop * PAGE_BYTES])
        self._dirty[first:stop] = bytes(stop - first)
        while self._pages and self._pages[-1] < stop:
            self._pages.pop()
        return stop - first

    def write_all(self) -> None:
        """Write everything, blocking: for a start, a stop and a file that is full; raises OSError."""
        while self.is_behind:
            while self.write_some():
                pass

    def _write(self, position: int, data: bytearray | memoryview) -> None:
        self._serial += 1
        self.opened.write_at(position, data)

    def drop_table(self) -> None:
        """Give the memory of the slot words back; everything must be written."""
        assert not self.is_behind and not self._pending
        self._table, self._dirty = None, bytearray()

    async def sync(self) -> None:
        """Put what was written on disk; raises OSError."""
        serial = self._serial
        if serial != self._synced_serial:
            await self.opened.sync()
            self._synced_serial = serial

    # Reading.

    def head(self, slot: int) -> int | None:
        """Return the newest entry of a slot, None when only the file can say it."""
        if self._table is None:
            return None
        word: int = SLOT.unpack_from(self._table, HEADER_BYTES + slot * SLOT_BYTES)[0]
        return word

    def pending_entry(self, number: int) -> bytes:
        """Return an entry that is not in the file yet; empty when it is, or when there is none."""
        first = self._number - len(self._pending) // ENTRY_BYTES
        if number < first:
            return b""
        return bytes(self._pending[(number - first) * ENTRY_BYTES : (number - first + 1) * ENTRY_BYTES])

    # After an unclean stop; blocking.

    def relink(self) -> str:
        """Make the slot words from the entries, and clear what lies behind them; return what is wrong.

        Raises OSError. Entries are written again at once, slot words with the next round.
        """
        geometry, header = self._geometry, self.header
        table = bytearray(geometry.table_size_bytes)
        number, newest = 1, header.begin_log_offset
        while number < header.next_number:
            count = min(READ_ENTRIES, header.next_number - number)
            data = self.opened.read_now(geometry.entry_position(number), count * ENTRY_BYTES)
            right, newest = link(data[: count * ENTRY_BYTES], number, newest, table, geometry.slots)
            number += right
            if right < count:
                return f"entry {number} does not follow from those before it"
            # A sync that failed before the stop may have left pages that the kernel takes for clean and that
            # never reached the disk: what is believed is written again.
            self._serial += 1
            self.opened.write_at(geometry.entry_position(number - right), data[: count * ENTRY_BYTES])
        if newest != header.end_log_offset and not header.is_empty:
            return f"its last entry leads to {newest}, its header to {header.end_log_offset}"
        self._compare(table)
        self._clear_behind()
        return ""

    def _compare(self, table: bytearray) -> None:
        table[:HEADER_BYTES] = self.opened.read_now(0, HEADER_BYTES)
        self._set_table(table)
        for position in range(0, len(table), READ_BYTES):
            stop = min(position + READ_BYTES, len(table))
            data = self.opened.read_now(position, stop - position)
            for at in range(position, stop, PAGE_BYTES):
                page = table[at : min(at + PAGE_BYTES, stop)]
                if data[at - position : at - position + PAGE_BYTES] != page or any(page):
                    self._dirty[at // PAGE_BYTES] = 1
        if not self.is_behind:
            self.drop_table()

    def _clear_behind(self) -> None:
        # What a later power cut might otherwise bring back as entries of another life of the log.
        position = self._geometry.entry_position(self.header.next_number)
        while True:
            data = self.opened.read_now(position, READ_BYTES)
            if not data.strip(b"\0"):
                return
            self._serial += 1
            self.opened.write_at(position, bytes(len(data)))
            position += len(data)

    # Its end.

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        """Close and remove the file; what memory held of it is gone."""
        self.close()
        self.is_deleted = True
        self._table, self._dirty, self._pending = None, bytearray(), bytearray()
        self._pages, self._target, self.written = [], None, self.header
        self._disk.remove(self.path)
