"""The stream reader as a plain class, the same on a broker of ours and on Apache's; no Spark session."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from roquet.spark.access import DataLost
from roquet.spark.behind import Lag, NoProgress, lag_of
from roquet.spark.plan import BadOffsets, from_json
from roquet.spark.stream import RoquetStreamReader
from tests.spark.shop import BROKER, Place, Shop, between, queue

ALL = ReadAllAvailable()


def drain(reader: RoquetStreamReader, start: dict[str, Any], limit: ReadLimit = ALL) -> list[list[Place]]:
    """Return the batches from an offset on until there is no more."""
    batches: list[list[Place]] = []
    while True:
        end = reader.latestOffset(start, limit)
        if json.dumps(end) == json.dumps(start):
            return batches
        batches.append(between(reader, start, end))
        start = end


def test_batches_hold_every_message_once(shop: Shop) -> None:
    orders = shop.fresh("orders", 2)
    shop.send(orders, 30, 0)
    shop.send(orders, 10, 1)
    reader = shop.stream(subscribe=orders, startingOffsets="earliest", maxOffsetsPerTrigger="12")
    assert reader.getDefaultReadLimit() == ReadMaxRows(12)
    start = reader.initialOffset()
    assert start == {"version": 1, "topics": {orders: {BROKER: {"0": 0, "1": 0}}}}
    batches = drain(reader, start, reader.getDefaultReadLimit())
    assert [len(batch) for batch in batches] == [12, 12, 12, 4]
    assert sorted(place for batch in batches for place in batch) == sorted(shop.sent)
    reader.stop()


def test_all_available_goes_over_the_limits(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 30)
    reader = shop.stream(subscribe=orders, startingOffsets="earliest", maxOffsetsPerTrigger="12")
    assert [len(batch) for batch in drain(reader, reader.initialOffset())] == [30]
    reader.stop()


def test_a_run_again_has_the_same_rows(shop: Shop) -> None:
    orders = shop.fresh("orders", 2)
    shop.send(orders, 20, 1)
    reader = shop.stream(subscribe=orders, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    shop.send(orders, 5, 1)
    again = pickle.loads(pickle.dumps(reader))
    assert [part.value for part in again.partitions(start, end)] == [
        part.value for part in reader.partitions(start, end)
    ]
    assert between(again, start, end) == between(reader, start, end) == shop.sent[:20]
    assert reader.partitions(end, end) == []
    reader.stop()


def test_latest_is_pinned_by_an_empty_first_batch(shop: Shop) -> None:
    """A query that dies in its first batch must not begin later when it is started again."""
    orders = shop.fresh("orders")
    shop.send(orders, 3)
    reader = shop.stream(subscribe=orders)
    start = reader.initialOffset()
    assert reader.initialOffset() == start
    shop.send(orders, 2)
    pinned = reader.latestOffset(start, ALL)
    assert pinned == start
    reader.stop()
    successor = shop.stream(subscribe=orders)
    assert successor.partitions(successor.initialOffset(), pinned) == []
    assert [len(batch) for batch in drain(successor, pinned)] == [2]
    successor.stop()


def test_available_now_stops_where_it_began(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 10)
    reader = shop.stream(
        subscribe=orders, startingOffsets="earliest", maxOffsetsPerTrigger="4", minOffsetsPerTrigger="4"
    )
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    shop.send(orders, 10)
    shop.admin.topics.create(orders, queues=2)
    shop.send(orders, 1, 1)
    assert [len(batch) for batch in drain(reader, start, reader.getDefaultReadLimit())] == [4, 4, 2]
    reader.stop()


def test_new_queues_and_topics_are_read_from_their_beginning(shop: Shop) -> None:
    orders = shop.fresh("orders")
    later = f"{orders}-later"
    shop.send(orders, 2)
    given = {"subscribePattern": f"{orders}.*", "queueDiscoveryInterval": "0ms"}
    reader = shop.stream(**given)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    shop.topic(orders, 2)
    shop.topic(later)
    shop.send(orders, 3, 1)
    shop.send(later, 4)
    assert [len(batch) for batch in drain(reader, start)] == [7]
    reader.stop()
    restarted = shop.stream(**given, maxOffsetsPerTrigger="5")
    assert [len(batch) for batch in drain(restarted, start, ReadMaxRows(5))] == [5, 2]
    restarted.stop()


def test_a_pattern_that_nothing_matches_yet(shop: Shop) -> None:
    orders = shop.fresh("orders")
    given = {"subscribePattern": f"{orders}-.+", "queueDiscoveryInterval": "0ms"}
    reader = shop.stream(**given)
    start = reader.initialOffset()
    assert start == {"version": 1, "topics": {}}
    assert drain(reader, start) == []
    shop.topic(f"{orders}-later")
    shop.send(f"{orders}-later", 3)
    assert [len(batch) for batch in drain(reader, start)] == [3]
    reader.stop()


def test_a_minimum_waits_but_not_for_ever(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 5)
    waiting = shop.stream(subscribe=orders, startingOffsets="earliest", minOffsetsPerTrigger="10")
    assert waiting.getDefaultReadLimit() == ReadMinRows(10)
    limit = waiting.getDefaultReadLimit()
    first = waiting.latestOffset(waiting.initialOffset(), limit)
    assert from_json(first) == {queue(orders): 5}, "the first batch does not wait"
    shop.send(orders, 5)
    assert waiting.latestOffset(first, limit) == first
    shop.send(orders, 5)
    assert from_json(waiting.latestOffset(first, limit)) == {queue(orders): 15}
    waiting.stop()
    hasty = shop.stream(subscribe=orders, minOffsetsPerTrigger="10", maxTriggerDelay="0ms")
    assert from_json(hasty.latestOffset(first, limit)) == {queue(orders): 15}
    hasty.stop()


def test_bytes_bound_a_batch(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 40, body=b"x" * 1000)
    reader = shop.stream(subscribe=orders, startingOffsets="earliest", maxBytesPerTrigger="12000")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(12_000)
    sizes = [len(batch) for batch in drain(reader, reader.initialOffset(), reader.getDefaultReadLimit())]
    assert sum(sizes) == 40
    assert all(5 <= size <= 12 for size in sizes[:-1])
    reader.stop()


def test_where_a_stream_begins(shop: Shop) -> None:
    """By group, by time and by number; later on the checkpoint alone counts."""
    orders = shop.fresh("orders", 2)
    group = f"spark-{orders}"
    shop.send(orders, 6)
    first = shop.stream(subscribe=orders, group=group)
    first.commit({"version": 1, "topics": {orders: {BROKER: {"0": 4, "1": 0}}}})
    first.stop()
    middle = shop.later()
    shop.send(orders, 3)
    shop.send(orders, 2, 1)
    numbers = json.dumps({orders: {BROKER: {"0": 8, "1": -2}}})
    begins = {
        (4, 0): {"startingOffsets": "group", "group": group},
        (6, 0): {"startingTimestamp": middle.isoformat()},
        (8, 0): {"startingOffsets": numbers},
        (9, 2): {"startingOffsets": "latest"},
        (0, 0): {"startingOffsets": "earliest"},
    }
    for offsets, given in begins.items():
        reader = shop.stream(subscribe=orders, **given)
        start = reader.initialOffset()
        assert tuple(from_json(start).values()) == offsets, given
        pinned = reader.latestOffset(start, ALL)
        rest = [len(batch) for batch in (between(reader, start, pinned), *drain(reader, pinned))]
        assert sum(rest) == 11 - sum(offsets), given
        reader.stop()


def test_filters_and_queues_of_a_stream(shop: Shop) -> None:
    orders = shop.fresh("orders", 2)
    for number in range(10):
        shop.send(orders, 1, number % 2, tag="AB"[number // 5], properties={"n": str(number)})
    whole = {"subscribe": orders, "startingOffsets": "earliest"}
    wanted = {
        "tags": ({**whole, "tags": "B"}, 5),
        "sql": ({**whole, "sql": "n >= 7"}, 3),
        "assign": ({"assign": json.dumps({orders: {BROKER: [1]}}), "startingOffsets": "earliest"}, 5),
        "records": ({**whole, "maxRecordsPerPartition": "3", "pullMessages": "2"}, 10),
    }
    for name, (given, count) in wanted.items():
        reader = shop.stream(**given)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        assert len(between(reader, start, end)) == count, name
        assert name != "records" or len(reader.partitions(start, end)) == 4
        reader.stop()


def test_progress_goes_to_the_group(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 10)
    reader = shop.stream(subscribe=orders, startingOffsets="earliest", group=f"spark-{orders}")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    shop.send(orders, 3)
    reader.commit(end)
    progress = shop.admin.offsets.progress(f"spark-{orders}", orders)
    assert [(each.consumer_offset, each.lag) for each in progress.queues] == [(10, 3)]
    reader.stop()


def test_lag(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 10, body=b"x" * 500)
    reader = shop.stream(subscribe=orders, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    assert reader.reportLatestOffset() is None
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    source = {"endOffset": json.dumps(end), "latestOffset": json.dumps(reader.reportLatestOffset())}
    found = lag_of([source, {"endOffset": 5, "latestOffset": 7}])
    assert found == Lag(6, found.bytes, {queue(orders): 6})
    assert 6 * 500 < found.bytes < 6 * 1000
    reader.stop()
    with pytest.raises(NoProgress):
        lag_of([{"endOffset": None, "latestOffset": None}])


def test_lost_data_is_reported(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 5)
    reader = shop.stream(subscribe=orders, startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    shop.admin.topics.delete(orders)
    shop.topic(orders)
    strict = shop.stream(subscribe=orders)
    with pytest.raises(DataLost, match="ends at 0, and the query is at 5"):
        strict.latestOffset(end, ALL)
    strict.stop()
    easy = shop.stream(subscribe=orders, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "roquet.spark"):
        new = easy.latestOffset(end, ALL)
    assert from_json(new) == {queue(orders): 0}
    assert between(easy, end, new) == []
    assert "ends at 0" in caplog.text
    shop.sent.clear()
    shop.send(orders, 2)
    assert drain(easy, new) == [shop.sent], "from there on it is read like any other"
    easy.stop()


def test_a_vanished_topic_is_reported_and_kept(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    orders = shop.fresh("orders")
    payments = shop.fresh("payments")
    shop.send(orders, 5)
    shop.send(payments, 2)
    reader = shop.stream(subscribe=f"{orders},{payments}", startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    shop.admin.topics.delete(orders)
    shop.send(payments, 3)
    strict = shop.stream(subscribe=f"{orders},{payments}")
    with pytest.raises(DataLost, match=f"queue 0 of topic {orders} at broker-a is served by nobody"):
        strict.latestOffset(end, ALL)
    strict.stop()
    easy = shop.stream(subscribe=f"{orders},{payments}", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "roquet.spark"):
        new = easy.latestOffset(end, ALL)
        assert len(between(easy, end, new)) == 3
        easy.latestOffset(new, ALL)
    assert from_json(new)[queue(orders)] == 5
    assert caplog.text.count("is served by nobody") == 1
    easy.stop()


def test_a_foreign_checkpoint_is_refused(shop: Shop) -> None:
    orders = shop.fresh("orders")
    reader = shop.stream(subscribe=orders)
    with pytest.raises(BadOffsets, match="not of the format roquet"):
        reader.latestOffset({"orders": {"0": 5}}, ALL)
    reader.stop()


def test_a_broker_that_restarts_is_waited_for(ours: Shop) -> None:
    orders = ours.fresh("orders")
    ours.send(orders, 5)
    reader = ours.stream(subscribe=orders, startingOffsets="earliest", retries="8")
    start = reader.initialOffset()
    ours.broker.restart()
    end = reader.latestOffset(start, ALL)
    assert between(reader, start, end) == ours.sent
    reader.stop()
