"""A small mutation fuzzer: seeded, bounded by count, and the same on every machine.

    corpus ─▶ pick one ─▶ 1 to 4 mutations ─▶ (half of the time) mend the lengths ─▶ target

A target is a function of bytes that raises only when the code under test broke a promise. What failed is
named by its seed and number, and its bytes belong into tests/seeds/, where they are tried for ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

INTERESTING = (0, 1, 2, 4, 8, 31, 32, 34, 91, 92, 93, 123, 125, 127, 128, 254, 255)
WORDS = tuple(
    value.to_bytes(4, "big", signed=True)
    for value in (0, 1, -1, 4, 90, 91, 2**16, 2**24 - 1, 2**24, 2**31 - 1, -(2**31))
)

Mend = Callable[[bytearray], None]


def cases(corpus: Sequence[bytes], seed: int, count: int, mend: Mend) -> Iterator[bytes]:
    """Yield `count` mutated inputs."""
    rng = random.Random(seed)
    for _ in range(count):
        data = bytearray(rng.choice(corpus))
        for _ in range(rng.randrange(1, 5)):
            _mutate(data, corpus, rng)
        if rng.random() < 0.5:
            mend(data)
        yield bytes(data)


def _mutate(data: bytearray, corpus: Sequence[bytes], rng: random.Random) -> None:
    """Change one thing."""
    kind = rng.randrange(8)
    at = rng.randrange(len(data) + 1)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1 and at < len(data):
        data[at] = rng.choice(INTERESTING)
    elif kind == 2:
        data[at : at + 4] = rng.choice(WORDS)
    elif kind == 3:
        del data[at : at + rng.randrange(1, 9)]
    elif kind == 4:
        data[at:at] = rng.randbytes(rng.randrange(1, 9))
    elif kind == 5:
        piece = data[at : at + rng.randrange(1, 33)]
        place = rng.randrange(len(data) + 1)
        data[place:place] = piece
    elif kind == 6:
        other = rng.choice(corpus)
        data[at:] = other[rng.randrange(len(other) + 1) :]
    else:
        del data[at:]
