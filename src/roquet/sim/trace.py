"""What happened in a simulated run, folded into one hash.

Every part of the simulation notes its events here, in order. Two runs with one seed must end with the
same hash; when they do not, `tail` shows the last events of each to compare. Notes hold only values
that are the same on every machine: virtual times, names, sizes, checksums; never `id()` or real time.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

TAIL_EVENTS = 200


class Trace:
    """An append-only record of events that keeps its hash and its last lines."""

    __slots__ = ("_hash", "_now", "count", "tail")

    def __init__(self, now: Callable[[], float]) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self._now = now
        self.count = 0
        self.tail: deque[str] = deque(maxlen=TAIL_EVENTS)

    def note(self, what: str, *details: object) -> None:
        """Add one event at the current virtual time."""
        line = f"{self._now():.6f} {what} {' '.join(map(str, details))}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self.tail.append(line)
        self.count += 1

    def hexdigest(self) -> str:
        """Return the hash of everything noted so far."""
        return self._hash.hexdigest()
