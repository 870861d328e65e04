"""Reading the administrative answers of brokers: the other direction of `admin`, for tools.

Place in the flow: `client.admin` asks, a broker (ours, or Apache's of any release since 4.9) answers, this
makes values of it. Tables keyed by queue come with raw objects as keys (see `admin`); members that a release
does not know have a default. Every reader raises BodyError that says what is wrong, never anything else.
Knows nothing of connections or of who is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from roquet.model.route import QueueName
from roquet.wire.bodies import admin, loose_json
from roquet.wire.bodies.registration import BodyError

Shape = TypeVar("Shape")

LOOSE_BYTES_MAX = 16 * 1024 * 1024
"""A whole frame of tables by queue: a tool may take its time over it."""


class TopicBounds(NamedTuple):
    """The queues of a topic on one broker (202)."""

    queues: dict[QueueName, admin.QueueBounds]
    put_tps: float


class GroupProgress(NamedTuple):
    """How far a group is on one broker (208)."""

    queues: dict[QueueName, admin.Progress]
    consume_tps: float


class BrokerProgress(NamedTuple):
    """How far every group is on one broker (317)."""

    groups: dict[str, GroupProgress]
    lag: int
    in_flight: int


class OffsetDump(NamedTuple):
    """The whole offset table of a broker (43), by (topic, group)."""

    committed: dict[tuple[str, str], dict[int, int]]
    pulled: dict[tuple[str, str], dict[int, int]]


class QueueTimes(NamedTuple):
    """Which time a group's position in one queue stands for (303), in milliseconds; −1 is no time."""

    queue: QueueName
    first_ms: int
    last_ms: int
    consumed_ms: int
    delay_ms: int


def decode(body: bytes, shape: type[Shape]) -> Shape:
    """Return a body whose shape is its own."""
    try:
        return admin.decode(body, shape)
    except (ValueError, RecursionError) as error:
        raise BodyError(f"{shape.__name__}: {error}") from None


def members(body: bytes) -> dict[str, Any]:
    """Return the members of a body, in Java's dialect too."""
    try:
        read = loose_json.loads(bytes(body), LOOSE_BYTES_MAX)
    except (ValueError, RecursionError) as error:
        raise BodyError(f"{error}") from None
    if not isinstance(read, dict):
        raise BodyError(f"an object was expected, {type(read).__name__} came")
    return read


def table(value: object) -> dict[Any, Any]:
    """Return a member that must be an object; an absent one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BodyError(f"a table was expected, {type(value).__name__} came")
    return value


def rows(value: object) -> list[Any]:
    """Return a member that must be a list; an absent one is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BodyError(f"a list was expected, {type(value).__name__} came")
    return value


def queue_of(value: object) -> QueueName:
    """Return the queue that an object, in the place of a key or a value, names."""
    if isinstance(value, str):  # strict JSON: the object is inside a text
        value = members(value.encode())
    try:
        assert isinstance(value, Mapping)
        return QueueName(str(value["brokerName"]), int(str(value["queueId"])), str(value["topic"]))
    except (AssertionError, KeyError, ValueError):
        raise BodyError(f"{str(value)[:80]!r} names no queue") from None


def by_queue(
    value: object, shape: type[Shape], prepare: Callable[[dict[str, Any]], object] = lambda row: row
) -> dict[QueueName, Shape]:
    """Return a table whose keys are queues, in the order of topic, broker and queue."""
    found = {queue_of(key): row for key, row in table(value).items()}
    try:
        return {
            queue: msgspec.convert(prepare(row) if isinstance(row, dict) else row, shape, strict=False)
            for queue, row in sorted(found.items(), key=lambda pair: (pair[0].topic, pair[0]))
        }
    except ValueError as error:
        raise BodyError(f"{error}") from None


def by_number(value: object) -> dict[int, int]:
    """Return a table from number to number, sorted."""
    try:
        return {int(key): int(number) for key, number in sorted(table(value).items(), key=_number_of)}
    except (ValueError, TypeError) as error:
        raise BodyError(f"{error}") from None


def _number_of(pair: tuple[Any, Any]) -> int:
    return int(pair[0])


def texts(body: bytes, member: str) -> list[str]:
    """Return a member that lists names: topicList, groupList …"""
    return [str(each) for each in rows(members(body).get(member))]


def decode_bounds(body: bytes) -> TopicBounds:
    """Return what 202 answered."""
    read = members(body)
    return TopicBounds(by_queue(read.get("offsetTable"), admin.QueueBounds), _rate(read.get("topicPutTps")))


def decode_progress(body: bytes) -> GroupProgress:
    """Return what 208 answered."""
    return _progress(members(body))


def decode_broker_progress(body: bytes) -> BrokerProgress:
    """Return what 317 answered; the topics of one group are put together."""
    read = members(body)
    groups: dict[str, GroupProgress] = {}
    for listed in rows(read.get("consumeStatsList")):
        for group, parts in table(listed).items():
            found = [_progress(table(part)) for part in rows(parts)]
            queues = {queue: row for each in found for queue, row in each.queues.items()}
            groups[str(group)] = GroupProgress(queues, sum(each.consume_tps for each in found))
    return BrokerProgress(groups, _whole(read.get("totalDiff")), _whole(read.get("totalInflightDiff")))


def _progress(read: dict[Any, Any]) -> GroupProgress:
    return GroupProgress(
        by_queue(read.get("offsetTable"), admin.Progress, _with_pull), _rate(read.get("consumeTps"))
    )


def _with_pull(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as 5.x sends it: 4.x does not know how far a group has pulled."""
    return {"pullOffset": row.get("consumerOffset", 0), **row}


def decode_moved(body: bytes) -> dict[QueueName, int]:
    """Return where 222 has put each queue, or 220 shall; the form for C++ is a list."""
    listed = members(body).get("offsetTable")
    if isinstance(listed, list):
        return {queue_of(each): _whole(each.get("offset")) for each in listed if isinstance(each, dict)}
    return by_queue(listed, int)


def decode_positions(body: bytes) -> dict[QueueName, int]:
    """Return how far one client says it is (221)."""
    return by_queue(members(body).get("messageQueueTable"), int)


def encode_positions(positions: Mapping[QueueName, int]) -> bytes:
    """Return a client's answer to 221."""
    return admin.encode({"consumerTable": {}, "messageQueueTable": admin.by_queue(positions)})


def decode_client_positions(body: bytes) -> dict[str, dict[QueueName, int]]:
    """Return how far each client says it is (223)."""
    found = table(members(body).get("consumerTable"))
    return {str(client_id): by_queue(positions, int) for client_id, positions in found.items()}


def decode_offsets(body: bytes) -> OffsetDump:
    """Return what 43 answered."""
    read = members(body)
    return OffsetDump(_by_pair(read.get("offsetTable")), _by_pair(read.get("pullOffsetTable")))


def _by_pair(value: object) -> dict[tuple[str, str], dict[int, int]]:
    found = {}
    for key, queues in table(value).items():
        topic, _, group = str(key).partition("@")
        found[topic, group] = by_number(queues)
    return found


def decode_times(body: bytes) -> list[QueueTimes]:
    """Return what 303 answered, by queue."""
    listed = rows(members(body).get("consumeTimeSpanSet"))
    return sorted(
        QueueTimes(
            queue_of(row.get("messageQueue")),
            _whole(row.get("minTimeStamp")),
            _whole(row.get("maxTimeStamp")),
            _whole(row.get("consumeTimeStamp")),
            _whole(row.get("delayTime")),
        )
        for row in map(table, listed)
    )


def decode_timer_counts(body: bytes) -> dict[str, int]:
    """Return how many timed messages of each topic wait (61)."""
    counts = table(members(body).get("timingCount"))
    return {str(topic): _whole(table(row).get("count")) for topic, row in sorted(counts.items())}


def _whole(value: object) -> int:
    try:
        return int(str(value if value is not None else 0))
    except ValueError:
        raise BodyError(f"{str(value)[:80]!r} is not a number") from None


def _rate(value: object) -> float:
    try:
        return float(str(value if value is not None else 0))
    except ValueError:
        raise BodyError(f"{str(value)[:80]!r} is not a number") from None
