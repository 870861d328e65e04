"""The bloom filter of consumers with selectors: which bits stand for a group on a topic.

    "group#topic" ── murmur3, 128 bits ──▶ first 64: h1 low, h2 high ──▶ k positions below m

The extension of a queue notes for each message the groups whose selector it matches, as bits of this
filter. The positions are kept in consumerFilter.json, too, so they must be the same as Apache's. Pure.
Reference: BloomFilter of rocketmq-filter 5.5.0, Guava's murmur3_128 with seed 0;
tests/golden/sql92.json has positions that they computed.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

_MASK: Final = 2**64 - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class Bloom(NamedTuple):
    """A filter of `bit_count` bits in which each entry sets `hash_count` of them."""

    hash_count: int
    bit_count: int

    def positions(self, text: str) -> tuple[int, ...]:
        """Return the bits that stand for a text."""
        first = murmur3_first_half(text.encode())
        low, high = first & 0xFFFFFFFF, first >> 32
        return tuple(self._position(low + number * high) for number in range(1, self.hash_count + 1))

    def _position(self, mixed: int) -> int:
        mixed &= 0xFFFFFFFF
        if mixed & 0x80000000:
            mixed ^= 0xFFFFFFFF
        return mixed % self.bit_count


def bloom_for(error_percent: int, entry_count: int) -> Bloom:
    """Return the filter that errs in so many of a hundred cases when it holds so many entries."""
    error = error_percent / 100
    hash_count = math.ceil(math.log(error) / math.log(0.5))
    bits = math.ceil(entry_count * (math.log(1 / error) / math.log(2)) * (math.log(math.e) / math.log(2)))
    return Bloom(hash_count, 8 * math.ceil(bits / 8))


def murmur3_first_half(data: bytes) -> int:
    """Return the first 64 of the 128 bits of murmur3 (x64, seed 0)."""
    one = two = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        one ^= _mix_one(int.from_bytes(data[at : at + 8], "little"))
        one = (_rotate(one, 27) + two) * 5 + 0x52DCE729 & _MASK
        two ^= _mix_two(int.from_bytes(data[at + 8 : at + 16], "little"))
        two = (_rotate(two, 31) + one) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    if len(tail) > 8:
        two ^= _mix_two(int.from_bytes(tail[8:], "little"))
    if tail:
        one ^= _mix_one(int.from_bytes(tail[:8], "little"))
    one ^= len(data)
    two ^= len(data)
    one = one + two & _MASK
    two = two + one & _MASK
    return _finish(one) + _finish(two) & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _mix_one(value: int) -> int:
    return _rotate(value * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_two(value: int) -> int:
    return _rotate(value * _C2 & _MASK, 33) * _C1 & _MASK


def _finish(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
