"""Archive: copy topics into Parquet or Delta files, by topic and day, each message once.

    spark-submit archive.py --namesrv 127.0.0.1:9876 --topics orders,payments --to archive/

    stream `roquet` ─▶ each batch: tasks write files ─▶ the driver commits them under (query, batch)
                       a batch that is there already is left out ─▶ small files are joined at the end

Where it goes on is in the checkpoint; when that is lost, in the archive itself. Parquet is committed by a
manifest (`archive_files`), Delta by its log (`archive_delta`). The queue may then forget early.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from roquet.model.route import QueueName
from roquet.spark.access import Turns
from roquet.spark.options import OptionError
from roquet.spark.pipelines import arguments
from roquet.spark.pipelines.archive_delta import LOG, DeltaShelf
from roquet.spark.pipelines.archive_files import MANIFEST, Filed, ParquetShelf, Place, batch_name, ends_of
from roquet.spark.pipelines.archive_write import LINE_SCHEMA, filed, join_files, write_batches
from roquet.spark.pipelines.sources import namesrv_of
from roquet.spark.pipelines.summary import Live, Refused, Summary, size
from roquet.spark.plan import Offsets, from_json, rows_between, to_json
from roquet.spark.source_options import EARLIEST, read_options
from roquet.spark.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT: Final = "_checkpoint"
SMALL_FILES: Final = 4
"""Small files of one topic and day from which it is worth joining them."""
ROWS_PER_BATCH: Final = 2_000_000
ROWS_PER_TASK: Final = 50_000
"""Writing takes longer than reading: from so many rows on a task more is worth its cost."""
COMPACT_SECONDS = 1800.0
"""How often files are joined while an archive follows its topics."""

Shelf = ParquetShelf | DeltaShelf
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Copy topics into Parquet or Delta files, by topic and day, each message once."""

    to: Annotated[str, "Folder of the archive: a path or URI that all workers see."]
    topics: arguments.Topics = ()
    pattern: Annotated[str, "Topics by a regular expression, instead."] = ""
    namesrv: arguments.Namesrv = ""
    format: Annotated[Literal["parquet", "delta"], "How to store."] = "parquet"
    tags: Annotated[str, "Only messages with these tags: created || paid."] = ""
    group: Annotated[str, "Group to commit progress to, so that its lag is visible."] = ""
    follow: Annotated[bool, "Go on with what comes, instead of ending at what is there."] = False
    every: Annotated[timedelta, "How often, when it follows."] = timedelta(minutes=1)
    rows_per_batch: Annotated[int, "Messages of one commit at most."] = ROWS_PER_BATCH
    partitions: Annotated[int, "Tasks of a batch at least; small batches otherwise take one."] = 1
    checkpoint: Annotated[str, "Folder of the checkpoint, if not within the archive."] = ""
    compact_below: Annotated[int, "Join files smaller than so many MiB; 0 joins none."] = 64
    allow_loss: Annotated[bool, "Go on when messages are gone that should be read."] = False

    def run(self, spark: SparkSession, live: Live) -> Summary:
        """Archive what there is, or go on until it is stopped."""
        shelf = self.shelf()
        finished = shelf.recover()
        if finished:
            live.note(f"finished {finished} commits of an earlier run")
        summary = Summary("archive")
        taker = _Taker(shelf, self, summary, live)
        query = self._start(spark, shelf, taker)
        watch(query, live, summary)
        note_skipped(query, summary)
        taker.join_files(spark)
        summary.facts |= {"archive": self.to, "format": self.format, "commits": taker.commits}
        summary.facts["batches_there_already"] = taker.again
        summary.facts |= {"files_written": taker.files, "files_joined": taker.joined}
        summary.tables["archived"] = taker.rows()
        summary.seconds = live.seconds
        return summary

    def _start(self, spark: SparkSession, shelf: Shelf, taker: _Taker) -> StreamingQuery:
        checkpoint = self.checkpoint or shelf.place.at(CHECKPOINT)
        options = self.source_options()
        rows = max(self.rows_per_batch // spark.sparkContext.defaultParallelism, ROWS_PER_TASK)
        options["maxRecordsPerPartition"] = str(rows)  # full batches keep all cores busy
        ends = {} if Place.of(checkpoint).has("metadata") else shelf.ends()
        if ends:  # the checkpoint is lost, the archive is not
            options["startingOffsets"] = behind(ends, with_survey(options, Survey.queues))
        stream = spark.readStream.format("roquet").options(**options).load()
        writer = stream.writeStream.foreachBatch(taker.take).option("checkpointLocation", checkpoint)
        if self.follow:
            writer = writer.trigger(processingTime=f"{int(self.every.total_seconds() * 1000)} milliseconds")
        else:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def shelf(self) -> Shelf:
        """Return the archive's files; raises Refused when they are of the other format, or cannot be."""
        shelf: Shelf = DeltaShelf(self.to) if self.format == "delta" else ParquetShelf(self.to)
        shelf.place.make()
        other, mark = ("parquet", MANIFEST) if self.format == "delta" else ("delta", LOG)
        if shelf.place.has(mark):
            raise Refused(f"{self.to} is an archive in {other} already: give --format {other}")
        return shelf

    def source_options(self) -> dict[str, str]:
        """Return the options of the stream; raises OptionError."""
        if bool(self.topics) == bool(self.pattern):
            raise OptionError("say what to archive: --topics orders,payments, or --pattern")
        options = {
            "namesrv": namesrv_of(self.namesrv),
            "failOnDataLoss": str(not self.allow_loss).lower(),
            "maxOffsetsPerTrigger": str(max(self.rows_per_batch, 1)),
            "startingOffsets": "earliest",
            "minPartitions": str(max(self.partitions, 1)),
        }
        options |= {"subscribe": ",".join(self.topics)} if self.topics else {"subscribePattern": self.pattern}
        options |= {"tags": self.tags} if self.tags else {}
        options |= {"group": self.group} if self.group else {}
        return options


def behind(ends: Offsets, queues: Iterable[QueueName]) -> str:
    """Return where to begin in each queue, as the source's option: behind what is there, or at the first."""
    return json.dumps(to_json({queue: ends.get(queue, EARLIEST) for queue in queues})["topics"])


def with_survey(options: Mapping[str, str], act: Callable[[Survey], Awaitable[Result]]) -> Result:
    """Ask the cluster something that a stream with these options would; raises RoquetError, OptionError."""

    async def ask() -> Result:
        survey = Survey(read_options(options, "stream"))
        await survey.open()
        try:
            return await act(survey)
        finally:
            await survey.close()

    with Turns() as turns:
        return turns.run(ask())


class _Taker:
    """Puts batches into the archive, and counts; called by Spark on the driver.

    Files are joined here too, between two batches: never while one is being moved to its place.
    """

    def __init__(self, shelf: Shelf, wanted: Archive, summary: Summary, live: Live) -> None:
        self._shelf = shelf
        self._wanted = wanted
        self._summary = summary
        self._live = live
        self._joined_s = live.seconds
        self._by_topic: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.commits = 0
        self.again = 0
        self.files = 0
        self.joined = 0

    def take(self, frame: DataFrame, batch: int) -> None:
        """Put one batch into the archive, unless it is there."""
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query, "a batch of a stream knows its query"
        if self._shelf.has(query, batch):
            self.again += 1
            return
        name = batch_name(query, batch)
        work = partial(write_batches, place=self._shelf.place, folder=self._shelf.staging_of(name))
        files = filed(row.file for row in frame.mapInArrow(work, LINE_SCHEMA).collect())
        self._commit(query, batch, files)
        self.commits += bool(files)
        self._count(files)
        if self._wanted.group and files:
            # Spark tells the source of a batch's end when the next begins: until then the group would lag.
            with_survey(self._wanted.source_options(), lambda survey: survey.store(ends_of(files)))
        if self._live.seconds - self._joined_s >= COMPACT_SECONDS:
            self.join_files(frame.sparkSession)

    def join_files(self, spark: SparkSession) -> None:
        """Join small files, if that is wanted; a batch must not be under way in another thread."""
        self._joined_s = self._live.seconds
        limit_bytes = self._wanted.compact_below << 20
        if not limit_bytes:
            return
        self._live.say("archive: joining small files")
        if isinstance(self._shelf, DeltaShelf):
            self.joined += self._shelf.compact(limit_bytes)
        else:
            self.joined += compact(spark, self._shelf, limit_bytes)

    def _commit(self, query: str, batch: int, files: list[Filed]) -> None:
        facts: dict[str, Any] = {
            "query": query,
            "batch": batch,
            "time": datetime.now(UTC).isoformat(),
            "rows": sum(each.rows for each in files),
            "size_bytes": sum(each.size_bytes for each in files),
        }
        if isinstance(self._shelf, DeltaShelf):
            if files:
                self._shelf.commit_batch(query, batch, files, facts)
        else:
            self._shelf.commit(batch_name(query, batch), files, facts)

    def _count(self, files: list[Filed]) -> None:
        self.files += len(files)
        for each in files:
            self._summary.rows += each.rows
            self._summary.size_bytes += each.size_bytes
            counts = self._by_topic[each.topic]
            counts[0] += each.rows
            counts[1] += each.size_bytes
            counts[2] += 1

    def rows(self) -> list[Mapping[str, Any]]:
        """Return what was archived, by topic."""
        return [
            {"topic": topic, "messages": rows, "bytes_on_disk": size_bytes, "files": files}
            for topic, (rows, size_bytes, files) in sorted(self._by_topic.items())
        ]


def watch(query: StreamingQuery, live: Live, summary: Summary) -> None:
    """Wait for a query, or stop it when asked to, and show how far it is; raises what ends it."""
    live.is_watched = True
    while not query.awaitTermination(1):
        rate = summary.rows / live.seconds if live.seconds else 0.0
        live.say(
            f"archive: {summary.rows:,} messages · {size(summary.size_bytes)} on disk · {rate:,.0f}/s"
            f" · {live.seconds:.0f} s"
        )
        if live.is_stopping:
            query.stop()  # waits for a commit that has begun
            live.note("stopped; the next run goes on from here")
            return


def note_skipped(query: StreamingQuery, summary: Summary) -> None:
    """Count offsets that gave no row: tags that are not wanted, or messages that are gone."""
    for progress in query.recentProgress:
        for source in progress.sources:
            start, end = _offsets(source.startOffset), _offsets(source.endOffset)
            if start and end.keys() == start.keys():  # a queue that is new does not say where it begins
                missing = rows_between(start, end) - source.numInputRows
                summary.skip("offsets without a message that is wanted", max(missing, 0))


def _offsets(told: str | None) -> dict[QueueName, int]:
    found = json.loads(told) if told else None
    return from_json(found) if isinstance(found, dict) else {}


def compact(spark: SparkSession, shelf: ParquetShelf, limit_bytes: int) -> int:
    """Join the small files of each topic and day; return how many were joined."""
    groups = small_files(shelf.live(), limit_bytes)
    now = datetime.now(UTC).isoformat()
    if groups:
        name = f"compact-{uuid.uuid4().hex}"
        work = partial(join_files, place=shelf.place, folder=shelf.staging_of(name))
        texts = [(json.dumps([each._asdict() for each in group]),) for group in groups]
        frame = spark.createDataFrame(texts, "files string").repartition(len(texts))
        adds = filed(row.file for row in frame.mapInArrow(work, LINE_SCHEMA).collect())
        removes = [each.path for group in groups for each in group]
        shelf.commit(name, adds, {"time": now, "joined": len(removes)}, removes)
    shelf.fold(f"fold-{uuid.uuid4().hex}", now)
    return sum(map(len, groups))


def small_files(files: list[Filed], limit_bytes: int) -> list[list[Filed]]:
    """Return which files to join: those of one topic and day, up to about the limit together."""
    groups: list[list[Filed]] = []
    by_folder: dict[tuple[str, str], list[Filed]] = defaultdict(list)
    for each in files:
        if each.size_bytes < limit_bytes:
            by_folder[each.topic, each.day].append(each)
    for small in by_folder.values():
        group: list[Filed] = []
        for each in sorted(small, key=lambda file: (file.first_time, file.path)):
            if group and sum(file.size_bytes for file in group) + each.size_bytes > 2 * limit_bytes:
                groups.append(group)
                group = []
            group.append(each)
        groups.append(group)
    return [group for group in groups if len(group) >= SMALL_FILES]


if __name__ == "__main__":
    from roquet.spark.pipelines import program

    sys.exit(program.main(Archive))
