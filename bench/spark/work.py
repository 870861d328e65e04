"""`python -m bench.spark.work TASK`: one Spark session at local[2] that measures everything, line by line.

    {"bench": "batch.roquet", "value": 512034.0}        rows a second, or ms a micro-batch
    {"bench": "sink.exactly_once", "why": "…"}          what could not be measured, and the reason
    {"bench": "done"}

Every work is done once before it counts: workers start, code is compiled. Then the median of some runs is
told. The ceilings (see `ceilings`) are measured in the same session, right before what is held against them.
"""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

import roquet
import roquet.spark
from bench.spark.ceilings import DiscardSink, PrebuiltSource
from roquet import store_reader
from roquet.arrow import COLUMNS, read_batch
from roquet.spark.schema import ddl
from roquet.store.format.columns import EVERY

CORES = 2
BATCH_ROWS = 10_000
PULL = 32
"""Messages of one pull of the plain loop: what Apache's brokers give at most."""
LOOP_SECONDS = 5.0
CHUNK_BYTES = 1 << 20
LEAN = tuple(name for name in COLUMNS if name != "properties")
TINY_BATCHES = 20
BODY = "cast(rpad(cast(id AS string), 128, 'x') AS binary) AS body"
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


class Task(NamedTuple):
    """What there is to read and where to write; travels as JSON."""

    roquet: str
    """Name server of our broker."""
    apache: str
    store: str
    """Folder of our broker's store."""
    folder: str
    topic: str
    sink_topic: str
    few: str
    many: str
    """Topics with few messages in 2 and in 64 queues."""
    tiny_rows: int
    rows: int
    staged_rows: int
    repeats: int

    def to_json(self) -> str:
        return json.dumps(self._asdict())


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    spark = _session(task)
    work = Work(task, spark)
    for name, measure in work.measures():
        try:
            value = measure()
        except Exception as error:  # told to the reader of the table, who then gets the other lines
            print(json.dumps({"bench": name, "why": " ".join(str(error).split())[:300]}), flush=True)
        else:
            print(json.dumps({"bench": name, "value": value}), flush=True)
    print(json.dumps({"bench": "done"}), flush=True)
    spark.stop()


def _session(task: Task) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.warehouse.dir": f"{task.folder}/warehouse",
        "spark.local.dir": f"{task.folder}/local",
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    roquet.spark.register(spark)
    spark.dataSource.register(PrebuiltSource)
    spark.dataSource.register(DiscardSink)
    return spark


class Work:
    """Everything that is measured, in order."""

    def __init__(self, task: Task, spark: SparkSession) -> None:
        self._task = task
        self._spark = spark
        self._ready = f"{task.folder}/ready.arrow"
        self._stored_rows = 0

    def measures(self) -> Iterator[tuple[str, Callable[[], float]]]:
        task = self._task
        yield "reader", self._reader
        yield "ceiling.bytes", self._bytes
        yield "ceiling.all", lambda: self._table(lambda: self._prebuilt(COLUMNS))
        yield "batch.roquet", lambda: self._table(lambda: self._topic(task.roquet))
        yield "store.all", lambda: self._table(lambda: self._files(COLUMNS))
        yield "ceiling.lean", lambda: self._table(lambda: self._prebuilt(LEAN))
        yield "store.lean", lambda: self._table(lambda: self._files(LEAN))
        yield "apache.loop", lambda: asyncio.run(_plain_loop(task.apache, task.topic))
        yield "batch.apache", lambda: self._table(lambda: self._topic(task.apache))
        yield "ceiling.stream", lambda: self._stream(self._prebuilt_stream)
        yield "stream", lambda: self._stream(lambda: self._topic_stream(task.topic))
        yield "ceiling.sink", lambda: self._written(task.rows, "discard", {})
        yield "sink.at_least_once", lambda: self._sent(task.rows, "at-least-once")
        yield "sink.exactly_once", lambda: self._sent(task.staged_rows, "exactly-once")
        yield "ceiling.micro", lambda: self._micro(lambda step: self._prebuilt_stream(task.tiny_rows, step))
        yield "micro.few", lambda: self._micro(lambda step: self._topic_stream(task.few, step))
        yield "micro.many", lambda: self._micro(lambda step: self._topic_stream(task.many, step))

    # --- without Spark

    def _reader(self) -> float:
        """Read our store's files as Arrow on one core, and keep a batch for the ceilings."""
        import pyarrow as pa

        task = self._task
        batch = next(store_reader.read(task.store, topics=(task.topic,)))
        with pa.OSFile(self._ready, "wb") as file, pa.ipc.new_file(file, batch.schema) as ready:
            ready.write_batch(batch)

        def once() -> int:
            return sum(batch.num_rows for batch in store_reader.read(task.store, topics=(task.topic,)))

        self._stored_rows = once()
        assert self._stored_rows >= task.rows
        return self._median(once)

    def _bytes(self) -> float:
        """Copy the bytes of the same records out of the page cache."""
        end = max(part.end for part in store_reader.plan(self._task.store))
        buffer = bytearray(CHUNK_BYTES)

        def once() -> int:
            left = end
            for path in sorted((Path(self._task.store) / "commitlog").iterdir()):
                with path.open("rb", buffering=0) as file:
                    while left > 0 and (got := file.readinto(buffer)):
                        left -= got
            return self._stored_rows

        return self._median(once)

    # --- tables

    def _topic(self, namesrv: str) -> DataFrame:
        return self._spark.read.format("roquet").options(**self._given(namesrv, self._task.topic)).load()

    def _files(self, names: tuple[str, ...]) -> DataFrame:
        reader = self._spark.read.format("roquet-store").schema(ddl(names))
        return reader.option("topics", self._task.topic).load(self._task.store)

    def _prebuilt(self, names: tuple[str, ...]) -> DataFrame:
        given = {"path": self._ready, "rows": str(self._task.rows), "ddl": ddl(names)}
        return self._spark.read.format("prebuilt").options(**given).load()

    def _given(self, namesrv: str, topic: str) -> dict[str, str]:
        return {
            "namesrv": namesrv,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxPartitions": str(CORES),
        }

    def _table(self, make: Callable[[], DataFrame]) -> float:
        """Read a table to its end; every run makes it anew, since Spark keeps the plan of a table."""
        rows = make().count()
        assert rows >= self._task.rows, f"{rows} rows of {self._task.rows}"

        def once() -> int:
            make().write.format("noop").mode("overwrite").save()
            return rows

        once()
        return self._median(once)

    # --- streams

    def _topic_stream(self, topic: str, step: int = 0) -> DataFrame:
        given = self._given(self._task.roquet, topic)
        if step:
            given["maxOffsetsPerTrigger"] = str(step)
        return self._spark.readStream.format("roquet").options(**given).load()

    def _prebuilt_stream(self, rows: int = 0, step: int = 0) -> DataFrame:
        given = {"path": self._ready, "rows": str(rows or self._task.rows), "ddl": ddl(COLUMNS)}
        given["rowsPerTrigger"] = str(step)
        return self._spark.readStream.format("prebuilt").options(**given).load()

    def _stream(self, make: Callable[[], DataFrame]) -> float:
        """Return the rows a second of a stream into Parquet files, over the time of its micro-batches."""
        rates: list[float] = []
        for _ in range(1 + self._task.repeats):
            batches = self._drained(make(), "parquet")
            rows = sum(batch["numInputRows"] for batch in batches)
            assert rows >= self._task.rows, f"{rows} rows of {self._task.rows}"
            rates.append(rows / sum(batch["durationMs"]["triggerExecution"] for batch in batches) * 1000)
        return median(rates[1:])

    def _micro(self, make: Callable[[int], DataFrame]) -> float:
        """Return the ms of a micro-batch with next to nothing in it; the first half of them is cut."""
        step = self._task.tiny_rows // TINY_BATCHES
        self._drained(make(step), "noop")
        batches = self._drained(make(step), "noop")
        took_ms = [float(batch["durationMs"]["triggerExecution"]) for batch in batches]
        assert len(took_ms) >= TINY_BATCHES // 2, f"only {len(took_ms)} micro-batches"
        return median(took_ms[len(took_ms) // 2 :])

    def _drained(self, stream: DataFrame, sink: str) -> list[dict[str, Any]]:
        """Run a stream until it has read what there is, and return its batches that had rows."""
        place = Path(self._task.folder) / "stream"
        shutil.rmtree(place, ignore_errors=True)
        writer = stream.writeStream.format(sink).option("checkpointLocation", str(place / "checkpoint"))
        if sink == "parquet":
            writer = writer.option("path", str(place / "table"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        found = [json.loads(progress.json) for progress in query.recentProgress]
        return [batch for batch in found if batch["numInputRows"]]

    # --- sinks

    def _sent(self, rows: int, delivery: str) -> float:
        task = self._task
        given = {"namesrv": task.roquet, "topic": task.sink_topic, "delivery": delivery}
        return self._written(rows, "roquet", given)

    def _written(self, rows: int, sink: str, given: dict[str, str]) -> float:
        """Return the rows a second that a sink takes of a table in memory."""
        table = self._spark.range(0, rows, 1, CORES).selectExpr(BODY).cache()
        assert table.count() == rows

        def once() -> int:
            table.write.format(sink).options(**given).mode("append").save()
            return rows

        try:
            once()
            return self._median(once)
        finally:
            table.unpersist()

    def _median(self, once: Callable[[], int]) -> float:
        """Return the median of the rows a second of some runs."""
        rates = []
        for _ in range(self._task.repeats):
            began_at = time.monotonic()
            rows = once()
            rates.append(rows / (time.monotonic() - began_at))
        return median(rates)


async def _plain_loop(namesrv: str, topic: str) -> float:
    """Return the rows a second of the simplest reader: one pull of 32 after the other, decoded at once."""
    rows, began_at = 0, time.monotonic()
    async with roquet.Reader(namesrv) as reader:
        for queue in await reader.queues(topic):
            offset, end = 0, await reader.max_offset(queue)
            while offset < end and time.monotonic() - began_at < LOOP_SECONDS:
                page = await reader.read_raw(queue, offset, max_messages=PULL)
                batch, _ = read_batch(page.data, 0, COLUMNS, queue.broker_name, BATCH_ROWS, EVERY)
                rows += batch.num_rows
                offset = page.next_offset
    return rows / (time.monotonic() - began_at)


if __name__ == "__main__":
    main()
