"""Administration of topics on a broker."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, header, request


@header
class TopicPage(Header):
    total_topic_num: Int32


@request(17, "UPDATE_AND_CREATE_TOPIC", to="broker", touches=("topic", "create"), admin=True)
class UpdateTopic(Header):
    """Create a topic or change its settings."""

    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    default_topic: str | None = None
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: str | None = None
    force: bool = False


@request(18, "UPDATE_AND_CREATE_TOPIC_LIST", to="broker", touches=("topic", "create"), admin=True)
class UpdateTopics(Header):
    """Create or change several topics; the body has them."""


@request(21, "GET_ALL_TOPIC_CONFIG", to="broker", reply=TopicPage, touches=("cluster", "get"))
class GetAllTopics(Header):
    """Give the settings of all topics, by pages when asked."""

    topic_seq: Int32 | None = None
    max_topic_num: Int32 | None = None
    data_version: str | None = None


@request(351, "GET_TOPIC_CONFIG", to="broker", touches=("topic", "get"))
class GetTopic(Header):
    """Give the settings of one topic."""

    topic: str


@request(215, "DELETE_TOPIC_IN_BROKER", to="broker", touches=("topic", "delete"), admin=True)
class DeleteTopic(Header):
    """Forget a topic, its queues and its groups' offsets on this broker."""

    topic: str


@request(202, "GET_TOPIC_STATS_INFO", to="broker", touches=("topic", "get"))
class GetTopicStats(Header):
    """Show the bounds of every queue of a topic."""

    topic: str


@request(300, "QUERY_TOPIC_CONSUME_BY_WHO", to="broker", touches=("topic", "get"))
class QueryGroupsOfTopic(Header):
    """Name the groups that subscribe a topic or have offsets for it."""

    topic: str


@request(305, "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", to="broker", touches=("cluster", "get"))
class GetSystemTopics(Header):
    """Name the broker's own topics."""


@request(306, "CLEAN_EXPIRED_CONSUMEQUEUE", to="broker", touches=("cluster", "update"), admin=True)
class CleanQueues(Header):
    """Remove queue files that point before the oldest log file."""


@request(316, "CLEAN_UNUSED_TOPIC", to="broker", touches=("cluster", "update"), admin=True)
class CleanTopics(Header):
    """Remove the queues of topics that are gone from the settings."""


@request(329, "DELETE_EXPIRED_COMMITLOG", to="broker", touches=("cluster", "update"), admin=True)
class DeleteExpiredLog(Header):
    """Remove log files that are past their time now, not at the next clean-up hour."""
