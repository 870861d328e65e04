"""What is read, and by whom: offsets, limits and partitions; pure.

    start ─┐                                   ┌─ partition 0: orders/a/0 [0, 500) orders/a/1 [0, 250)
           ├─▶ ranges of queues ─▶ pack ───────┤
    end  ──┘   (end exclusive)                 └─ partition 1: orders/a/1 [250, 500) orders/b/0 [0, 500)

Offsets in a checkpoint are plain, versioned and sorted, since Spark compares them as texts:
{"version": 1, "topics": {"orders": {"broker-a": {"0": 17}}}}. A queue that `start` lacks is new, and is
read from its oldest message on. The same two offsets always give the same ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from roquet.model.route import QueueName
from roquet.spark.pushdown import Conditions

VERSION: Final = 1
ROWS_WORTH_A_PARTITION: Final = 150_000
"""A partition costs as much as some 15,000 rows (measured: 66 ms of CPU): it should have ten times that."""

Offsets = Mapping[QueueName, int]


class BadOffsets(ValueError):
    """Offsets that cannot be read, in a checkpoint or an option; says what is wrong."""


class Range(NamedTuple):
    """Offsets of one queue, the end exclusive. `is_new`: it begins with whatever the queue still has."""

    queue: QueueName
    start: int
    end: int
    is_new: bool = False

    @property
    def rows(self) -> int:
        return self.end - self.start


# --- offsets ⇄ JSON


def to_json(offsets: Offsets) -> dict[str, Any]:
    """Return offsets as a checkpoint holds them."""
    topics: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets, key=_place):
        brokers = topics.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return {"version": VERSION, "topics": topics}


def from_json(found: Any) -> dict[QueueName, int]:
    """Return the offsets of a checkpoint; raises BadOffsets."""
    if not isinstance(found, Mapping) or "version" not in found:
        raise BadOffsets("the checkpoint is not of the format roquet: its offsets have no version")
    if found["version"] != VERSION:
        raise BadOffsets(
            f"the checkpoint has offsets of version {found['version']!r}, and this release knows {VERSION}: "
            "read it with the release that wrote it, or begin a new checkpoint"
        )
    return per_queue(found.get("topics"), least=0)


def per_queue(found: Any, least: int) -> dict[QueueName, int]:
    """Return offsets given as {"topic": {"broker": {"0": 17}}}; raises BadOffsets."""
    offsets: dict[QueueName, int] = {}
    for topic, brokers in _members(found, "the offsets"):
        for broker, queues in _members(brokers, f"topic {topic}"):
            for queue_id, offset in _members(queues, f"broker {broker} of topic {topic}"):
                if not queue_id.isdecimal():
                    raise BadOffsets(f"{queue_id!r} of {topic}/{broker} is no queue id: it is a number")
                if not isinstance(offset, int) or isinstance(offset, bool) or offset < least:
                    raise BadOffsets(f"{offset!r} of {topic}/{broker}/{queue_id} is no offset")
                offsets[QueueName(broker, int(queue_id), topic)] = offset
    return offsets


def assigned(found: Any) -> tuple[QueueName, ...]:
    """Return the queues of an option such as {"topic": {"broker-a": [0, 1]}}; raises BadOffsets."""
    queues: list[QueueName] = []
    for topic, brokers in _members(found, "assign"):
        for broker, ids in _members(brokers, f"topic {topic}"):
            if (
                not isinstance(ids, list)
                or not ids
                or not all(type(each) is int and each >= 0 for each in ids)
            ):
                raise BadOffsets(f"{topic}/{broker} wants a list of queue ids such as [0, 1]")
            queues += [QueueName(broker, each, topic) for each in dict.fromkeys(ids)]
    if not queues:
        raise BadOffsets("it names no queue")
    return tuple(sorted(queues, key=_place))


def _members(found: Any, what: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(found, Mapping):
        raise BadOffsets(f'{what} must be an object such as {{"topic": {{"broker-a": {{"0": 17}}}}}}')
    return ((str(name), value) for name, value in found.items())


def _place(queue: QueueName) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


# --- from offsets to ranges


def between(start: Offsets, end: Offsets) -> list[Range]:
    """Return what lies between two offsets, by queue; queues that end before they begin have nothing."""
    ranges = [
        Range(queue, start.get(queue, 0), end[queue], is_new=queue not in start)
        for queue in sorted(end, key=_place)
    ]
    return [each for each in ranges if each.rows > 0]


def narrowed(ranges: Iterable[Range], wanted: Conditions) -> list[Range]:
    """Return what of the ranges can meet conditions on topic, broker, queue and offset."""
    if wanted.is_empty:
        return []
    found = []
    for each in ranges:
        queue = each.queue
        if not all(
            (
                _is_in(queue.topic, wanted.topics),
                _is_in(queue.broker_name, wanted.brokers),
                _is_in(queue.queue_id, wanted.queue_ids),
            )
        ):
            continue
        start, end = max(each.start, wanted.offset_from), min(each.end, wanted.offset_to)
        if start < end:
            found.append(each._replace(start=start, end=end))
    return found


def _is_in(value: Any, wanted: Collection[Any] | None) -> bool:
    return wanted is None or value in wanted


# --- admission: how much of what there is a batch takes


def admit(start: Offsets, latest: Offsets, rows_max: int) -> dict[QueueName, int]:
    """Return where a batch of at most so many rows ends: each queue gives its share of what waits.

    The shares add up to the limit exactly, or to all there is, so that each batch gets on.
    """
    waiting = {queue: max(end - start.get(queue, 0), 0) for queue, end in latest.items()}
    return _ends(start, latest, shares(waiting, rows_max))


def admit_bytes(
    start: Offsets, latest: Offsets, row_bytes: Mapping[QueueName, float], bytes_max: int
) -> dict[QueueName, int]:
    """Return where a batch of about so many bytes ends, given the mean size of each queue's messages."""
    waiting = {queue: max(end - start.get(queue, 0), 0) for queue, end in latest.items()}
    sizes = {queue: int(rows * max(row_bytes.get(queue, 0.0), 1.0)) for queue, rows in waiting.items()}
    granted = shares(sizes, bytes_max)
    rows = {
        queue: min(waiting[queue], int(size / max(row_bytes.get(queue, 0.0), 1.0)))
        for queue, size in granted.items()
    }
    if not any(rows.values()) and any(waiting.values()):  # one message larger than the limit must not block
        first = min((queue for queue in waiting if waiting[queue]), key=_place)
        rows[first] = 1
    return _ends(start, latest, rows)


def _ends(start: Offsets, latest: Offsets, rows: Mapping[QueueName, int]) -> dict[QueueName, int]:
    """Return the end of each queue; those that are away or shorter than they were stay where they are."""
    moved = {queue: start.get(queue, 0) + rows[queue] for queue in latest}
    return {**start, **moved}


def shares(waiting: Mapping[QueueName, int], limit: int) -> dict[QueueName, int]:
    """Divide a limit among queues in proportion to what waits in them, by largest remainder."""
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    granted = {queue: count * limit // total for queue, count in waiting.items()}
    by_remainder = sorted(waiting, key=lambda queue: (-(waiting[queue] * limit % total), _place(queue)))
    for queue in by_remainder[: limit - sum(granted.values())]:
        granted[queue] += 1
    return granted


def rows_between(start: Offsets, end: Offsets) -> int:
    """Return how many offsets lie between."""
    return sum(each.rows for each in between(start, end))


# --- packing: ranges into partitions


def partition_count(rows: int, least: int, most: int, rows_max: int | None) -> int:
    """Return into how many partitions so many rows go: few, unless there is much to read."""
    count = max(1, min(most, -(-rows // ROWS_WORTH_A_PARTITION)), least)
    if rows_max is not None:
        count = max(count, -(-rows // rows_max))
    return min(count, rows)


def pack(ranges: Sequence[Range], count: int) -> list[tuple[Range, ...]]:
    """Cut ranges, laid end to end, into partitions of equal size (one row more or less)."""
    total = sum(each.rows for each in ranges)
    if not total:
        return []
    packed: list[tuple[Range, ...]] = []
    left = list(reversed(ranges))
    for number in range(count):
        room = total * (number + 1) // count - total * number // count
        inside: list[Range] = []
        while room:
            each = left.pop()
            if each.rows > room:
                cut = each.start + room
                left.append(each._replace(start=cut))
                each = each._replace(end=cut)
            inside.append(each)
            room -= each.rows
        packed.append(tuple(inside))
    return packed
