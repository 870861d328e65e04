"""What both twins of `run` return."""

from __future__ import annotations

from typing import NamedTuple


class Share(NamedTuple):
    """The drafts of a run that go to the same queue: how many, and the largest sizes among them.

    `is_queued` says whether the queue gets entries of them: prepared and rolled-back ones have none.
    """

    topic: str
    queue_id: int
    is_queued: bool
    message_count: int
    body_bytes_max: int
    properties_bytes_max: int


class Shared(NamedTuple):
    """A run by queues; `owners` has the number of the share of each draft."""

    shares: list[Share]
    owners: list[int]
