"""Retention of single topics: by time (`reserve.time`) and by size (`roquet.retention.bytes`).

    every round ─▶ topics that ask for it ─▶ how far is each queue too old, or the topic too large?
                ─▶ the queues begin later: readers are sent to the first message that is left

The log is shared, so no space is freed before its files expire: what goes is the sight of old messages.
By size, the oldest messages of all queues go first, as long as what is left still has the wanted size.
Hidden messages are not remembered: a restart counts anew in its first round. Apache's default store ignores
`reserve.time`; here it is hours. See `core.attributes` and `store.retention`.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from roquet.broker.core.attributes import retention_bytes
from roquet.broker.core.topics import Topics
from roquet.ports import Clock
from roquet.store.format.queue_entry import QueueEntry
from roquet.store.retention import expired_before

CHUNK_COUNT: Final = 1_000
"""Entries counted before other work gets its turn: about a millisecond."""


class Queues(Protocol):
    """What retention needs of the store."""

    def queues_of(self, topic: str) -> list[int]: ...

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    async def queue_entries(self, topic: str, queue_id: int, first: int, count: int) -> list[QueueEntry]: ...

    async def offset_by_time(self, topic: str, queue_id: int, ms: int) -> int: ...

    def hide_until(self, topic: str, queue_id: int, queue_offset: int) -> None: ...


class _Counted:
    """The bytes of a queue's messages from `first` up to `end`."""

    __slots__ = ("end", "first", "size_bytes")

    def __init__(self, first: int) -> None:
        self.first = first
        self.end = first
        self.size_bytes = 0


class Retention:
    """Hides what topics do not want to show any more."""

    def __init__(self, clock: Clock, topics: Topics, store: Queues, interval_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._topics = topics
        self._store = store
        self._interval_ms = interval_ms
        self._counted: dict[tuple[str, int], _Counted] = {}

    async def run(self) -> None:
        """Hide in rounds, the first at once: a restart has forgotten what was hidden."""
        while True:
            await self._round()
            await self._clock.sleep_until(self._clock.monotonic() + self._interval_ms() / 1000)

    async def _round(self) -> None:
        limited: set[str] = set()
        for topic in [topic for topic in self._topics.table.values() if topic.attributes]:
            before_ms = expired_before(topic.attributes, self._clock.now_ms())
            if before_ms:
                await self._hide_older(topic.topic_name, before_ms)
            limit_bytes = retention_bytes(topic.attributes)
            if limit_bytes is not None:
                limited.add(topic.topic_name)
                await self._shrink(topic.topic_name, limit_bytes)
        for key in [key for key in self._counted if key[0] not in limited]:
            del self._counted[key]

    async def _hide_older(self, topic: str, before_ms: int) -> None:
        """Hide the messages of a topic that were stored before a time, and take them off its count."""
        for queue_id in self._store.queues_of(topic):
            first = await self._store.offset_by_time(topic, queue_id, before_ms)
            counted = self._counted.get((topic, queue_id))
            if counted is not None:
                walk = _Walk(self._store, topic, queue_id, counted)
                is_more = await walk.begin()
                while is_more and counted.first < first:
                    is_more = await walk.pass_on()
            self._store.hide_until(topic, queue_id, first)

    async def _shrink(self, topic: str, limit_bytes: int) -> None:
        """Hide the oldest messages of a topic that has more bytes than it wants."""
        counts: dict[int, _Counted] = {}
        for queue_id in self._store.queues_of(topic):
            counts[queue_id] = await self._count(topic, queue_id)
        total_bytes = sum(counted.size_bytes for counted in counts.values())
        if total_bytes <= limit_bytes:
            return
        walks = [_Walk(self._store, topic, queue_id, counted) for queue_id, counted in counts.items()]
        heads = [(walk.log_offset, number) for number, walk in enumerate(walks) if await walk.begin()]
        heapify(heads)
        while heads:
            _, number = heappop(heads)
            walk = walks[number]
            if total_bytes - walk.size_bytes < limit_bytes:
                break
            total_bytes -= walk.size_bytes
            if await walk.pass_on():
                heappush(heads, (walk.log_offset, number))
        for queue_id, counted in counts.items():
            self._store.hide_until(topic, queue_id, counted.first)

    async def _count(self, topic: str, queue_id: int) -> _Counted:
        """Return the bytes of a queue, counting what has come since the last round."""
        low, high = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        counted = self._counted.get((topic, queue_id))
        if counted is None or counted.first != low or counted.end > high:
            counted = self._counted[topic, queue_id] = _Counted(low)
        while counted.end < high:
            wanted = min(CHUNK_COUNT, high - counted.end)
            entries = await self._store.queue_entries(topic, queue_id, counted.end, wanted)
            if not entries:
                break
            counted.size_bytes += sum(map(_size_of, entries))
            counted.end += len(entries)
            await self._clock.sleep_until(self._clock.monotonic())
        return counted


class _Walk:
    """Goes through a queue from its first message on, taking what it passes off the count."""

    def __init__(self, store: Queues, topic: str, queue_id: int, counted: _Counted) -> None:
        self._store = store
        self._topic = topic
        self._queue_id = queue_id
        self._counted = counted
        self._entries: list[QueueEntry] = []
        self._at = 0

    async def begin(self) -> bool:
        """Find the first message; False when there is none."""
        return await self._fill()

    @property
    def log_offset(self) -> int:
        return self._entries[self._at].log_offset

    @property
    def size_bytes(self) -> int:
        return _size_of(self._entries[self._at])

    async def pass_on(self) -> bool:
        """Leave a message behind; False when it was the last."""
        self._counted.size_bytes -= self.size_bytes
        self._counted.first += 1
        self._at += 1
        return self._at < len(self._entries) or await self._fill()

    async def _fill(self) -> bool:
        first, end = self._counted.first, self._counted.end
        self._at = 0
        self._entries = await self._store.queue_entries(
            self._topic, self._queue_id, first, min(CHUNK_COUNT, end - first)
        )
        return bool(self._entries)


def _size_of(entry: QueueEntry) -> int:
    return 0 if entry.is_filler else entry.size_bytes
