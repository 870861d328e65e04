"""What the three servers do not do alike, with the reason; a test that asks `server.differs(key)` uses it.

A test asks for a key and then asserts what the server that differs really does: so an entry whose
difference is gone makes a test fail, and `test_differences` fails for an entry that no test asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Difference(NamedTuple):
    """Which servers (memory, sockets, apache) do something else than the rest, and why."""

    kinds: frozenset[str]
    why: str


def only(*kinds: str, why: str) -> Difference:
    return Difference(frozenset(kinds), why)


DIFFERENCES: Final[Mapping[str, Difference]] = {
    "declared message types": only(
        "apache",
        why="a topic's declared type is checked by our broker, and in Apache's cluster only by its proxy",
    ),
}
