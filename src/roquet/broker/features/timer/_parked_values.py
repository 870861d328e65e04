"""What both twins of `parked` return."""

from __future__ import annotations

from typing import NamedTuple


class Parked(NamedTuple):
    """A record of the timer's queue: its place, its slot's time and its own topic; whether it is a marker.

    `topic` is empty, and `out_ms` says nothing, when the record does not say when it is due, or where.
    """

    queue_offset: int
    log_offset: int
    size_bytes: int
    out_ms: int
    topic: str
    is_delete: bool
