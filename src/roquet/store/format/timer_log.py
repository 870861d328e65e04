"""The layout of the timer log: which record waits for which time, one unit for each message; pure.

Units of 52 bytes one behind the other; those of one slot of the wheel are a chain, newest first. A file
ends in a blank when no unit and blank fit any more. Big-endian and signed; positions count from the first
file's start.

    0      4          12      16         24      28          36      40      44         52
    +------+----------+-------+----------+-------+-----------+-------+-------+----------+
    | size | previous | flags | write ms | delay | log       | size  | topic | reserved |
    | = 52 | unit, -1 |       |          | ms    | offset    | there | hash  | 0        |
    +------+----------+-------+----------+-------+-----------+-------+-------+----------+
    00000034 0000000000000340 00000003 000001a1de9d9258 0000ea60 0000000000001ee6 0000014f 04d11717 …
             behind 832, to be rolled, due 60 s after 1794736231000, record of 335 bytes at 7910
    blank    00000040 0000000000000000 cbd43194            the last 64 bytes of this file are unused

`write ms + delay ms` is the time of the slot. Reference: Apache's TimerLog and TimerMessageStore, 5.5.0.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

UNIT_BYTES: Final = 52
BLANK_BYTES: Final = 16
BLANK_MAGIC: Final = 0xCBD43194
NO_POSITION: Final = -1
"""Where a chain ends."""

DEFAULT: Final = 1
ROLL: Final = 2
"""The slot is a stop on the way: the message is due later than that."""
DELETE: Final = 4
"""The message cancels another one of the same slot."""

_FLAGS_MAX: Final = 15
_UNIT = struct.Struct(">iqiqiqiiq")
_BLANK = struct.Struct(">iqI")


class Unit(NamedTuple):
    """One unit, decoded."""

    previous: int
    flags: int
    write_ms: int
    delay_ms: int
    log_offset: int
    size_bytes: int
    topic_hash: int

    @property
    def slot_ms(self) -> int:
        return self.write_ms + self.delay_ms

    @property
    def is_roll(self) -> bool:
        return bool(self.flags & ROLL)

    @property
    def is_delete(self) -> bool:
        """True for what cancels another message when its slot is due; a rolled one goes on first."""
        return self.flags & (ROLL | DELETE) == DELETE


def encode_unit(unit: Unit) -> bytes:
    """Return the 52 bytes of a unit."""
    return _UNIT.pack(UNIT_BYTES, *unit, 0)


def decode_unit(data: bytes | memoryview, at: int = 0) -> Unit | None:
    """Return the unit at a place of `data`; None when these bytes are no unit (see `is_blank`)."""
    if len(data) - at < UNIT_BYTES:
        return None
    size, *fields, _ = _UNIT.unpack_from(data, at)
    unit = Unit(*fields)
    if size != UNIT_BYTES or not 0 < unit.flags <= _FLAGS_MAX:
        return None
    if unit.previous < NO_POSITION or unit.log_offset < 0 or unit.size_bytes <= 0 or unit.write_ms <= 0:
        return None
    return unit


def encode_blank(size_bytes: int) -> bytes:
    """Return the head of the blank that fills the last `size_bytes` of a file."""
    assert size_bytes >= BLANK_BYTES
    return _BLANK.pack(size_bytes, 0, BLANK_MAGIC)


def is_blank(data: bytes | memoryview, at: int = 0) -> bool:
    """Say whether the file ends at this place."""
    if len(data) - at < BLANK_BYTES:
        return len(data) - at <= 0
    size, _, magic = _BLANK.unpack_from(data, at)
    return bool(magic == BLANK_MAGIC and size >= BLANK_BYTES)


def fits(position_in_file: int, file_size_bytes: int) -> bool:
    """Say whether one more unit, and the blank behind it, have room in a file."""
    return file_size_bytes - position_in_file >= UNIT_BYTES + BLANK_BYTES


def last_unit_position(file_size_bytes: int) -> int:
    """Return where in a full file the last unit begins."""
    return (file_size_bytes - BLANK_BYTES) // UNIT_BYTES * UNIT_BYTES - UNIT_BYTES
