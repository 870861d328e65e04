"""The batch reader as a plain class, against a broker in this process."""

from __future__ import annotations

import json
import logging
import pickle
from datetime import timedelta

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, IsNotNull, LessThan

from roquet.client.errors import NamesUnreachable, NoRoute, Refused
from roquet.spark.access import DataLost
from roquet.spark.batch import PushingReader
from roquet.spark.options import OptionError
from roquet.spark.plan import Range
from roquet.spark.source import how_of
from roquet.spark.source_options import read_options
from tests.spark.shop import BROKER, Shop, places, queue, table


def test_every_column_arrives(shop: Shop) -> None:
    before = shop.broker.now() - timedelta(milliseconds=1)
    shop.topic("orders", 2)
    shop.send("orders", 1, 1, body=b"hello", tag="A", keys=("k1", "k2"), properties={"colour": "red"})
    row = shop.read(subscribe="orders").to_pylist()[0]
    assert (row["topic"], row["broker"], row["queue_id"], row["queue_offset"]) == ("orders", BROKER, 1, 0)
    assert (row["body"], row["tag"], row["keys"]) == (b"hello", "A", ["k1", "k2"])
    assert dict(row["properties"])["colour"] == "red"
    assert row["message_id"] == dict(row["properties"])["UNIQ_KEY"]
    assert before <= row["store_time"] <= shop.broker.now()
    assert row["born_host"].startswith("127.0.0.1:")


def test_compressed_bodies_are_opened(shop: Shop) -> None:
    shop.topic("orders")
    shop.send("orders", 1, body=b"long " * 5000)
    row = shop.read(("body", "sys_flag"), subscribe="orders").to_pylist()[0]
    assert row["body"] == b"long " * 5000
    assert row["sys_flag"] & 1


def test_several_topics_and_queues_once_each_in_order(shop: Shop) -> None:
    shop.topic("orders", 3)
    shop.topic("payments", 2)
    shop.topic("others", 1)
    for topic, queue_id, count in (("orders", 0, 7), ("orders", 2, 40), ("payments", 1, 5), ("others", 0, 3)):
        shop.send(topic, count, queue_id)
    wanted = sorted(place for place in shop.sent if place[0] != "others")
    assert places(shop.read(subscribe="orders,payments")) == wanted
    assert places(shop.read(subscribe="orders,payments", minPartitions="9", pullMessages="4")) == wanted
    assert sorted(places(shop.read(subscribePattern="(orders|pay.*)"))) == wanted
    assigned = places(shop.read(assign='{"orders": {"broker-a": [2]}}'))
    assert assigned == [place for place in shop.sent if place[:2] == ("orders", 2)]


def test_a_pattern_means_no_topics_of_the_servers(shop: Shop) -> None:
    shop.topic("orders")
    shop.send("orders", 1)
    assert {row[0] for row in places(shop.read(subscribePattern=".*")) if row[0].isupper()} == set()


def test_partitions(shop: Shop) -> None:
    shop.topic("orders", 2)
    shop.send("orders", 10, 0)
    shop.send("orders", 30, 1)
    one = shop.batch(subscribe="orders").partitions()
    assert [part.value for part in one] == [(Range(queue("orders"), 0, 10), Range(queue("orders", 1), 0, 30))]
    four = shop.batch(subscribe="orders", minPartitions="4").partitions()
    assert [sum(each.rows for each in part.value) for part in four] == [10] * 4
    assert len(shop.batch(subscribe="orders", maxRecordsPerPartition="15").partitions()) == 3
    pickle.loads(pickle.dumps((four, shop.batch(subscribe="orders"))))


def test_offsets(shop: Shop) -> None:
    shop.topic("orders", 2)
    shop.send("orders", 10, 0)
    shop.send("orders", 10, 1)
    starts = json.dumps({"orders": {BROKER: {"0": 4, "1": -1}}})
    ends = json.dumps({"orders": {BROKER: {"0": 6}}})
    rows = places(shop.read(subscribe="orders", startingOffsets=starts, endingOffsets=ends))
    assert rows == [("orders", 0, 4), ("orders", 0, 5)]
    with pytest.raises(OptionError, match="ends at 10, and 11 lies behind it"):
        shop.read(subscribe="orders", startingOffsets=json.dumps({"orders": {BROKER: {"0": 11}}}))
    with pytest.raises(OptionError, match="queue 7 of topic orders at broker-a is not among"):
        shop.read(subscribe="orders", startingOffsets=json.dumps({"orders": {BROKER: {"7": 1}}}))


def test_the_offsets_of_a_group(shop: Shop) -> None:
    shop.topic("orders")
    shop.send("orders", 10)
    stream = shop.stream(subscribe="orders", group="readers")
    stream.commit({"version": 1, "topics": {"orders": {BROKER: {"0": 7}}}})
    stream.stop()
    assert len(places(shop.read(subscribe="orders", startingOffsets="group", group="readers"))) == 3
    assert len(places(shop.read(subscribe="orders", endingOffsets="group", group="readers"))) == 7


def test_times(shop: Shop) -> None:
    shop.topic("orders", 2)
    shop.send("orders", 3, 0)
    shop.broker.advance(timedelta(hours=1))
    middle = shop.broker.now()
    shop.send("orders", 2, 0)
    shop.broker.advance(timedelta(hours=1))
    shop.send("orders", 1, 0)
    late = places(shop.read(subscribe="orders", startingTimestamp=middle.isoformat()))
    assert late == [("orders", 0, 3), ("orders", 0, 4), ("orders", 0, 5)]
    end = middle + timedelta(minutes=1)
    between = shop.read(
        subscribe="orders", startingTimestamp=middle.isoformat(), endingTimestamp=end.isoformat()
    )
    assert places(between) == [("orders", 0, 3), ("orders", 0, 4)]
    never = (middle + timedelta(days=1)).isoformat()
    assert len(places(shop.read(subscribe="orders", endingTimestamp=never))) == 6
    with pytest.raises(OptionError, match="topic orders has no message of .* or later"):
        shop.read(subscribe="orders", startingTimestamp=never)
    strategy = {"startingTimestamp": never, "startingTimestampStrategy": "latest"}
    assert places(shop.read(subscribe="orders", **strategy)) == []


def test_tags_are_compared_as_texts(shop: Shop) -> None:
    """`Aa` and `BB` have the same hash, which is all that a broker compares."""
    shop.topic("orders")
    for number in range(30):
        shop.send("orders", 1, tag=("Aa", "BB", "C")[number % 3])
    rows = shop.read(("queue_offset",), subscribe="orders", tags="Aa || C", pullMessages="5")
    assert rows["queue_offset"].to_pylist() == [number for number in range(30) if number % 3 != 1]
    assert shop.read(subscribe="orders", tags="none").num_rows == 0


def test_sql_filters_at_the_broker(shop: Shop) -> None:
    shop.topic("orders")
    for number in range(40):
        shop.send("orders", 1, properties={"amount": str(number)})
    ends = json.dumps({"orders": {BROKER: {"0": 38}}})
    rows = shop.read(subscribe="orders", sql="amount > 30", endingOffsets=ends, pullMessages="3")
    assert rows["queue_offset"].to_pylist() == list(range(31, 38))
    with pytest.raises(Refused):
        shop.read(subscribe="orders", sql="amount >")


def test_what_is_deleted_is_reported(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.topic("orders")
    shop.send("orders", 5)
    reader = shop.batch(subscribe="orders")
    kept = shop.batch(subscribe="orders", failOnDataLoss="false")
    part, kept_part = reader.partitions()[0], kept.partitions()[0]
    shop.admin.topics.delete("orders")
    shop.topic("orders")
    shop.sent.clear()
    shop.send("orders", 2)
    with pytest.raises(DataLost, match="queue 0 of topic orders at broker-a ends at 2.*failOnDataLoss=false"):
        list(reader.read(part))
    with caplog.at_level(logging.WARNING, "roquet.spark"):
        assert sum(batch.num_rows for batch in kept.read(kept_part)) == 2
    assert "ends at 2" in caplog.text


def test_trouble_is_told_in_words(shop: Shop) -> None:
    with pytest.raises(NoRoute, match="nothing"):
        shop.read(subscribe="nothing")
    options = read_options({"namesrv": "127.0.0.1:1", "subscribe": "orders", "timeout": "200ms"}, "batch")
    from roquet.spark.batch import RoquetReader

    with pytest.raises(NamesUnreachable, match="127.0.0.1:1"):
        RoquetReader(options, how_of(options, ("body",))).partitions()


def test_an_empty_topic_has_no_rows(shop: Shop) -> None:
    shop.topic("orders", 3)
    assert shop.batch(subscribe="orders").partitions() == []


def test_conditions_become_ranges_and_filters(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.topic("orders", 2)
    shop.topic("payments")
    shop.send("payments", 5)
    shop.send("orders", 10, 0, tag="A")
    shop.broker.advance(timedelta(hours=1))
    since = shop.broker.now()
    shop.send("orders", 10, 0, tag="B")
    shop.send("orders", 5, 1, tag="B")

    def pushed(*filters: object) -> PushingReader:
        options = read_options(shop.options(subscribe="orders,payments"), "batch")
        reader = PushingReader(options, how_of(options, ("topic", "queue_id", "queue_offset")))
        with caplog.at_level(logging.INFO, "roquet.spark"):
            assert list(reader.pushFilters(list(filters))) == []  # type: ignore[arg-type]
        return reader

    reader = pushed(IsNotNull(("topic",)), EqualTo(("topic",), "orders"), In(("queue_id",), (0,)))
    assert [part.value for part in reader.partitions()] == [(Range(queue("orders"), 0, 20),)]
    assert "pushed down" in caplog.text
    reader = pushed(GreaterThanOrEqual(("store_time",), since), LessThan(("queue_offset",), 12))
    assert [part.value for part in reader.partitions()] == [
        (Range(queue("orders"), 10, 12), Range(queue("orders", 1), 0, 5))
    ]
    assert places(table(reader)) == [
        ("orders", 0, 10),
        ("orders", 0, 11),
        *(("orders", 1, n) for n in range(5)),
    ]
    assert len(places(table(pushed(EqualTo(("tag",), "A"))))) == 10
    assert len(places(table(pushed(EqualTo(("tag",), ""))))) == 5
    assert places(table(pushed(EqualTo(("tag",), "A"), EqualTo(("tag",), "B")))) == []
