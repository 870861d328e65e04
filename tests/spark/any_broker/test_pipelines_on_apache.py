"""Every pipeline against a real Apache 5.5.0, and the move from there to a broker of ours."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import roquet.sync
from roquet.spark.pipelines import sources
from roquet.spark.pipelines.archive import Archive
from roquet.spark.pipelines.audit import Audit
from roquet.spark.pipelines.dead_letters import DeadLetters
from roquet.spark.pipelines.lag import Lag
from roquet.spark.pipelines.replay import Replay
from roquet.spark.pipelines.summary import Live, Summary
from roquet.spark.pipelines.trace import Trace
from tests.spark.shop import Shop, queue, wait_for
from tests.spark.sinks import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.process]

ONE_WINDOW = timedelta(days=3650)
"""A copy is born later than what it was made from; all of them are in one span of time."""


@pytest.fixture(scope="module")
def apache(apache_namesrv: str) -> Iterator[Shop]:
    with Shop(apache_namesrv) as shop:
        yield shop


def run(pipeline: Any, spark: SparkSession) -> Summary:
    found: Summary = pipeline.run(spark, Live(io.StringIO()))
    assert json.loads(found.as_json())["seconds"] > 0 and "skipped:" in found.as_text()
    return found


def bodies(spark: SparkSession, **where: Any) -> Counter[bytes]:
    return Counter(
        bytes(row.body) for row in sources.messages(spark, sources.From(**where), ("body",)).collect()
    )


def sent_to(shop: Shop, topic: str) -> Counter[bytes]:
    return Counter(f"{t} {q} {n}".encode() for t, q, n in shop.sent if t == topic)


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_archive_and_replay(spark: SparkSession, apache: Shop, tmp_path: Path, form: Any) -> None:
    topic = f"pipe-archived-{form}"
    apache.topic(topic, queues=2)
    apache.send(topic, 40, 0, keys=["one"], tag="red")
    to = str(tmp_path / "archive")
    wanted = Archive(
        to=to, topics=(topic,), namesrv=apache.namesrv, format=form, rows_per_batch=25, group=f"g-{form}"
    )
    first = run(wanted, spark)
    assert (first.rows, first.facts["commits"], first.skipped) == (40, 2, {})
    apache.send(topic, 5, 1, keys=["two"])
    assert run(wanted, spark).rows == 5
    assert bodies(spark, archive=to) == sent_to(apache, topic)
    progress = apache.admin.offsets.progress(f"g-{form}", topic)
    assert {each.queue.queue_id: each.consumer_offset for each in progress.queues} == {0: 40, 1: 5}

    copy = f"pipe-copied-{form}"
    apache.topic(copy)
    asked = Replay(
        archive=to, where="array_contains(keys, 'two')", to=copy, namesrv=apache.namesrv, send=True,
        delivery="exactly-once", name=f"copied-{form}",
    )  # fmt: skip
    assert run(asked, spark).rows == 5
    again = run(asked, spark)
    assert (again.rows, again.skipped) == (0, {"sent before under that name": 5})
    wait_for(lambda: apache.bounds(copy)[1] == 5, "the copies are filed")
    assert counted(apache.namesrv, copy) == {"two": 5}


def test_dead_letters(spark: SparkSession, apache: Shop, tmp_path: Path) -> None:
    apache.topic("pipe-bills")
    apache.send("pipe-bills", 3, properties={"error": "Timeout"}, keys=["b"])
    apache.send("pipe-bills", 2)
    group = "pipe-billing"
    with roquet.sync.Consumer(
        apache.namesrv, group=group, subscribe="pipe-bills", start="earliest"
    ) as consumer:
        for number, message in zip(range(5), consumer, strict=False):
            if number < 3:
                message.dead_letter()
            else:
                message.retry(timedelta(seconds=1))
        # Apache files a retry when its delay is over, and what it has filed can be read.
        wait_for(lambda: _held(apache, f"%DLQ%{group}") == 3, "the dead letters are filed")
        wait_for(lambda: _held(apache, f"%RETRY%{group}") >= 2, "the retries are filed")
    asked: dict[str, Any] = {"namesrv": apache.namesrv, "groups": (group,)}
    found = run(DeadLetters(**asked, report=str(tmp_path)), spark)
    (row,) = found.tables["groups"]
    assert (row["group"], row["topic"], row["dead"], row["retries"]) == (group, "pipe-bills", 3, 2)
    assert {(each["error"], each["dead"]) for each in found.tables["errors"]} == {("Timeout", 3), ("", 0)}
    assert (tmp_path / "by-age.png").exists() and "pipe-billing" in (tmp_path / "index.html").read_text()
    sent = run(DeadLetters(**asked, send=True), spark)
    assert sent.facts["sent_again"] == 3
    wait_for(lambda: apache.bounds("pipe-bills")[1] == 8, "the letters are filed again")
    rows = apache.read(subscribe="pipe-bills").to_pylist()[5:]
    assert [(row["keys"], dict(row["properties"])["error"]) for row in rows] == [(["b"], "Timeout")] * 3


def _held(shop: Shop, topic: str) -> int:
    try:
        return int(shop.admin.topics.stats(topic).messages)
    except roquet.client.errors.RoquetError:
        return 0  # the topic comes with its first message


def test_trace(spark: SparkSession, apache: Shop, tmp_path: Path) -> None:
    apache.topic("pipe-traced")
    with roquet.sync.Producer(apache.namesrv, trace=True) as producer:
        for number in range(20):
            producer.send("pipe-traced", b"%d" % number)
    with roquet.sync.Consumer(
        apache.namesrv, group="pipe-reading", subscribe="pipe-traced", start="earliest", trace=True
    ) as consumer:
        for number, message in zip(range(20), consumer, strict=False):
            if number < 19:
                message.ack()
            else:
                message.dead_letter()
    asked = Trace(
        namesrv=apache.namesrv, topics=("pipe-traced",), patience=timedelta(0), report=str(tmp_path)
    )
    found = run(asked, spark)
    (latency,) = found.tables["latency_by_topic"]
    assert (latency["topic"], latency["consumed"]) == ("pipe-traced", 19)
    (consumer_row,) = found.tables["consumers"]
    assert (consumer_row["messages"], consumer_row["failures"]) == (20, 1)
    assert found.tables["lost"] == [] and found.skipped == {}
    assert (tmp_path / "end-to-end-by-topic.png").exists()


def test_lag_and_audit(spark: SparkSession, apache: Shop, tmp_path: Path) -> None:
    apache.topic("pipe-slow", queues=2)
    apache.send("pipe-slow", 10, 0, body=b"x" * 100, keys=["same"])
    apache.send("pipe-slow", 30, 1, body=b"y" * 10)
    apache.admin.groups.create("pipe-slow-group")
    for queue_id, offset in ((0, 8), (1, 5)):
        apache.admin.offsets.commit("pipe-slow-group", queue("pipe-slow", queue_id), offset)
    lag = run(Lag(namesrv=apache.namesrv, groups=("pipe-slow-group",), report=str(tmp_path)), spark)
    (row,) = lag.tables["groups"]
    assert (row["behind"], row["bytes"], row["queues_behind"]) == (27, 2 * 100 + 25 * 10, 2)

    audit = run(Audit(namesrv=apache.namesrv, topics=("pipe-slow",), report=str(tmp_path)), spark)
    (topic,) = audit.tables["topics"]
    assert (topic["messages"], topic["bytes"], topic["keys_that_repeat"]) == (40, 1300, 1)
    assert [each["queue_id"] for each in audit.tables["hot_queues"]] == [1]
    assert (audit.tables["gaps"], audit.rows, audit.size_bytes) == ([], 40, 1300)


def test_a_move_to_a_broker_of_ours(spark: SparkSession, apache: Shop, ours: Shop, tmp_path: Path) -> None:
    apache.topic("pipe-moved", queues=2)
    ours.topic("pipe-moved", queues=3)
    apache.send("pipe-moved", 12, 0, keys=["k1"], tag="red", properties={"colour": "red"})
    apache.send("pipe-moved", 8, 1)
    moving = Replay(source_namesrv=apache.namesrv, topics=("pipe-moved",), namesrv=ours.namesrv, send=True)
    assert run(moving, spark).rows == 20
    asked: dict[str, Any] = {
        "namesrv": apache.namesrv, "against_namesrv": ours.namesrv, "topics": ("pipe-moved",),
        "window": ONE_WINDOW,
    }  # fmt: skip
    same = run(Audit(**asked), spark)
    size_bytes = sum(map(len, sent_to(apache, "pipe-moved").elements()))
    assert same.facts["is_same"] and (same.rows, same.size_bytes) == (40, 2 * size_bytes)

    ours.send("pipe-moved", 1, 2, keys=["late"])
    differs = run(Audit(**asked, report=str(tmp_path)), spark)
    assert not differs.facts["is_same"]
    (example,) = differs.tables["examples"]
    assert (example["here"], example["there"], example["keys"]) == (0, 1, ["late"])
    assert (tmp_path / "index.html").exists()
