"""Offsets: what a group has consumed, what a queue holds, and moving one to the other."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, header, request


@header
class OffsetFound(Header):
    offset: int


@header
class TimestampFound(Header):
    timestamp: int


@request(14, "QUERY_CONSUMER_OFFSET", to="broker", reply=OffsetFound, touches=("group", "sub"))
class QueryOffset(Header):
    """Tell how far a group is in one queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


@request(15, "UPDATE_CONSUMER_OFFSET", to="broker", touches=("group", "sub"))
class UpdateOffset(Header):
    """Store how far a group is in one queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: int


@request(29, "SEARCH_OFFSET_BY_TIMESTAMP", to="broker", reply=OffsetFound, touches=("topic", "get"))
class SearchOffset(Header):
    """Find the queue offset of a point in time."""

    topic: str
    queue_id: Int32
    timestamp: int
    boundary_type: str | None = None


@request(30, "GET_MAX_OFFSET", to="broker", reply=OffsetFound, touches=("topic", "get"))
class GetMaxOffset(Header):
    """Tell the offset that the next message of a queue will get."""

    topic: str
    queue_id: Int32
    committed: bool | None = None


@request(31, "GET_MIN_OFFSET", to="broker", reply=OffsetFound, touches=("topic", "get"))
class GetMinOffset(Header):
    """Tell the oldest offset that a queue still holds."""

    topic: str
    queue_id: Int32


@request(32, "GET_EARLIEST_MSG_STORETIME", to="broker", reply=TimestampFound, touches=("topic", "get"))
class GetEarliestTime(Header):
    """Tell when the oldest message of a queue was stored; −1 when there is none."""

    topic: str
    queue_id: Int32


@request(43, "GET_ALL_CONSUMER_OFFSET", to="broker", touches=("cluster", "get"), admin=True)
class GetAllOffsets(Header):
    """Give the whole offset table, as a follower wants it."""


@request(222, "INVOKE_BROKER_TO_RESET_OFFSET", to="broker", touches=("group", "update"), admin=True)
class ResetOffset(Header):
    """Move a group on a topic to a point in time or to an offset."""

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: Int32 | None = None
    offset: int | None = None


@request(223, "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", to="broker", touches=("group", "get"))
class GetConsumerStatus(Header):
    """Ask the members of a group how far they are."""

    topic: str
    group: str
    client_addr: str | None = None


@request(208, "GET_CONSUME_STATS", to="broker", touches=("group", "get"))
class GetConsumeStats(Header):
    """Show how far a group is behind, queue by queue."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@request(303, "QUERY_CONSUME_TIME_SPAN", to="broker", touches=("group", "get"))
class QueryTimeSpan(Header):
    """Show which time a group's position in each queue stands for."""

    topic: str
    group: str


@request(308, "QUERY_CORRECTION_OFFSET", to="broker", touches=("group", "get"))
class QueryCorrection(Header):
    """Compare a group's positions with those of others."""

    compare_group: str
    topic: str
    filter_groups: str | None = None


@request(314, "CLONE_GROUP_OFFSET", to="broker", touches=("group", "update"), admin=True)
class CloneOffset(Header):
    """Give a group the positions of another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@request(317, "GET_BROKER_CONSUME_STATS", to="broker", touches=("cluster", "get"))
class GetBrokerConsumeStats(Header):
    """Show how far every group is behind."""

    is_order: bool = False
