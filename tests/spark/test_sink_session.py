"""The sink in a real Spark session: a few tests of what only Spark can show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

from tests.peers import roquet as peer
from tests.spark.sinks import counted, once, visible

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peer.RoquetNode]:
    node = peer.start_up(tmp_path_factory.mktemp("session") / "store")
    yield node
    node.kill()


def table(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end, numPartitions=3).selectExpr("concat('row ', id) body", "string(id) keys")


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_table_is_written(spark: SparkSession, node: peer.RoquetNode, delivery: str) -> None:
    topic = f"table-{delivery}"
    writer = table(spark, 0, 5_000).write.format("roquet").option("namesrv", node.namesrv)
    writer.option("topic", topic).option("delivery", delivery).mode("append").save()
    assert counted(node.namesrv, topic) == once(0, 5_000)


def test_all_columns_of_spark(spark: SparkSession, node: peer.RoquetNode) -> None:
    frame = spark.sql(
        "SELECT binary('b') body, 'typed' topic, 'tag' tag, array('k1', 'k2') keys, "
        "map('a', 'b') properties, INTERVAL '0' SECOND delay, 2 queue_id"
    )
    frame.write.format("roquet").option("namesrv", node.namesrv).mode("append").save()
    [found] = visible(node.namesrv, "typed", ("body", "tag", "keys", "queue_id", "properties"))
    assert found[:4] == (b"b", "tag", ["k1", "k2"], 2)
    assert dict(found[4])["a"] == "b"  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("column", "mode", "words"),
    [
        ("bodi", "append", "no column bodi: did you mean body?"),
        ("body", "overwrite", "cannot be overwritten"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(
    spark: SparkSession, node: peer.RoquetNode, column: str, mode: str, words: str
) -> None:
    frame = spark.range(3).selectExpr(f"string(id) AS {column}")
    writer = frame.write.format("roquet").option("namesrv", node.namesrv).option("topic", "wrong")
    with pytest.raises(PySparkException, match=words.replace("?", "\\?")):
        writer.mode(mode).save()
    assert counted(node.namesrv, "wrong") == {}


class Stream:
    """Files of numbers ─▶ a topic, as far as there are files."""

    def __init__(self, spark: SparkSession, node: peer.RoquetNode, folder: Path, topic: str) -> None:
        self._spark, self._node, self._folder, self.topic = spark, node, folder, topic
        (folder / "in").mkdir()

    def add(self, name: str, first: int, end: int) -> None:
        (self._folder / "in" / name).write_text("\n".join(map(str, range(first, end))))

    def run(self, delivery: str, fault: Path | None = None) -> None:
        lines = self._spark.readStream.text(str(self._folder / "in"), wholetext=False)
        path = None if fault is None else str(fault)

        @udf("string")
        def checked(text: str) -> str:
            if path is not None and text.endswith("7") and not Path(path).exists():
                Path(path).touch()
                raise ValueError("a task fails")
            return text

        rows = lines.select(checked(col("value")).alias("body"), col("value").alias("keys"))
        query = (
            rows.writeStream.format("roquet")
            .option("namesrv", self._node.namesrv)
            .option("topic", self.topic)
            .option("delivery", delivery)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(120)
            assert not query.isActive
        finally:
            query.stop()


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, node: peer.RoquetNode, tmp_path: Path
) -> None:
    stream = Stream(spark, node, tmp_path, "stream-plain")
    stream.add("a", 0, 500)
    stream.run("at-least-once")
    stream.add("b", 500, 900)
    stream.run("at-least-once")
    assert counted(node.namesrv, stream.topic) == once(0, 900)


def test_a_failed_task_and_a_restart_have_each_row_once(
    spark: SparkSession, node: peer.RoquetNode, tmp_path: Path
) -> None:
    stream = Stream(spark, node, tmp_path, "stream-once")
    stream.add("a", 0, 500)
    stream.run("exactly-once")
    stream.add("b", 500, 3_000)
    with pytest.raises(PySparkException, match="a task fails"):
        stream.run("exactly-once", tmp_path / "failed")
    assert counted(node.namesrv, stream.topic) == once(0, 500)
    stream.run("exactly-once")
    assert counted(node.namesrv, stream.topic) == once(0, 3_000)
