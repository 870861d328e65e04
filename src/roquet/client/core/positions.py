"""Where a group that has no position yet begins to read a queue; pure.

    start            normal topic          retry topic
    latest           the end               the beginning
    earliest         the beginning         the beginning
    a point in time  its first message     the end

The beginning is 0: where older messages are gone already, the server's first answer moves it up. A server
may answer a group without a position with 0 while the queue still begins there: then that decides, also
for "latest". Reference: RebalancePushImpl of Apache 5.5.0.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Literal, NamedTuple

from roquet.client.errors import Misuse
from roquet.model.names import is_retry

Start = Literal["latest", "earliest"] | datetime | timedelta
"""A `timedelta` is so long ago; a `datetime` without a zone is local time."""


class End(Enum):
    """Either end of a queue."""

    OLDEST = "oldest"
    NEWEST = "newest"


class At(NamedTuple):
    """The first message that was stored at this time or later."""

    time_ms: int


Begin = End | At


def check_start(start: object) -> None:
    """Raise Misuse when `start` is none."""
    if start not in ("latest", "earliest") and not isinstance(start, datetime | timedelta):
        raise Misuse(
            f"start={start!r} says nothing", hint='use "latest", "earliest", a datetime, or a timedelta (ago)'
        )


def begin_at(start: Start, topic: str, now_ms: int) -> Begin:
    """Return where to begin with a queue of the topic."""
    if start == "earliest":
        return End.OLDEST
    if start == "latest":
        return End.OLDEST if is_retry(topic) else End.NEWEST
    if is_retry(topic):
        return End.NEWEST
    return At(time_ms_of(start, now_ms))


def time_ms_of(when: datetime | timedelta, now_ms: int) -> int:
    """Return a point in time in milliseconds since 1970; a `timedelta` lies before now."""
    if isinstance(when, timedelta):
        return now_ms - when // timedelta(milliseconds=1)
    aware = when.astimezone() if when.tzinfo is None else when
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def where_to_consume_from(start: Start) -> str:
    """Return the protocol's word for it, which heartbeats carry."""
    if start == "earliest":
        return "CONSUME_FROM_FIRST_OFFSET"
    if start == "latest":
        return "CONSUME_FROM_LAST_OFFSET"
    return "CONSUME_FROM_TIMESTAMP"
