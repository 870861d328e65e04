"""Messages that wait to leave together: automatic batches under load; pure.

    idle     at most `parallel` requests of a topic are out: what came in one turn of the loop leaves
    busy     more wait, until a request comes back or enough wait for a request of its own

So nothing waits while there is little to do, and batches grow by themselves with the load; no timer holds a
message back. Knows neither what the items are nor how they are sent: it says which of them leave now.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


class Batching(NamedTuple):
    """How automatic batches grow."""

    bytes_max: int = 32 * 1024
    messages_max: int = 500
    parallel: int = 2
    """Requests of one topic that may be out before messages wait for each other."""


class _Topic(Generic[Item]):
    __slots__ = ("items", "out", "size_bytes")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.size_bytes = 0
        self.out = 0


class Accumulator(Generic[Item]):
    """What waits, by topic. Every run that is handed out is to be ended by `returned`."""

    def __init__(self, rules: Batching) -> None:
        self._rules = rules
        self._topics: dict[str, _Topic[Item]] = {}

    def add(self, topic: str, item: Item, size_bytes: int) -> list[Item]:
        """File an item; returns the run that is full and leaves now, empty when there is none."""
        state = self._topics.get(topic)
        if state is None:
            state = self._topics[topic] = _Topic()
        full: list[Item] = []
        if state.items and state.size_bytes + size_bytes > self._rules.bytes_max:
            full = self._take(state)
        state.items.append(item)
        state.size_bytes += size_bytes
        if not full and len(state.items) >= self._rules.messages_max:
            full = self._take(state)
        return full

    def ready(self, topic: str) -> list[Item]:
        """Return what leaves now that nothing more comes at once; empty while others are still out."""
        state = self._topics.get(topic)
        if state is None or not state.items or state.out >= self._rules.parallel:
            return []
        return self._take(state)

    def returned(self, topic: str) -> None:
        """A run has been answered, or has failed."""
        state = self._topics[topic]
        assert state.out > 0, f"more runs of {topic} came back than left"
        state.out -= 1
        if not state.out and not state.items:
            del self._topics[topic]

    def _take(self, state: _Topic[Item]) -> list[Item]:
        run, state.items, state.size_bytes = state.items, [], 0
        state.out += 1
        return run
