"""One unit of a queue's extension: the tag code of a message, its store time, and bits of selectors.

With extension files the queue entry has, in place of its tag code, the address of such a unit: its
position in those files plus -2^63, so that addresses lie below every hash of a tag.

     0      2          10         18       20
    +------+----------+----------+--------+---------+     hex of a unit with 8 bits, of which two are set:
    | size | tag code | store ms | length | bits    |     0015 000000000000a3a1 0000018bcfe56800 0001 05
    +------+----------+----------+--------+---------+

Bit n of the bits is bit n % 8 of byte n / 8, the lowest first. A file ends with a size of -1 where the next
unit and four bytes more do not fit. All numbers are signed and big-endian. Pure: `store.queue_ext` keeps the
files. Reference: Apache's ConsumeQueueExt and BitsArray, 5.5.0.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

UNIT_BYTES_MIN: Final = 20
UNIT_BYTES_MAX: Final = 0x7FFF

FILE_END: Final = b"\xff\xff"
FILE_END_BYTES: Final = 4
"""What stays free behind the last unit of a file."""

ADDRESS_MAX: Final = -(2**31) - 1
"""The tag code of an entry is an address when it is not above this."""

POSITION_MAX: Final = 2**63 + ADDRESS_MAX

_ADDRESS_ZERO: Final = -(2**63)
_HEAD: Final = struct.Struct(">hqqh")


class Unit(NamedTuple):
    """One unit, decoded. Without any `bits`, no selector was looked at when the message was stored."""

    tag_code: int
    store_ms: int
    bits: bytes

    @property
    def size_bytes(self) -> int:
        return UNIT_BYTES_MIN + len(self.bits)


def is_address(tag_code: int) -> bool:
    """Return whether a queue entry leads to a unit."""
    return tag_code <= ADDRESS_MAX


def address_of(position: int) -> int:
    """Return what a queue entry has in place of its tag code."""
    return position + _ADDRESS_ZERO


def position_of(address: int) -> int:
    """Return where in the extension files a unit lies."""
    return address - _ADDRESS_ZERO


def pack(unit: Unit) -> bytes:
    """Return a unit's bytes; it must not be longer than UNIT_BYTES_MAX."""
    return _HEAD.pack(unit.size_bytes, unit.tag_code, unit.store_ms, len(unit.bits)) + unit.bits


def unpack_from(data: bytes | bytearray, position: int = 0) -> Unit | None:
    """Return the unit at a place of `data`; None when no whole one lies there."""
    if position < 0 or position + UNIT_BYTES_MIN > len(data):
        return None
    size_bytes, tag_code, store_ms, bits_bytes = _HEAD.unpack_from(data, position)
    end = position + size_bytes
    if bits_bytes < 0 or size_bytes != UNIT_BYTES_MIN + bits_bytes or end > len(data):
        return None
    return Unit(tag_code, store_ms, bytes(data[position + UNIT_BYTES_MIN : end]))
