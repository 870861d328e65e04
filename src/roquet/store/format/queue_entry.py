"""One entry of a consume queue: where a message lies in the log, and the hash of its tag.

Entry n of a queue lies at byte 20·n of its files. Pure: `store.queues` keeps the files.

     0         8      12         20
    +---------+------+-----------+      hex of a first message without a tag, 232 bytes long:
    | log     | size | tag code  |      0000000000000000 000000e8 0000000000000000
    +---------+------+-----------+

`tag code` is Java's hash of the tag sign-extended to 64 bits, 0 without a tag, or the time of delivery
in the delay topic. A queue whose first message is not number 0 begins with fillers. All numbers are
signed and big-endian. Reference: Apache's ConsumeQueue, 5.5.0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

ENTRY_SIZE_BYTES = 20

_ENTRY = struct.Struct(">qiq")
_HEAD = struct.Struct(">qi")
_PLACE = struct.Struct(">qi8x")

FILLER_SIZE = 0x7FFFFFFF
"""The size that no record can have: the entry stands for nothing."""

FILLER = _ENTRY.pack(0, FILLER_SIZE, 0)

pack = _ENTRY.pack
unpack_from = _ENTRY.unpack_from


class QueueEntry(NamedTuple):
    """One entry, decoded."""

    log_offset: int
    size_bytes: int
    tag_code: int

    @property
    def is_filler(self) -> bool:
        return self.size_bytes == FILLER_SIZE


def unpack_all(data: bytes | bytearray | memoryview) -> Iterator[tuple[int, int, int]]:
    """Yield (log offset, size, tag code) of each whole entry in `data`."""
    return _ENTRY.iter_unpack(memoryview(data)[: len(data) // ENTRY_SIZE_BYTES * ENTRY_SIZE_BYTES])


def unpack_places(data: bytes | bytearray | memoryview) -> Iterator[tuple[int, int]]:
    """Yield (log offset, size) of each whole entry in `data`."""
    return _PLACE.iter_unpack(memoryview(data)[: len(data) // ENTRY_SIZE_BYTES * ENTRY_SIZE_BYTES])


def log_offset_at(data: bytes | bytearray | memoryview, position: int = 0) -> tuple[int, int]:
    """Return (log offset, size) of the entry at `position`."""
    log_offset, size_bytes = _HEAD.unpack_from(data, position)
    return log_offset, size_bytes
