"""Plans: offsets there and back, and ranges that have neither gap nor overlap whatever the limits are."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.route import QueueName
from roquet.spark.plan import (
    BadOffsets,
    Range,
    admit,
    admit_bytes,
    between,
    from_json,
    narrowed,
    pack,
    partition_count,
    rows_between,
    shares,
    to_json,
)
from roquet.spark.pushdown import Conditions
from tests.spark.shop import queue

QUEUES = st.builds(
    QueueName, st.sampled_from(["a", "b"]), st.integers(0, 12), st.sampled_from(["orders", "payments"])
)
COUNTS = st.dictionaries(QUEUES, st.integers(0, 300), min_size=1, max_size=8)


def test_offsets_are_plain_versioned_and_sorted() -> None:
    offsets = {QueueName("b", 10, "orders"): 5, QueueName("b", 9, "orders"): 4, QueueName("a", 0, "x"): 0}
    text = json.dumps(to_json(offsets))
    assert text == '{"version": 1, "topics": {"orders": {"b": {"9": 4, "10": 5}}, "x": {"a": {"0": 0}}}}'
    assert from_json(json.loads(text)) == offsets
    assert json.dumps(to_json(dict(reversed(offsets.items())))) == text


@pytest.mark.parametrize(
    ("found", "what"),
    [
        ({}, "have no version"),
        ({"version": 2, "topics": {}}, "offsets of version 2, and this release knows 1"),
        ({"version": 1, "topics": []}, "must be an object"),
        ({"version": 1, "topics": {"t": {"b": {"0": -1}}}}, "-1 of t/b/0 is no offset"),
        ({"version": 1, "topics": {"t": {"b": {"0": True}}}}, "True of t/b/0 is no offset"),
    ],
)
def test_a_foreign_checkpoint_is_refused(found: object, what: str) -> None:
    with pytest.raises(BadOffsets, match=what):
        from_json(found)


@given(st.dictionaries(QUEUES, st.integers(0, 2**62)))
def test_offsets_come_back(offsets: dict[QueueName, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(COUNTS, st.lists(st.tuples(COUNTS, st.integers(1, 200)), min_size=1, max_size=6))
def test_batches_part_the_queues_without_gap_or_overlap(
    begin: Mapping[QueueName, int], arrivals: list[tuple[Mapping[QueueName, int], int]]
) -> None:
    """Whatever arrives and whatever the limits: the ranges of all batches, end to end, are the queues."""
    at: Mapping[QueueName, int] = begin
    ends = dict(begin)
    read: dict[QueueName, list[tuple[int, int]]] = {}
    for arrived, limit in arrivals:
        for each, count in arrived.items():
            ends[each] = ends.get(each, 0) + count
        start = {**dict.fromkeys(ends, 0), **at}
        new = admit(start, ends, limit)
        assert rows_between(start, new) == min(limit, rows_between(start, ends))
        for one in between(at, from_json(to_json(new))):
            read.setdefault(one.queue, []).append((one.start, one.end))
        at = new
    for one in between(at, ends):
        read.setdefault(one.queue, []).append((one.start, one.end))
    for each, end in ends.items():
        position = begin.get(each, 0)
        for start_offset, end_offset in read.get(each, []):
            assert start_offset == position < end_offset
            position = end_offset
        assert position == end


@given(COUNTS, st.integers(1, 40), st.integers(1, 40), st.none() | st.integers(1, 50))
def test_packing_keeps_every_row_once(
    ends: Mapping[QueueName, int], least: int, most: int, rows_max: int | None
) -> None:
    ranges = between(dict.fromkeys(ends, 0), ends)
    rows = sum(each.rows for each in ranges)
    parts = pack(ranges, partition_count(rows, least, most, rows_max))
    listed = [
        (each.queue, offset) for part in parts for each in part for offset in range(each.start, each.end)
    ]
    assert listed == [(each.queue, offset) for each in ranges for offset in range(each.start, each.end)]
    sizes = [sum(each.rows for each in part) for part in parts]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert all(size <= (rows_max or rows) for size in sizes)
    assert len(parts) >= min(least, rows)


def test_small_reads_take_few_partitions() -> None:
    assert partition_count(640, 1, 8, None) == 1
    assert partition_count(400_000, 1, 8, None) == 3
    assert partition_count(10_000_000, 1, 8, None) == 8
    assert partition_count(640, 4, 8, None) == 4
    assert partition_count(640, 1, 8, 100) == 7
    assert partition_count(3, 5, 8, None) == 3
    assert pack([], 0) == []


def test_shares_follow_what_waits() -> None:
    waiting = {queue("t", 0): 900, queue("t", 1): 100, queue("t", 2): 0}
    assert shares(waiting, 100) == {queue("t", 0): 90, queue("t", 1): 10, queue("t", 2): 0}
    assert shares(waiting, 5_000) == waiting
    assert sum(shares({queue("t", number): 1 for number in range(7)}, 3).values()) == 3


def test_bytes_admit_by_size_and_at_least_one_message() -> None:
    start = {queue("t", 0): 0, queue("t", 1): 10}
    latest = {queue("t", 0): 100, queue("t", 1): 110}
    sizes = {queue("t", 0): 10.0, queue("t", 1): 1000.0}
    end = admit_bytes(start, latest, sizes, 10_100)
    assert end == {queue("t", 0): 10, queue("t", 1): 20}
    assert admit_bytes(start, latest, sizes, 1) == {queue("t", 0): 1, queue("t", 1): 10}
    assert admit_bytes(start, latest, {}, 1 << 40) == latest


def test_queues_that_are_away_or_shorter_stay_where_they_are() -> None:
    start = {queue("t", 0): 50, queue("t", 1): 7}
    assert admit(start, {queue("t", 0): 20}, 100) == start
    assert between(start, {queue("t", 0): 20, queue("t", 1): 7}) == []


def test_a_new_queue_begins_with_what_it_has() -> None:
    ranges = between({queue("t", 0): 5}, {queue("t", 0): 6, queue("t", 1): 3})
    assert ranges == [Range(queue("t", 0), 5, 6), Range(queue("t", 1), 0, 3, is_new=True)]


def test_conditions_choose_queues_and_offsets() -> None:
    ranges = [Range(queue("t", 0), 0, 100), Range(queue("t", 1), 0, 100), Range(queue("u", 0), 0, 100)]
    wanted = Conditions(topics=frozenset({"t"}), queue_ids=frozenset({1}), offset_from=90, offset_to=95)
    assert narrowed(ranges, wanted) == [Range(queue("t", 1), 90, 95)]
    assert narrowed(ranges, Conditions(brokers=frozenset({"elsewhere"}))) == []
    assert narrowed(ranges, Conditions(tags=frozenset())) == []
