"""Bodies of the administrative answers of a broker: tables by queue, lists, connections, statistics.

Place in the flow: `broker.handlers` fills them, mqadmin and the dashboard read them. Strict JSON where
Apache writes it; where it keys a table by queue or by number, the keys are raw, which is not JSON:

    {"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"maxOffset":1,…}},…}
    {"correctionOffsets":{0:5,1:7}}

Members stand in Apache's order (alphabetical) and absent ones are left out. Literals that a real 5.5.0
sent are in tests/wire/bodies/test_admin_bodies.py. Knows no tables and checks no names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from roquet.model.group import Group, Subscription
from roquet.model.route import QueueName
from roquet.model.topic import DataVersion, Topic
from roquet.wire.bodies import loose_json

_encode = msgspec.json.Encoder().encode

Shape = TypeVar("Shape")


class TopicTable(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All topics, or a page of them (21)."""

    data_version: DataVersion
    mapping_data_version: DataVersion = DataVersion()
    topic_config_table: Mapping[str, Topic]
    topic_queue_mapping_detail_map: dict[str, Any] = {}
    topic_queue_mapping_info_map: dict[str, Any] = {}


class GroupTable(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All groups, or a page of them (201)."""

    data_version: DataVersion
    forbidden_table: Mapping[str, Mapping[str, int]] = {}
    subscription_group_table: Mapping[str, Group]


class TopicList(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The body of 18. Attributes carry their signs: `{"+message.type":"FIFO"}`."""

    topic_config_list: list[Topic] = []


class GroupList(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The body of 225."""

    group_config_list: list[Group] = []


class Forbidden(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Whether a group may read a topic (353)."""

    group: str
    readable: bool
    topic: str


class QueueBounds(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One queue in the answer to 202."""

    last_update_timestamp: int
    max_offset: int
    min_offset: int


class Progress(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How far a group is in one queue (208, 317)."""

    broker_offset: int
    consumer_offset: int
    last_timestamp: int
    pull_offset: int


class ConsumeStats(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How far a group is behind (208); one of many in 317."""

    consume_tps: float
    offset_table: msgspec.Raw


class BrokerConsumeStats(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How far every group is behind (317)."""

    broker_addr: str
    consume_stats_list: list[dict[str, list[ConsumeStats]]]
    total_diff: int
    total_inflight_diff: int


class TimeSpan(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Which time a group's position in one queue stands for (303); −1 is no time."""

    consume_time_stamp: int
    consume_time_stamp_str: str
    delay_time: int
    max_time_stamp: int
    max_time_stamp_str: str
    message_queue: msgspec.Raw
    min_time_stamp: int
    min_time_stamp_str: str


class Connection(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One client in 203 and 204."""

    client_addr: str
    client_id: str
    language: str
    version: int


class SubscriptionView(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """One way in which members of a group subscribe a topic; without an expression they do not."""

    client_ids: Sequence[str]
    expression: str = ""
    expression_type: str = ""


class ConsumerConnections(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The members of a consumer group (203).

    `subscription_conflicts` is ours, and there only when members do not subscribe alike; Apache's tools
    pass over members that they do not know.
    """

    connection_set: list[Connection]
    consume_from_where: str
    consume_type: str
    message_model: str
    subscription_conflicts: Mapping[str, list[SubscriptionView]] | msgspec.UnsetType = msgspec.UNSET
    subscription_table: Mapping[str, Subscription]


class Producer(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One live producer in 328."""

    client_id: str
    language: str
    last_update_timestamp: int
    remote_ip: str = msgspec.field(name="remoteIP")
    version: int


class SubscriptionOf(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a group subscribes of a topic (345)."""

    group: str
    subscription_data: Subscription | None = None
    topic: str | None = None


class QueueEntryLine(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One raw entry of a queue (321); with a unit of the extension, that too, or why there is none."""

    bit_map: str | msgspec.UnsetType = msgspec.UNSET
    eval: bool = False
    extend_data_json: str | msgspec.UnsetType = msgspec.UNSET
    msg: str | msgspec.UnsetType = msgspec.UNSET
    physic_offset: int
    physic_size: int
    tags_code: int


class QueueWalk(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """Raw entries of a queue (321)."""

    filter_data: str | None = None
    max_queue_index: int
    min_queue_index: int
    queue_data: list[QueueEntryLine]
    subscription_data: Subscription | None = None


class StatsLine(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One counter over one window (315)."""

    avgpt: float
    sum: int
    tps: float


class StatsLines(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One counter over a day, an hour and a minute (315)."""

    stats_day: StatsLine
    stats_hour: StatsLine
    stats_minute: StatsLine


class FollowerState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The side of 907 that only a follower fills."""

    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    max_offset: int = 0
    transferred_byte_in_second: int = 0


class ReplicationStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The replicas of a broker (907)."""

    ha_client_runtime_info: FollowerState = FollowerState()
    ha_connection_info: list[dict[str, Any]] = []
    in_sync_slave_nums: int = 0
    master: bool = True
    master_commit_log_max_offset: int = 0


def encode(body: object) -> bytes:
    """Return the JSON of a body."""
    return _encode(body)


def decode(body: bytes, shape: type[Shape]) -> Shape:
    """Read what a tool sent, in Java's dialect too; raises ValueError that says what is wrong."""
    try:
        return msgspec.json.decode(body, type=shape, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(loose_json.loads(body), shape, strict=False)
    except RecursionError:
        raise ValueError("the body is nested too deep") from None


def queue_key(queue: QueueName) -> bytes:
    """Return a queue as Apache writes it in the place of a key."""
    return _encode({"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic})


def queue_value(queue: QueueName) -> msgspec.Raw:
    """Return a queue in the place of a value."""
    return msgspec.Raw(queue_key(queue))


def by_queue(table: Mapping[QueueName, object]) -> msgspec.Raw:
    """Return a table whose keys are queues."""
    return _raw_table((queue_key(queue), value) for queue, value in table.items())


def by_number(table: Mapping[int, object]) -> msgspec.Raw:
    """Return a table whose keys are bare numbers."""
    return _raw_table((b"%d" % number, value) for number, value in table.items())


def _raw_table(pairs: Iterable[tuple[bytes, object]]) -> msgspec.Raw:
    return msgspec.Raw(b"{" + b",".join(key + b":" + _encode(value) for key, value in pairs) + b"}")


def encode_offsets(dump: Mapping[str, Any]) -> bytes:
    """Return the whole offset table (43): names quoted, queue ids raw."""
    tables = {
        name: {key: by_number(queues) for key, queues in dump[name].items()}
        for name in ("offsetTable", "pullOffsetTable")
    }
    return _encode({"dataVersion": dump["dataVersion"], "groupTopicMap": dump["groupTopicMap"], **tables})


def encode_offset_table(offsets: Mapping[QueueName, int]) -> bytes:
    """Return where a reset has put each queue (222)."""
    return _encode({"offsetTable": by_queue(offsets)})


def encode_offset_list(offsets: Mapping[QueueName, int]) -> bytes:
    """Return the same as a list, as clients in C++ want it (220)."""
    rows = [
        {"brokerName": name.broker_name, "offset": offset, "queueId": name.queue_id, "topic": name.topic}
        for name, offset in offsets.items()
    ]
    return _encode({"offsetTable": rows})


def encode_client_states(states: Mapping[str, msgspec.Raw]) -> bytes:
    """Return how far each client says it is (223)."""
    return _encode({"consumerTable": states, "messageQueueTable": {}})


def read_client_state(body: bytes) -> msgspec.Raw:
    """Return the table of offsets in a client's answer to 221, in Apache's form; raises ValueError."""
    read = loose_json.loads(body)
    table = read.get("messageQueueTable") if isinstance(read, dict) else None
    if not isinstance(table, dict):
        raise ValueError("the answer has no messageQueueTable")
    return msgspec.Raw(loose_json.dumps(table))
