"""What a reader wants of a queue: everything, some tags, or what a selector accepts.

Tags are decided by the queue entry alone; a selector has to see a message's properties, so its records
are looked at before they are chosen. Some selectors are looked at when a message is stored, too, and the
verdicts are noted beside its queue entry as bits of a bloom filter: then a record that none of them wants
need not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Accept = Callable[[bytes], bool]
"""Says whether a message is wanted, by its properties as they are stored (`name 0x01 value 0x02 …`)."""


class Noted:
    """A selector whose verdicts are noted of messages stored after `born_ms`.

    It stands for `positions` in a bloom filter of `bit_count` bits: where one of them is not set, the
    message is not wanted; where all are, it has to be looked at.
    """

    __slots__ = ("_accept", "_bits_bytes", "_mask", "born_ms")

    def __init__(self, accept: Accept, born_ms: int, bit_count: int, positions: Sequence[int]) -> None:
        self._accept = accept
        self.born_ms = born_ms
        self._bits_bytes = bit_count // 8
        self._mask = mask_of(positions)

    def __call__(self, properties: bytes) -> bool:
        return self._accept(properties)

    def may_want(self, store_ms: int, bits: bytes) -> bool:
        """Return whether a message has to be looked at, by what was noted of it."""
        if store_ms <= self.born_ms or len(bits) != self._bits_bytes:
            return True
        return int.from_bytes(bits, "little") & self._mask == self._mask


def mask_of(positions: Sequence[int]) -> int:
    """Return the number in which just these bits are set."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


Match = frozenset[int] | Accept | None
"""Tag codes, a selector, or None for every message."""
