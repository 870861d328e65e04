"""Runs of 20-byte entries in plain Python: the specification of the compiled twin.

Functions of bytes and ints (but for `key_rows`, which spares each send a copy of its words), chosen by
`store.format.entries`, which has the drawing. Reference: Apache's IndexFile.putKey and ConsumeQueue, 5.5.0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from roquet.model.message import Entry, SysFlag
from roquet.store.format.index_page import (
    ENTRY,
    ENTRY_BYTES,
    HEADER_BYTES,
    PAGE_SHIFT,
    SLOT,
    SLOT_BYTES,
    key_hash,
    seconds_since,
)

ROW = struct.Struct(">iqq")
_ROW_BYTES = ROW.size
_QUEUE_ENTRY = struct.Struct(">qiq")
_ROLLBACK = int(SysFlag.TRANSACTION_MASK)  # a plain number: flags cost a microsecond for each message


def key_rows(entries: Sequence[Entry]) -> bytes:
    """Return a row for each key of each entry; a rolled-back message is filed under none."""
    return b"".join(
        [
            ROW.pack(key_hash(entry.topic, key), entry.log_offset, entry.store_ms)
            for entry in entries
            if entry.sys_flag & _ROLLBACK != _ROLLBACK
            for key in entry.keys
        ]
    )


def queue_rows(entries: Sequence[Entry], owners: Sequence[int], counts: Sequence[int]) -> list[bytes]:
    """Return the entries as their queues hold them: a piece for each queue.

    `owners` has the number of the queue of each entry, `counts` how many entries each queue gets.
    """
    pieces: list[list[bytes]] = [[] for _ in counts]
    for entry, owner in zip(entries, owners, strict=True):
        pieces[owner].append(_QUEUE_ENTRY.pack(entry.log_offset, entry.size_bytes, entry.tag_code))
    if [len(piece) for piece in pieces] != list(counts):
        raise ValueError("not as many entries as were counted")
    return [b"".join(piece) for piece in pieces]


def file_rows(
    rows: bytes,
    position: int,
    table: bytearray,
    dirty: bytearray,
    slots: int,
    max_entries: int,
    begin_ms: int,
    number: int,
) -> tuple[bytes, int, int]:
    """File the rows from `position` on; return their index entries, where the file was full, new slots.

    `table` is the file up to its entries; slot words in it are set, and the pages that they lie in are
    marked in `dirty`. `number` is what the first entry gets. The rows of one record, told by their equal
    log offset, go into one file or wait for the next; those beyond a whole file's room are left out.
    """
    stop, fitting = _split(rows, position, max_entries, number)
    packed: list[bytes] = []
    used = 0
    for hashed, log_offset, store_ms in ROW.iter_unpack(fitting):
        word = HEADER_BYTES + hashed % slots * SLOT_BYTES
        (previous,) = SLOT.unpack_from(table, word)
        if not 0 < previous < number:
            previous = 0  # none, or a damaged word: Apache takes it for none, too
            used += 1
        packed.append(ENTRY.pack(hashed, log_offset, seconds_since(begin_ms, store_ms), previous))
        SLOT.pack_into(table, word, number)
        dirty[word >> PAGE_SHIFT] = 1
        number += 1
    return b"".join(packed), stop, used


def _split(rows: bytes, position: int, max_entries: int, number: int) -> tuple[int, bytes]:
    """Return up to where the rows are dealt with, and those of them that are filed."""
    if number + (len(rows) - position) // _ROW_BYTES <= max_entries:
        return len(rows), rows[position:] if position else rows
    fitting: list[bytes] = []
    while position < len(rows):
        stop = _record_end(rows, position)
        count = min((stop - position) // _ROW_BYTES, max_entries - 1)
        if number + count > max_entries:
            break
        fitting.append(rows[position : position + count * _ROW_BYTES])
        position, number = stop, number + count
    return position, b"".join(fitting)


def _record_end(rows: bytes, position: int) -> int:
    log_offset = rows[position + 4 : position + 12]
    while rows[position + 4 : position + 12] == log_offset:
        position += _ROW_BYTES
    return position


def link(
    entries: bytes, number: int, newest_log_offset: int, table: bytearray, slots: int
) -> tuple[int, int]:
    """Set the slot words of entries that were read from a file, the first of them being `number`.

    Returns how many are right, up to the first that is not, and the log offset of the last. Right is an
    entry that leads to the one which its slot had before, and not back in the log.
    """
    count = 0
    for hashed, log_offset, seconds, previous in ENTRY.iter_unpack(entries):
        if hashed < 0 or log_offset < newest_log_offset or seconds < 0:
            break
        word = HEADER_BYTES + hashed % slots * SLOT_BYTES
        if SLOT.unpack_from(table, word)[0] != previous:
            break
        SLOT.pack_into(table, word, number + count)
        newest_log_offset = log_offset
        count += 1
    return count, newest_log_offset


def count_valid(data: bytes) -> int:
    """Return how many queue entries at the beginning of `data` are ones: a place in the log, and a size."""
    count = 0
    whole = len(data) // ENTRY_BYTES * ENTRY_BYTES
    for log_offset, size_bytes, _ in _QUEUE_ENTRY.iter_unpack(memoryview(data)[:whole]):
        if log_offset < 0 or size_bytes <= 0:
            break
        count += 1
    return count
