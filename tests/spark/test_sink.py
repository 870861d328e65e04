"""At least once, on the writers as plain classes against a real broker: every row confirmed, or an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.datasource import WriterCommitMessage

import roquet.sync
from roquet.client.core.choose import Pick, by_key
from roquet.client.errors import NamesUnreachable, RoquetError, SendFailed
from roquet.client.message import Receipt
from roquet.client.producer.bulk import Bulk
from roquet.client.producer.parcel import Parcel
from roquet.model.route import QueueName
from roquet.spark.options import OptionError
from roquet.spark.sink import SINK_OPTIONS, Written, stream_writer_of, writer_of
from roquet.testing import ThreadedBroker
from tests.peers import roquet as peer
from tests.spark.sinks import SCHEMA, Broken, breaking, counted, once, rows, visible

FIELDS = {
    "body": t.BinaryType(),
    "topic": t.StringType(),
    "tag": t.StringType(),
    "keys": t.ArrayType(t.StringType()),
    "properties": t.MapType(t.StringType(), t.StringType()),
    "delay": t.LongType(),
    "ordering_key": t.StringType(),
    "queue_id": t.IntegerType(),
}


def write(namesrv: str, columns: dict[str, pa.Array], **options: str) -> WriterCommitMessage:
    schema = t.StructType([t.StructField(name, FIELDS[name]) for name in columns])
    writer = writer_of({"namesrv": namesrv, **options}, schema, False)
    written = writer.write(iter([pa.record_batch(columns)]))
    writer.commit([written])
    return written


# --- before anything is sent


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "option namesrv"),
        ({"namesrv": "a:1", "topics": "x"}, "did you mean topic?"),
        ({"namesrv": "a:1", "topic": "x", "delivery": "twice"}, "at-least-once"),
        ({"namesrv": "a:1", "topic": "x", "queryId": "q"}, "only with delivery=exactly-once"),
        ({"namesrv": "a:1", "topic": "x", "rocketmq.unitt": "q"}, "did you mean rocketmq.unit?"),
        ({"namesrv": "a:1", "topic": "x", "delivery": "exactly-once", "delay": "1s"}, "do not go with"),
        ({"namesrv": "a:1", "topic": "x", "delivery": "exactly-once", "queryId": "a b"}, "wants name"),
        ({"namesrv": "a:1", "topic": "x", "delivery": "exactly-once", "transactionTimeout": "0s"}, "1 to"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        writer_of(options, SCHEMA, False)
    assert words in str(caught.value)


def test_a_topic_is_not_overwritten() -> None:
    for make in (writer_of, stream_writer_of):
        with pytest.raises(OptionError, match='cannot be overwritten: use mode\\("append"\\)'):
            make({"namesrv": "a:1", "topic": "x"}, SCHEMA, True)


def test_a_stream_names_itself() -> None:
    options = {"namesrv": "a:1", "topic": "x", "delivery": "exactly-once", "checkpointLocation": "c"}
    stream_writer_of(options, SCHEMA, False)
    with pytest.raises(OptionError, match="queryId is for batch writes"):
        stream_writer_of({**options, "queryId": "q"}, SCHEMA, False)


def test_every_option_is_in_the_documentation_table() -> None:
    table = SINK_OPTIONS.markdown()
    assert all(f"`{option.name}`" in table for option in SINK_OPTIONS.options)


def test_a_name_server_that_is_not_there_is_an_error_in_words() -> None:
    writer = writer_of(
        {"namesrv": "127.0.0.1:1", "topic": "x", "timeout": "1s", "retries": "0"}, SCHEMA, False
    )
    with pytest.raises(NamesUnreachable, match="127.0.0.1:1"):
        writer.write(rows(0, 1))


# --- in memory of this process


def test_all_columns_arrive(roquet_broker: ThreadedBroker) -> None:
    written = write(
        roquet_broker.namesrv,
        {
            "body": pa.array([b"one", b"two"]),
            "topic": pa.array(["orders", "payments"]),
            "tag": pa.array(["created", None]),
            "keys": pa.array([["1", "2"], None]),
            "properties": pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())),
        },
    )
    assert isinstance(written, Written)
    assert (written.rows, written.size_bytes) == (2, 6)
    names = ("body", "tag", "keys", "properties")
    [[body, tag, keys, properties]] = visible(roquet_broker.namesrv, "orders", names)
    assert (body, tag, keys) == (b"one", "created", ["1", "2"])
    assert dict(properties)["a"] == "b"  # type: ignore[call-overload]
    assert [row[:3] for row in visible(roquet_broker.namesrv, "payments", names)] == [(b"two", "", [])]


def test_equal_ordering_keys_keep_their_order_in_their_queue(roquet_broker: ThreadedBroker) -> None:
    count = 6_000
    keys = [f"customer-{number % 7}" for number in range(count)]
    bodies = [b"%d" % number for number in range(count)]
    write(
        roquet_broker.namesrv,
        {"body": pa.array(bodies), "ordering_key": pa.array(keys)},
        topic="orders",
        sendBatchBytes="4096",
    )
    found = visible(roquet_broker.namesrv, "orders", ("queue_id", "body"))
    by_queue: dict[Any, list[int]] = {}
    for queue_id, body in found:
        by_queue.setdefault(queue_id, []).append(int(body))  # type: ignore[call-overload]
    assert sum(map(len, by_queue.values())) == count
    assert all(numbers == sorted(numbers) for numbers in by_queue.values())
    with roquet.sync.Cluster(roquet_broker.namesrv) as cluster:
        queues = cluster.route("orders").write_queues()
    for number in range(7):
        queue = by_key(queues, f"customer-{number}")
        assert number in by_queue[queue.queue_id]


def test_what_goes_to_one_queue_by_key_goes_there_one_request_after_another(
    roquet_broker: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is tried again must not come behind its successor."""
    under_way: Counter[QueueName] = Counter()
    most: Counter[QueueName] = Counter()
    whole = Bulk.post

    async def watched(self: Bulk, parcel: Parcel, pick: Pick | None = None) -> Receipt:
        assert pick is not None
        queue = pick(())
        under_way[queue] += 1
        most[queue] = max(most[queue], under_way[queue])
        try:
            return await whole(self, parcel, pick)
        finally:
            under_way[queue] -= 1

    monkeypatch.setattr(Bulk, "post", watched)
    columns = {"body": pa.array([b"x" * 100] * 3_000), "ordering_key": pa.array(["a", "b", "c"] * 1_000)}
    write(roquet_broker.namesrv, columns, topic="one-by-one", sendBatchBytes="4096")
    assert set(most.values()) == {1}


def test_a_queue_can_be_named_and_must_exist(roquet_broker: ThreadedBroker) -> None:
    body = pa.array([b"a", b"b", b"c"])
    write(roquet_broker.namesrv, {"body": body, "queue_id": pa.array([1, 2, 1], pa.int32())}, topic="q")
    assert Counter(visible(roquet_broker.namesrv, "q", ("queue_id",))) == {(1,): 2, (2,): 1}
    with pytest.raises(OptionError, match="topic q has no queue 77 to write to: it has 0 to"):
        write(roquet_broker.namesrv, {"body": body}, topic="q", queueId="77")


def test_rows_for_later_come_later(roquet_broker: ThreadedBroker) -> None:
    columns = {"body": pa.array([b"now", b"later"]), "delay": pa.array([None, 3_600_000])}
    write(roquet_broker.namesrv, columns, topic="timed")
    assert visible(roquet_broker.namesrv, "timed", ("body",)) == [(b"now",)]
    roquet_broker.advance(timedelta(hours=2))
    assert sorted(visible(roquet_broker.namesrv, "timed", ("body",))) == [(b"later",), (b"now",)]


def test_a_body_that_no_broker_takes_fails_the_task(roquet_broker: ThreadedBroker) -> None:
    with pytest.raises(RoquetError, match="a body is empty"):
        write(roquet_broker.namesrv, {"body": pa.array([b"a", b""])}, topic="bodies")


# --- a broker of its own


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peer.RoquetNode]:
    node = peer.start_up(tmp_path_factory.mktemp("sink") / "store")
    yield node
    node.kill()


@pytest.mark.process
def test_many_rows_each_once_when_nothing_fails(node: peer.RoquetNode) -> None:
    writer = writer_of({"namesrv": node.namesrv, "topic": "many", "sendBatchBytes": "65536"}, SCHEMA, False)
    written = [writer.write(rows(first, 25_000, 10_000)) for first in (0, 25_000)]
    writer.commit(list(written))
    assert counted(node.namesrv, "many") == once(0, 50_000)
    assert len(set(visible(node.namesrv, "many", ("queue_id",)))) == 4, "batches go round the queues"


@pytest.mark.process
def test_a_task_that_fails_may_repeat_rows_but_loses_none(node: peer.RoquetNode) -> None:
    writer = stream_writer_of({"namesrv": node.namesrv, "topic": "repeated"}, SCHEMA, False)
    with pytest.raises(Broken):
        writer.write(breaking(rows(0, 10_000), 5))
    writer.abort([None], 0)
    writer.commit([writer.write(rows(0, 10_000))], 0)
    found = counted(node.namesrv, "repeated")
    assert set(found) == set(once(0, 10_000))
    assert max(found.values()) <= 2


@pytest.mark.process
def test_a_broker_that_comes_back_slows_the_task_and_one_that_does_not_ends_it(tmp_path: Path) -> None:
    first = peer.start_up(tmp_path / "store")
    options = {"namesrv": first.namesrv, "topic": "slow", "timeout": "30s"}
    writer = writer_of(options, SCHEMA, False)
    second: peer.RoquetNode | None = None

    def with_a_crash() -> Iterator[pa.RecordBatch]:
        nonlocal second
        for number, batch in enumerate(rows(0, 20_000, 2_000)):
            if number == 5:
                first.kill()
                names, broker = (int(each.rpartition(":")[2]) for each in (first.namesrv, first.broker))
                second = peer.start_up(tmp_path / "store", names, broker)
            yield batch

    try:
        writer.write(with_a_crash())
        assert set(counted(first.namesrv, "slow")) == set(once(0, 20_000))
        assert second is not None
        second.kill()
        impatient = writer_of({**options, "timeout": "2s", "retries": "1"}, SCHEMA, False)
        with pytest.raises((SendFailed, NamesUnreachable)):
            impatient.write(rows(0, 1_000))
    finally:
        first.kill()
        if second is not None:
            second.kill()
