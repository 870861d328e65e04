"""Looking at single messages and at raw queue entries."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, header, named, request


@header
class Queried(Header):
    """How far the index is."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@request(12, "QUERY_MESSAGE", to="broker", reply=Queried, touches=("topic", "sub"))
class QueryMessage(Header):
    """Find messages by a key, or by their unique key."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    unique_key: bool = named("_UNIQUE_KEY_QUERY", default=False)
    index_type: str | None = None


@request(33, "VIEW_MESSAGE_BY_ID", to="broker", touches=("topic", "sub"))
class ViewMessage(Header):
    """Read the record at a log offset, which an offset id names."""

    offset: int
    topic: str | None = None


@request(321, "QUERY_CONSUME_QUEUE", to="broker", touches=("topic", "get"))
class QueryQueue(Header):
    """Show raw entries of one queue."""

    topic: str
    queue_id: Int32
    index: int
    count: Int32
    consumer_group: str | None = None
