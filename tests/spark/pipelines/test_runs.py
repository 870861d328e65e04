"""Pipelines as they run: on a real broker, in the session that all tests share."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import roquet.sync
from roquet.client.core import trace_text
from roquet.spark.options import OptionError
from roquet.spark.pipelines import archive, program, sources
from roquet.spark.pipelines.archive import Archive
from roquet.spark.pipelines.archive_files import ParquetShelf
from roquet.spark.pipelines.audit import Audit
from roquet.spark.pipelines.dead_letters import DeadLetters
from roquet.spark.pipelines.lag import Lag
from roquet.spark.pipelines.replay import Replay
from roquet.spark.pipelines.summary import Live, Refused, Summary
from roquet.spark.pipelines.trace import Trace
from roquet.testing import ThreadedBroker
from tests.spark.shop import Shop, queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.process

NOON_MS = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp() * 1000)
OFFSETS = ("topic", "broker", "queue_id", "queue_offset", "body")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipelines")


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[Shop]:
    broker = ThreadedBroker(folder / "store", {})
    try:
        with Shop(broker.namesrv) as shop:
            shop.broker = broker
            yield shop
    finally:
        broker.close()


def run(pipeline: Any, spark: SparkSession) -> Summary:
    found: Summary = pipeline.run(spark, Live(io.StringIO()))
    json.loads(found.as_json())
    assert found.pipeline in found.as_text()
    return found


def bodies(spark: SparkSession, **where: Any) -> Counter[bytes]:
    frame = sources.messages(spark, sources.From(**where), OFFSETS)
    return Counter(bytes(row.body) for row in frame.collect())


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_an_archive_has_each_message_once(
    spark: SparkSession, shop: Shop, tmp_path: Path, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "COMPACT_SECONDS", 0.0)  # files are joined while batches are committed
    topic, to = f"archived-{form}", str(tmp_path / "archive")
    shop.topic(topic, queues=2)
    shop.send(topic, 40, 0, keys=["k"], tag="t")
    shop.send(topic, 10, 1)
    wanted = Archive(to=to, topics=(topic,), namesrv=shop.namesrv, format=form, rows_per_batch=20)
    first = run(wanted, spark)
    assert (first.rows, first.facts["commits"], first.skipped) == (50, 3, {})

    shop.send(topic, 5, 1)
    second = run(wanted, spark)
    assert (second.rows, second.facts["commits"]) == (5, 1)
    shutil.rmtree(f"{to}/_checkpoint")
    shop.admin.topics.update(topic, queues=3)
    shop.send(topic, 5, 2)  # a queue that the archive does not know
    assert run(wanted, spark).rows == 5

    expected = Counter(f"{t} {q} {n}".encode() for t, q, n in shop.sent if t == topic)
    assert bodies(spark, archive=to) == expected
    assert sum(expected.values()) == 60
    if form == "parquet":
        plain = spark.read.parquet(to)  # any reader that skips names with an underscore
        assert plain.count() == 60
        assert [row.topic for row in plain.select("topic").distinct().collect()] == [topic]


def test_a_batch_that_was_committed_before_the_driver_died_is_not_added_again(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    shop.topic("again")
    shop.send("again", 30)
    to = tmp_path / "archive"
    wanted = Archive(to=str(to), topics=("again",), namesrv=shop.namesrv, compact_below=0)
    run(wanted, spark)
    (to / "_checkpoint" / "commits" / "0").unlink()  # Spark did not note the end of the batch
    (to / "_checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    second = run(wanted, spark)
    assert (second.rows, second.facts["batches_there_already"]) == (0, 1)
    assert sum(bodies(spark, archive=str(to)).values()) == 30


def test_small_files_are_joined(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("small")
    shop.send("small", 50)
    to = str(tmp_path)
    done = run(Archive(to=to, topics=("small",), namesrv=shop.namesrv, rows_per_batch=10), spark)
    (file,) = ParquetShelf(to).live()
    assert (done.facts["files_written"], done.facts["files_joined"], file.rows) == (5, 5, 50)
    assert [path.name for path in tmp_path.glob("topic=small/day=*/*.parquet")] == [file.path.split("/")[-1]]
    assert not list(tmp_path.glob("_staging/*"))
    assert spark.read.parquet(to).count() == 50


def test_a_replay_counts_first_and_then_sends(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    for name in ("source", "copy", "copy-of-one"):
        shop.topic(name, queues=2 if name == "source" else 1)
    shop.send("source", 6, 0, tag="red", keys=["one"], properties={"colour": "red"})
    shop.send("source", 4, 1, tag="blue", keys=["two"])
    to = str(tmp_path / "archive")
    run(Archive(to=to, topics=("source",), namesrv=shop.namesrv), spark)

    asked: dict[str, Any] = {"archive": to, "to": "copy", "namesrv": shop.namesrv}
    dry = run(Replay(**asked), spark)
    assert dry.rows == 0 and dry.facts["is_dry_run"]
    counted = {(row["queue_id"], row["messages"]) for row in dry.tables["chosen"]}
    assert counted == {(0, 6), (1, 4)}
    assert shop.read(subscribe="copy").num_rows == 0

    sent = run(Replay(**asked, where="tag = 'red'", send=True, rate=100_000, keys="new", name="r1"), spark)
    assert (sent.rows, sent.facts["chosen"]) == (6, 6)
    rows = shop.read(subscribe="copy").to_pylist()
    assert {row["body"] for row in rows} == {f"source 0 {number}".encode() for number in range(6)}
    assert {row["keys"][0] for row in rows} == {f"r1-broker-a-0-{number}" for number in range(6)}
    properties = dict(rows[0]["properties"])
    assert (rows[0]["tag"], properties["colour"]) == ("red", "red")
    assert properties["REPLAYED_FROM"].startswith("source/broker-a/0/")

    one = run(Replay(**{**asked, "to": "copy-of-one"}, with_keys=("two",), send=True, in_order=True), spark)
    assert one.rows == 4
    again = shop.read(subscribe="copy-of-one")
    assert again["body"].to_pylist() == [f"source 1 {number}".encode() for number in range(4)]
    assert again["keys"].to_pylist() == [["two"]] * 4


def test_a_replay_that_is_named_sends_exactly_once(spark: SparkSession, shop: Shop) -> None:
    for name in ("paid", "paid-again"):
        shop.topic(name)
    shop.send("paid", 30)
    asked: dict[str, Any] = {"source_namesrv": shop.namesrv, "namesrv": shop.namesrv, "topics": ("paid",)}
    asked |= {"to": "paid-again", "delivery": "exactly-once", "send": True}
    assert run(Replay(**asked, name="once"), spark).rows == 30
    again = run(Replay(**asked, name="once"), spark)
    assert (again.rows, again.size_bytes, again.skipped) == (0, 0, {"sent before under that name": 30})
    sent = Counter(shop.read(subscribe="paid-again")["body"].to_pylist())
    assert sent == Counter(f"paid 0 {number}".encode() for number in range(30))


def test_what_cannot_be_replayed_is_refused_in_words(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="say what to replay"):
        run(Replay(namesrv=shop.namesrv), spark)
    with pytest.raises(OptionError, match="into themselves"):
        run(Replay(source_namesrv=shop.namesrv, namesrv=shop.namesrv, topics=("source",)), spark)
    with pytest.raises(Refused, match="is no archive"):
        run(Replay(archive=str(tmp_path), to="copy"), spark)
    with pytest.raises(OptionError, match="no condition on these columns"):
        run(Replay(source_namesrv=shop.namesrv, topics=("source",), to="copy", where="nothing = 1"), spark)


def test_dead_letters_are_studied_and_sent_again(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("bills")
    shop.send("bills", 3, properties={"error": "Timeout: <no answer>"}, keys=["b1"])
    shop.send("bills", 2)
    with roquet.sync.Consumer(shop.namesrv, group="billing", subscribe="bills", start="earliest") as consumer:
        for _, message in zip(range(5), consumer, strict=False):
            message.dead_letter()

    report = tmp_path / "report"
    asked: dict[str, Any] = {"namesrv": shop.namesrv, "groups": ("billing",)}
    found = run(DeadLetters(**asked, report=str(report)), spark)
    (row,) = [each for each in found.tables["groups"] if each["dead"]]
    assert (row["group"], row["topic"], row["dead"]) == ("billing", "bills", 5)
    errors = {each["error"]: each["dead"] for each in found.tables["errors"]}
    assert errors == {"Timeout: <no answer>": 3, "": 2}
    page = (report / "index.html").read_text()
    assert "Timeout: &lt;no answer&gt;" in page
    assert (report / "by-age.png").read_bytes().startswith(b"\x89PNG")

    before = shop.read(subscribe="bills").num_rows
    sent = run(DeadLetters(**asked, where="error LIKE 'Timeout%'", send=True), spark)
    assert sent.facts["sent_again"] == 3
    rows = shop.read(subscribe="bills").to_pylist()[before:]
    assert [row["keys"] for row in rows] == [["b1"]] * 3
    assert all(dict(row["properties"])["DLQ_ORIGIN_MESSAGE_ID"] for row in rows)
    origins = {dict(row["properties"])["REPLAYED_FROM"].rpartition("/")[0] for row in rows}
    assert origins == {"%DLQ%billing/broker-a/0"}


def traced(number: int, took_ms: int, group: str = "billing") -> str:
    """Return the records of a message that was sent at noon and consumed."""
    sent_ms, key = NOON_MS + number * 1000, f"id{number}"
    return "".join(
        (
            trace_text.sent(sent_ms, "r", "shop", "orders", key, "", (), "h:1", 9, 5, "", "o", True).text,
            trace_text.about_to_consume(sent_ms + 10, "r", group, f"q{number}", key, 0, ()).text,
            trace_text.consumed(
                sent_ms + 10 + took_ms, group, f"q{number}", key, took_ms, "ok", ()
            ).text,
        )
    )  # fmt: skip


def test_traces_tell_latencies_and_what_got_lost(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("traces")
    texts = [traced(number, number) for number in range(1, 101)]
    lost = trace_text.sent(NOON_MS, "r", "shop", "orders", "lost", "", (), "h:1", 9, 5, "", "o", True).text
    unread = trace_text.sent(NOON_MS, "r", "shop", "unread", "u", "", (), "h:1", 9, 5, "", "o", True).text
    stuck = trace_text.sent(NOON_MS, "r", "shop", "orders", "stuck", "", (), "h:1", 9, 5, "", "o", True).text
    stuck += trace_text.about_to_consume(NOON_MS + 10, "r", "billing", "q", "stuck", 0, ()).text
    for text in ("".join(texts[:50]), "".join(texts[50:]), lost + unread + stuck + "Strange\x01x\x02"):
        shop.send("traces", 1, body=text.encode())
    asked: dict[str, Any] = {"namesrv": shop.namesrv, "trace_topic": "traces", "patience": timedelta(0)}
    found = run(Trace(**asked, report=str(tmp_path)), spark)
    (latency,) = found.tables["latency_by_topic"]
    assert (latency["topic"], latency["consumed"], latency["max"]) == ("orders", 100, 110)
    assert (latency["p50"], latency["p99"]) == (60, 109)
    (consumer,) = found.tables["consumers"]
    assert (consumer["group"], consumer["messages"], consumer["working_p99"]) == ("billing", 101, 99)
    assert [(row["topic"], row["group"], row["lost"]) for row in found.tables["lost"]] == [
        ("orders", "billing", 1)
    ]
    assert [row["message_id"] for row in found.tables["lost_examples"]] == ["lost"]
    assert [(row["stuck"], row["without_an_answer"]) for row in found.tables["stuck"]] == [(1, 1)]
    assert found.skipped == {"records that cannot be read": 1}
    assert (tmp_path / "slowest-consumers.png").exists()


def test_lag_in_messages_bytes_and_queues(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("lagging", queues=2)
    shop.send("lagging", 10, 0, body=b"x" * 100)
    shop.send("lagging", 30, 1, body=b"y" * 10)
    shop.admin.groups.create("slow")
    for queue_id, offset in ((0, 8), (1, 5)):
        shop.admin.offsets.commit("slow", queue("lagging", queue_id), offset)
    found = run(Lag(namesrv=shop.namesrv, groups=("slow",), report=str(tmp_path)), spark)
    (row,) = found.tables["groups"]
    assert (row["behind"], row["bytes"], row["queues_behind"]) == (27, 2 * 100 + 25 * 10, 2)
    assert row["oldest_s"] is not None
    assert [(each["queue_id"], each["behind"]) for each in found.tables["hot_queues"]] == [(1, 25), (0, 2)]
    quick = run(Lag(namesrv=shop.namesrv, groups=("slow",), quick=True), spark)
    assert (quick.facts["behind"], quick.rows) == (27, 0)


def test_an_audit_finds_hot_queues_duplicates_and_producers(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    shop.topic("audited", queues=3)
    shop.send("audited", 18, 0, keys=["same"])
    for queue_id in (1, 2):
        shop.send("audited", 1, queue_id, keys=[f"only-{queue_id}"])
    found = run(Audit(namesrv=shop.namesrv, topics=("audited",), report=str(tmp_path)), spark)
    (row,) = found.tables["topics"]
    assert (row["messages"], row["keys_that_repeat"], row["ids_that_repeat"]) == (20, 1, 0)
    assert [(each["queue_id"], each["times_the_mean"]) for each in found.tables["hot_queues"]] == [(0, 2.7)]
    assert [(each["key"], each["messages"]) for each in found.tables["duplicates"]] == [("same", 18)]
    assert [each["host"] for each in found.tables["producers"]] == ["127.0.0.1"]
    assert found.tables["gaps"] == []
    assert (tmp_path / "messages-over-time.png").exists()


def test_a_gap_in_an_archive_is_found(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("gapped")
    shop.send("gapped", 4, tag="a")
    shop.send("gapped", 3, tag="b")
    shop.send("gapped", 2, tag="a")
    to = str(tmp_path)
    done = run(Archive(to=to, topics=("gapped",), namesrv=shop.namesrv, tags="a"), spark)
    assert done.rows == 6
    found = run(Audit(archive=to), spark)
    (gap,) = found.tables["gaps"]
    assert (gap["after_offset"], gap["before_offset"], gap["missing"]) == (3, 7, 3)


def test_two_places_are_compared(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("moved")
    shop.send("moved", 20)
    to = str(tmp_path / "archive")
    run(Archive(to=to, topics=("moved",), namesrv=shop.namesrv), spark)
    asked: dict[str, Any] = {"namesrv": shop.namesrv, "topics": ("moved",), "against_archive": to}
    same = run(Audit(**asked), spark)
    assert same.facts["is_same"] and same.facts["here"] == same.facts["there"] == 20

    shop.send("moved", 1, keys=["late"])
    differs = run(Audit(**asked, report=str(tmp_path / "report")), spark)
    assert not differs.facts["is_same"]
    (example,) = differs.tables["examples"]
    assert (example["here"], example["there"], example["keys"]) == (1, 0, ["late"])
    with pytest.raises(OptionError, match="--digest queue_id"):
        run(Audit(**asked, digest=("queue_id",)), spark)


def test_times_are_kept_to_wherever_messages_come_from(
    spark: SparkSession, shop: Shop, folder: Path, tmp_path: Path
) -> None:
    shop.topic("timed", queues=2)
    shop.send("timed", 3, 0)
    shop.broker.advance(timedelta(minutes=10))
    middle = shop.broker.now()
    shop.broker.advance(timedelta(minutes=10))
    shop.send("timed", 2, 0)
    run(Archive(to=str(tmp_path), topics=("timed",), namesrv=shop.namesrv), spark)
    store = str(next(folder.rglob("commitlog")).parent)
    for where in ({"namesrv": shop.namesrv}, {"store": store}, {"archive": str(tmp_path)}):
        topics = {"topics": ("timed",), **where}
        assert sum(bodies(spark, **topics, since=middle).values()) == 2, where
        assert sum(bodies(spark, **topics, until=middle).values()) == 3, where
        later = shop.broker.now() + timedelta(hours=1)
        assert not bodies(spark, **topics, since=later), where


def test_a_store_is_read_like_a_cluster(spark: SparkSession, shop: Shop, folder: Path) -> None:
    shop.topic("filed")
    shop.send("filed", 7)
    store = next(folder.rglob("commitlog")).parent
    stored = bodies(spark, store=str(store), topics=("filed",))
    assert stored == bodies(spark, namesrv=shop.namesrv, topics=("filed",))
    assert sum(stored.values()) == 7


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"namesrv": "127.0.0.1:1", "topics": ("orders",)}, program.UNREACHABLE, "127.0.0.1:1"),
        ({"topics": ("no-such-topic",)}, program.FAILED, "no-such-topic"),
    ],
)
def test_what_is_not_there_is_told_in_words(
    spark: SparkSession, shop: Shop, tmp_path: Path, given: dict[str, Any], code: int, words: str
) -> None:
    asked = {"to": str(tmp_path), "namesrv": shop.namesrv, **given}
    with pytest.raises(Exception) as caught:
        run(Archive(**asked), spark)
    told = program.explain(caught.value)
    assert told is not None, caught.value
    assert told[1] == code and words in told[0] and "\n" not in told[0], told


def test_a_place_that_cannot_be_an_archive_is_refused(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    shop.topic("placed")
    shop.send("placed", 1, tag="paid")
    asked: dict[str, Any] = {"topics": ("placed",), "namesrv": shop.namesrv}
    (tmp_path / "file").touch()
    for to, words in (
        (str(tmp_path / "file"), "cannot be an archive"),
        ("nowhere://archive", "names no folder"),
    ):
        with pytest.raises(Refused, match=words):
            run(Archive(to=to, **asked), spark)
    to = str(tmp_path / "archive")
    run(Archive(to=to, **asked), spark)
    with pytest.raises(Refused, match="give --format parquet"):
        run(Archive(to=to, **asked, format="delta"), spark)

    (file,) = Path(to).glob("topic=placed/*/*.parquet")
    for spoil, condition, words in (
        (lambda: None, "tag > 5", "CAST_INVALID_INPUT"),
        (lambda: file.write_bytes(b"no parquet"), "", "cannot be read"),
        (file.unlink, "", "cannot be read"),
    ):
        spoil()
        with pytest.raises(Exception) as caught:
            run(Replay(archive=to, to="copy", where=condition), spark)
        told = program.explain(caught.value)
        assert told is not None, caught.value
        assert told[1] == program.FAILED and words in told[0] and "\n" not in told[0], told


def test_an_audit_of_what_is_not_there_is_told_in_words(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    for given, code, words in (
        ({"namesrv": "127.0.0.1:1", "topics": ("orders",)}, program.UNREACHABLE, "127.0.0.1:1"),
        ({"namesrv": shop.namesrv, "topics": ("no-such-topic",)}, program.FAILED, "no-such-topic"),
        ({"store": str(tmp_path)}, program.FAILED, "holds no commit log"),
    ):
        with pytest.raises(Exception) as caught:
            run(Audit(**given), spark)
        told = program.explain(caught.value)
        assert told is not None, caught.value
        assert told[1] == code and words in told[0] and "\n" not in told[0], told
