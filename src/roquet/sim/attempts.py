"""What the oracle speaks of: one attempt to store a message, what is known of it, what a reader saw.

tried ─▶ stored (survives KILL or POWER_CUT) ─▶ a cut that it need not survive ─▶ loose ─▶ found, or gone
      └▶ refused: never to be seen                a deleted topic: loose for ever
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple


class Wrong(AssertionError):
    """A promise was broken; the text says which."""


class Survives(IntEnum):
    """What an answer promises."""

    NOTHING = 0
    KILL = 1
    POWER_CUT = 2


class Fate(Enum):
    """What is known of a try."""

    TRIED = "tried"
    STORED = "stored"
    REFUSED = "refused"
    LOOSE = "loose"
    GONE = "gone"


class Seen(NamedTuple):
    """A message as a reader got it."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    store_ms: int
    tag: str
    keys: str
    body: bytes


class Try:
    """One attempt to store one message; every attempt has a body of its own."""

    __slots__ = (
        "body", "fate", "floor", "keys", "log_offset", "queue_id", "queue_offset", "store_ms", "stored_at",
        "survives", "tag", "topic",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, tag: str, keys: str, body: bytes, floor: int) -> None:
        self.topic, self.queue_id, self.tag, self.keys, self.body = topic, queue_id, tag, keys, body
        self.floor = floor  # the queue's last acknowledged offset when this began: it must come behind it
        self.fate = Fate.TRIED
        self.survives = Survives.NOTHING
        self.queue_offset = self.log_offset = self.store_ms = -1
        self.stored_at = 0.0

    def __str__(self) -> str:
        return f"{self.body[:16]!r} ({self.fate.value}, {self.topic}/{self.queue_id} at {self.queue_offset})"
