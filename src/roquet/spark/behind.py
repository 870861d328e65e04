"""How far a streaming query is behind, from what it reports of itself: no question to any broker.

progress ─▶ sources[]: endOffset (done or under way) · latestOffset (known) with behindBytes ─▶ Lag
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from roquet.model.route import QueueName
from roquet.spark.plan import BadOffsets, between, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

BEHIND_BYTES = "behindBytes"
"""Beside the offsets in the progress of a query: about how many bytes wait behind its last batch."""


class NoProgress(LookupError):
    """The query has told nothing yet that a lag could be taken from."""


class Lag(NamedTuple):
    """What waits for a query when it has finished the batch that it last reported."""

    messages: int
    bytes: int
    """Estimated from a sample of the messages that wait."""
    queues: dict[QueueName, int]


def lag_of_query(query: StreamingQuery) -> Lag:
    """Return how far a query is behind in all topics that it reads; raises NoProgress."""
    progress = query.lastProgress
    if progress is None:
        raise NoProgress("the query has not reported progress yet")
    return lag_of(progress["sources"])


def lag_of(sources: Any) -> Lag:
    """Return the lag of the sources in a progress report; those of other formats are left out."""
    queues: dict[QueueName, int] = {}
    size_bytes, is_ours = 0, False
    for source in sources:
        end, latest = _object(source["endOffset"]), _object(source["latestOffset"])
        try:
            waiting = between(from_json(end), from_json(latest))
        except BadOffsets:
            continue
        is_ours = True
        queues |= {each.queue: each.rows for each in waiting}
        size_bytes += latest.get(BEHIND_BYTES, 0)
    if not is_ours:
        raise NoProgress("the query reads no topic by the format roquet, or has not told of its offsets yet")
    return Lag(sum(queues.values()), size_bytes, queues)


def _object(offset: Any) -> Any:
    """Return offsets as Spark reports them: a text, or read already."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    return found if isinstance(found, Mapping) else {}
