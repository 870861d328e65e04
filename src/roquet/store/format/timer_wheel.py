"""The layout of the timer wheel: for each moment of the coming days, the chain of what is due; pure.

One file of 1,209,600 slots: fourteen days of seconds, of which seven may lie ahead. Times are counted in
ticks, whole units of the precision (a second unless set otherwise); tick t has slot t mod 1,209,600. A slot
belongs to the tick that is written in it; with another one it is free. Big-endian and signed.

    0       8            16           24       28     32
    +-------+------------+------------+--------+------+     first, last: positions in the timer log of the
    | tick  | first unit | last unit  | number | 0    |     oldest and newest unit that wait
    +-------+------------+------------+--------+------+
    000000006af81f51 0000000000000000 000000000000030c 0000000f 00000000     15 units, from 0 to 780

A slot is 0 bytes until it is used; what was delivered is zeros again (Apache leaves it, since its own
reading only goes forward). Reference: Apache's TimerWheel and Slot, 5.5.0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

SLOTS: Final = 7 * 86_400 * 2
SLOT_BYTES: Final = 32
FILE_BYTES: Final = SLOTS * SLOT_BYTES

_SLOT = struct.Struct(">qqqii")
_ZEROS = bytes(SLOT_BYTES * 2048)


class Slot(NamedTuple):
    """One slot, decoded."""

    tick: int
    first: int
    last: int
    number: int
    magic: int = 0


FREE: Final = Slot(0, 0, 0, 0)


def index_of(tick: int) -> int:
    return tick % SLOTS


def encode_slot(slot: Slot) -> bytes:
    return _SLOT.pack(*slot)


def decode_slot(data: bytes | memoryview, at: int = 0) -> Slot:
    return Slot(*_SLOT.unpack_from(data, at))


def used_slots(data: bytes, first_index: int) -> Iterator[tuple[int, Slot]]:
    """Yield (index, slot) of the slots in a piece of the file that are taken and in their place."""
    if data == _ZEROS[: len(data)] or not any(data):
        return
    for index, fields in enumerate(_SLOT.iter_unpack(data), first_index):
        tick, first, last = fields[0], fields[1], fields[2]
        if tick > 0 and tick % SLOTS == index and 0 <= first <= last:
            yield index, Slot(*fields)
