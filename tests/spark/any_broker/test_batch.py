"""The batch reader as a plain class: the same on a broker of ours in this process and on Apache's."""

from __future__ import annotations

import json
import logging
import pickle
import socket
from datetime import timedelta

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, InputPartition, IsNotNull, LessThan
from pyspark.sql.types import LongType, StringType, StructField, StructType

from roquet.client.errors import BadExpression, NamesUnreachable, NoRoute
from roquet.spark.access import DataLost
from roquet.spark.batch import PushingReader, RoquetReader
from roquet.spark.options import OptionError
from roquet.spark.plan import Range
from roquet.spark.source import RoquetSource, _columns, how_of
from roquet.spark.source_options import read_options
from tests.spark.shop import BROKER, Shop, places, queue, table, wait_for


def per_queue(topic: str, **offsets: int) -> str:
    """Return offsets by queue as options take them: `per_queue("orders", q0=5)`."""
    return json.dumps({topic: {BROKER: {name[1:]: offset for name, offset in offsets.items()}}})


def test_every_column_arrives(shop: Shop) -> None:
    before = shop.later() - timedelta(milliseconds=1)
    orders = shop.fresh("orders", 2)
    shop.send(orders, 1, 1, body=b"hello", tag="A", keys=("k1", "k2"), properties={"colour": "red"})
    row = shop.read(subscribe=orders).to_pylist()[0]
    assert (row["topic"], row["broker"], row["queue_id"], row["queue_offset"]) == (orders, BROKER, 1, 0)
    assert (row["body"], row["tag"], row["keys"]) == (b"hello", "A", ["k1", "k2"])
    assert dict(row["properties"])["colour"] == "red"
    assert row["message_id"] == dict(row["properties"])["UNIQ_KEY"]
    assert before <= row["store_time"] <= shop.later()
    assert row["born_host"].startswith("127.0.0.1:")
    (where,) = {place.address for place in shop.admin.cluster.list() if place.name == BROKER}
    assert row["store_host"] == where
    assert (row["reconsume_times"], row["flag"], row["sys_flag"] & 1) == (0, 0, 0)


def test_compressed_bodies_are_opened(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 1, body=b"long " * 5000)
    row = shop.read(("body", "sys_flag"), subscribe=orders).to_pylist()[0]
    assert row["body"] == b"long " * 5000
    assert row["sys_flag"] & 1


def test_several_topics_and_queues_once_each_in_order(shop: Shop) -> None:
    orders, payments, others = shop.fresh("orders", 3), shop.fresh("payments", 2), shop.fresh("others")
    for topic, queue_id, count in ((orders, 0, 7), (orders, 2, 40), (payments, 1, 5), (others, 0, 3)):
        shop.send(topic, count, queue_id)
    wanted = sorted(place for place in shop.sent if place[0] != others)
    both = f"{orders},{payments}"
    assert places(shop.read(subscribe=both)) == wanted
    assert places(shop.read(subscribe=both, minPartitions="9", pullMessages="4")) == wanted
    assert places(shop.read(subscribe=both, pullPipeline="1", pullBytes="1024", arrowBatchRows="3")) == wanted
    assert sorted(places(shop.read(subscribePattern=f"({orders}|{payments[:-1]}.*)"))) == wanted
    assigned = places(shop.read(assign=json.dumps({orders: {BROKER: [2]}})))
    assert assigned == [place for place in shop.sent if place[:2] == (orders, 2)]
    with pytest.raises(OptionError, match=f"queue 7 of topic {orders} at broker-a does not exist"):
        shop.read(assign=json.dumps({orders: {BROKER: [7]}}))


def test_a_pattern_means_no_topics_of_the_servers(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 1)
    reader = shop.batch(subscribePattern=".*")
    topics = {each.queue.topic for part in reader.partitions() for each in part.value}
    assert orders in topics
    assert shop.read(subscribePattern=f"{orders}-and-no-other").num_rows == 0
    assert not [topic for topic in topics if topic.isupper() or topic.startswith(("%", "rmq_sys"))]


def test_partitions(shop: Shop) -> None:
    orders = shop.fresh("orders", 2)
    shop.send(orders, 10, 0)
    shop.send(orders, 30, 1)
    one = shop.batch(subscribe=orders).partitions()
    assert [part.value for part in one] == [(Range(queue(orders), 0, 10), Range(queue(orders, 1), 0, 30))]
    four = shop.batch(subscribe=orders, minPartitions="4", maxPartitions="6").partitions()
    assert [sum(each.rows for each in part.value) for part in four] == [10] * 4
    most = shop.batch(subscribe=orders, maxRecordsPerPartition="15", maxPartitions="1")
    assert len(most.partitions()) == 3, "what a partition holds at most goes before their number"
    assert places(table(most)) == shop.sent
    pickle.loads(pickle.dumps((four, shop.batch(subscribe=orders))))


def test_columns_that_are_not_asked_for(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 3, tag="A")
    bare = read_options(shop.options(subscribe=orders, includeProperties="false"), "batch")
    assert "properties" not in _columns(bare)
    rows = table(RoquetReader(bare, how_of(bare, _columns(bare))))
    assert rows["tag"].to_pylist() == ["A"] * 3


def test_values_and_bodies_that_do_not_decode(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 1, body=b'{"id": 5}')
    shop.send(orders, 1, body=b"no json")
    names = [StructField("queue_offset", LongType())]
    value = StructField("value", StructType([StructField("id", LongType())]))
    given = shop.options(subscribe=orders, format="json", valueSchema="id bigint", badValues="column")
    told = [*names, value, StructField("value_error", StringType())]
    first, second = table(RoquetSource(given).reader(StructType(told))).to_pylist()
    assert first == {"queue_offset": 0, "value": {"id": 5}, "value_error": None}
    assert second["value"] is None
    assert second["value_error"]
    strict = RoquetSource(given | {"badValues": "error"}).reader(StructType([*names, value]))
    with pytest.raises(ValueError, match="a body is no json of the schema"):
        table(strict)
    with pytest.raises(OptionError, match="column queue_offset is bigint, not string"):
        RoquetSource(given).reader(StructType([StructField("queue_offset", StringType())]))


def test_a_namespace_is_not_in_the_topic(shop: Shop) -> None:
    orders = shop.fresh("shop%orders")
    shop.send(orders, 2)
    inner = orders.removeprefix("shop%")
    rows = shop.read(("topic", "queue_offset"), subscribe=inner, namespace="shop")
    assert rows.to_pylist() == [{"topic": inner, "queue_offset": number} for number in range(2)]


def test_offsets(shop: Shop) -> None:
    orders = shop.fresh("orders", 2)
    shop.send(orders, 10, 0)
    shop.send(orders, 10, 1)
    starts, ends = per_queue(orders, q0=4, q1=-1), per_queue(orders, q0=6)
    rows = places(shop.read(subscribe=orders, startingOffsets=starts, endingOffsets=ends))
    assert rows == [(orders, 0, 4), (orders, 0, 5)]
    early = shop.read(subscribe=orders, startingOffsets="earliest", endingOffsets=per_queue(orders, q0=-1))
    assert places(early) == shop.sent
    with pytest.raises(OptionError, match="ends at 10, and 11 lies behind it"):
        shop.read(subscribe=orders, startingOffsets=per_queue(orders, q0=11))
    with pytest.raises(OptionError, match=f"queue 7 of topic {orders} at broker-a is not among"):
        shop.read(subscribe=orders, startingOffsets=per_queue(orders, q7=1))


def test_the_offsets_of_a_group(shop: Shop) -> None:
    orders = shop.fresh("orders", 2)
    shop.send(orders, 10)
    group = f"readers-{orders}"
    stream = shop.stream(subscribe=orders, group=group)
    stream.commit({"version": 1, "topics": {orders: {BROKER: {"0": 7}}}})
    stream.stop()
    shop.send(orders, 2, 1)
    begun = {"startingOffsets": "group", "group": group}
    wait_for(lambda: len(places(shop.read(subscribe=orders, **begun))) == 5, "the group's offsets are there")
    ended = shop.read(subscribe=orders, endingOffsets="group", group=group)
    assert places(ended) == [(orders, 0, number) for number in range(7)], "the other queue has no offset yet"


def test_times(shop: Shop) -> None:
    orders = shop.fresh("orders", 2)
    shop.send(orders, 3, 0)
    middle = shop.later()
    shop.send(orders, 2, 0)
    end = shop.later()
    shop.send(orders, 1, 0)
    given = {"startingTimestamp": middle.isoformat()}
    late = places(shop.read(subscribe=orders, **given))
    assert late == [(orders, 0, 3), (orders, 0, 4), (orders, 0, 5)]
    number = str(int(middle.timestamp() * 1000))
    assert places(shop.read(subscribe=orders, startingTimestamp=number)) == late
    between = shop.read(subscribe=orders, **given, endingTimestamp=end.isoformat())
    assert places(between) == [(orders, 0, 3), (orders, 0, 4)]
    never = (end + timedelta(days=1)).isoformat()
    assert len(places(shop.read(subscribe=orders, endingTimestamp=never))) == 6
    with pytest.raises(OptionError, match=f"topic {orders} has no message of .* or later"):
        shop.read(subscribe=orders, startingTimestamp=never)
    strategy = {"startingTimestamp": never, "startingTimestampStrategy": "latest"}
    assert places(shop.read(subscribe=orders, **strategy)) == []


def test_messages_of_the_same_time_stay_together(shop: Shop) -> None:
    orders = shop.fresh("orders")
    for _ in range(3):
        shop.later()
        shop.fill(orders, 7)
    wait_for(lambda: shop.bounds(orders) == (0, 21), "all are filed")
    rows = shop.read(("queue_offset", "store_time"), subscribe=orders).to_pylist()
    for when in {row["store_time"] for row in rows}:
        later = shop.read(("queue_offset",), subscribe=orders, startingTimestamp=when.isoformat())
        offsets = [row["queue_offset"] for row in rows if row["store_time"] >= when]
        assert later["queue_offset"].to_pylist() == offsets
        earlier = shop.read(("queue_offset",), subscribe=orders, endingTimestamp=when.isoformat())
        assert earlier.num_rows == 21 - len(offsets)


def test_tags_are_compared_as_texts(shop: Shop) -> None:
    """`Aa` and `BB` have the same hash, which is all that a broker compares."""
    orders = shop.fresh("orders")
    for number in range(30):
        shop.send(orders, 1, tag=("Aa", "BB", "C")[number % 3])
    rows = shop.read(("queue_offset",), subscribe=orders, tags="Aa || C", pullMessages="5")
    assert rows["queue_offset"].to_pylist() == [number for number in range(30) if number % 3 != 1]
    assert shop.read(subscribe=orders, tags="none").num_rows == 0


def test_sql_filters_at_the_broker(shop: Shop) -> None:
    orders = shop.fresh("orders")
    for number in range(40):
        shop.send(orders, 1, properties={"amount": str(number)})
    ends = per_queue(orders, q0=38)
    rows = shop.read(subscribe=orders, sql="amount > 30", endingOffsets=ends, pullMessages="3")
    assert rows["queue_offset"].to_pylist() == list(range(31, 38))
    with pytest.raises(BadExpression, match="column [89]"):
        shop.read(subscribe=orders, sql="amount >")


def test_what_is_deleted_is_reported(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 5)
    reader = shop.batch(subscribe=orders)
    kept = shop.batch(subscribe=orders, failOnDataLoss="false")
    part, kept_part = reader.partitions()[0], kept.partitions()[0]
    shop.admin.topics.delete(orders)
    shop.topic(orders)
    shop.sent.clear()
    shop.send(orders, 2)
    with pytest.raises(
        DataLost, match=f"queue 0 of topic {orders} at broker-a ends at 2.*failOnDataLoss=fal"
    ):
        list(reader.read(part))
    with caplog.at_level(logging.WARNING, "roquet.spark"):
        assert sum(batch.num_rows for batch in kept.read(kept_part)) == 2
    assert "ends at 2" in caplog.text


def test_trouble_is_told_in_words(shop: Shop) -> None:
    with pytest.raises(NoRoute, match="nothing"):
        shop.read(subscribe="nothing")
    options = read_options(
        {"namesrv": "127.0.0.1:1", "subscribe": "orders", "timeout": "200ms", "retries": "1"}, "batch"
    )
    with pytest.raises(NamesUnreachable, match="127.0.0.1:1"):
        RoquetReader(options, how_of(options, ("body",))).partitions()


def test_a_name_server_that_does_not_answer_is_told_of_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for way in ({"subscribe": "orders"}, {"subscribePattern": "o.*"}, {"assign": '{"t": {"b": [0]}}'}):
            given = {"namesrv": address, "timeout": "100ms", "retries": "1", "retryInterval": "1ms", **way}
            options = read_options(given, "batch")
            with pytest.raises(NamesUnreachable, match=f"no name server answers: {address}.* within 0"):
                RoquetReader(options, how_of(options, ("body",))).partitions()


def test_settings_of_the_client_pass_through(shop: Shop) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 3)
    passed = {"rocketmq.unit": "", "rocketmq.instance": "spark", "rocketmq.encoding": "json"}
    assert places(shop.read(subscribe=orders, retries="0", **passed)) == shop.sent


def test_an_empty_topic_has_no_rows(shop: Shop) -> None:
    reader = shop.batch(subscribe=shop.fresh("orders", 3))
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == [], "what Spark makes of an empty plan"


def test_conditions_become_ranges_and_filters(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    orders, payments = shop.fresh("orders", 2), shop.fresh("payments")
    shop.send(payments, 5)
    shop.send(orders, 10, 0, tag="A")
    since = shop.later()
    shop.send(orders, 10, 0, tag="B")
    shop.send(orders, 5, 1, tag="B")

    def pushed(*filters: object) -> PushingReader:
        options = read_options(shop.options(subscribe=f"{orders},{payments}"), "batch")
        reader = PushingReader(options, how_of(options, ("topic", "queue_id", "queue_offset")))
        with caplog.at_level(logging.INFO, "roquet.spark"):
            assert list(reader.pushFilters(list(filters))) == []  # type: ignore[arg-type]
        return reader

    reader = pushed(IsNotNull(("topic",)), EqualTo(("topic",), orders), In(("queue_id",), (0,)))
    assert [part.value for part in reader.partitions()] == [(Range(queue(orders), 0, 20),)]
    assert "pushed down" in caplog.text
    reader = pushed(GreaterThanOrEqual(("store_time",), since), LessThan(("queue_offset",), 12))
    if shop.is_ours:  # its times lie so far apart that whole ranges are out of the question
        assert [part.value for part in reader.partitions()] == [
            (Range(queue(orders), 10, 12), Range(queue(orders, 1), 0, 5))
        ]
    assert places(table(reader)) == [
        (orders, 0, 10),
        (orders, 0, 11),
        *((orders, 1, n) for n in range(5)),
    ]
    assert len(places(table(pushed(EqualTo(("tag",), "A"))))) == 10
    assert len(places(table(pushed(EqualTo(("tag",), ""))))) == 5
    assert places(table(pushed(EqualTo(("tag",), "A"), EqualTo(("tag",), "B")))) == []
