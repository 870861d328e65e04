"""Where the timer stands, shared by its parts while it runs; and what they need of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from roquet.model.message import Entry
from roquet.model.status import Got


@dataclass(slots=True)
class State:
    """How far filing and delivery have come."""

    read_tick: int = 0
    """All slots before it are delivered. It goes back when the clock does."""
    queue_offset: int = 0
    """The first message of the timer's queue that is not filed."""
    filed_log_end: int = 0
    """Where in the log the last message ends that is."""
    delivered: dict[int, int] = field(default_factory=dict)
    """Messages that were delivered before a crash while their slots still hold them: where in the log they
    are parked, and where they were delivered."""
    delivered_until: int = 0
    """Tick from which on `delivered` cannot matter any more."""
    is_stopping: bool = False
    filed_total: int = 0
    delivered_total: int = 0


class TimedStore(Protocol):
    """What the timer needs of the store."""

    @property
    def log_min_offset(self) -> int: ...
    @property
    def log_max_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...
    def min_offset(self, topic: str, queue_id: int) -> int: ...
    def max_offset(self, topic: str, queue_id: int) -> int: ...
    def walk(self, log_offset: int) -> Iterator[Sequence[Entry]]: ...
    def read_hot(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int, max_bytes: int, *, bulk: bool
    ) -> Got | None: ...
    async def read(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int, max_bytes: int, *, bulk: bool
    ) -> Got: ...
    async def record_at(self, log_offset: int) -> bytes | None: ...
    async def records_at(self, places: Sequence[tuple[int, int]]) -> list[bytes | None]: ...
    async def sync_log(self) -> None: ...


class PutCounter(Protocol):
    """What the timer needs of the statistics."""

    def put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None: ...
