"""The messages of one queue between the pull that brought them and the word that they are done; pure.

Messages come in the order of their offsets and end in any order. What a group may store as its position
is the lowest offset that has not ended:

    arrived   10 11 12 13 14 15 | 16 is the next to pull
    ended      x  x     x
    lowest            12                       with nothing left in flight it would be 16

Counts and bytes in flight, and the span from the lowest to the next, bound how far a puller may run
ahead. Knows neither messages nor clocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class Inflight:
    """Offsets that have not ended, of one queue."""

    __slots__ = ("_order", "_sizes", "next_offset", "size_bytes")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.size_bytes = 0
        self._sizes: dict[int, int] = {}
        self._order: deque[int] = deque()  # ascending; those that ended in the middle are still in it

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, queue_offset: int) -> bool:
        return queue_offset in self._sizes

    def add(self, messages: Iterable[tuple[int, int]], next_offset: int) -> None:
        """Take messages in as (queue offset, size in bytes); `next_offset` is where to pull on.

        Offsets between them that did not match the subscription count as ended.
        """
        assert next_offset >= self.next_offset, f"pulled back from {self.next_offset} to {next_offset}"
        sizes, order = self._sizes, self._order
        for queue_offset, size_bytes in messages:
            sizes[queue_offset] = size_bytes
            order.append(queue_offset)
            self.size_bytes += size_bytes
        self.next_offset = next_offset

    def end(self, queue_offset: int) -> bool:
        """A message is done; False when it was already, or never was here."""
        size_bytes = self._sizes.pop(queue_offset, -1)
        if size_bytes < 0:
            return False
        self.size_bytes -= size_bytes
        return True

    def lowest(self) -> int:
        """Return the lowest offset that has not ended: the position to store."""
        order, sizes = self._order, self._sizes
        while order and order[0] not in sizes:
            order.popleft()
        return order[0] if order else self.next_offset

    def span(self) -> int:
        """Return how far the next pull is ahead of the lowest offset in flight."""
        return self.next_offset - self.lowest()
