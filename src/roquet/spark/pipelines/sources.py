"""Where pipelines get messages from: brokers, a store's files, or an archive; one table for all three.

    --namesrv … --topics …     format roquet            a snapshot of the topics
    --store FOLDER             format roquet-store      a store's files, without a broker
    --archive FOLDER           files of an archive      Parquet or Delta, by its manifest

Only the columns that are asked for are read, and only files and ranges that can hold the times asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from roquet.spark.options import OptionError
from roquet.spark.pipelines.archive_delta import DeltaShelf
from roquet.spark.pipelines.archive_files import Filed, ParquetShelf, Place
from roquet.spark.pipelines.archive_write import read_files
from roquet.spark.pipelines.summary import Refused, Row
from roquet.spark.schema import ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_PER_TASK: Final = 500_000
"""Of an archive: so many make a task worth its cost."""


class From(NamedTuple):
    """Which messages a pipeline works on."""

    namesrv: str = ""
    topics: tuple[str, ...] = ()
    store: str = ""
    archive: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def shown(self) -> str:
        """What to call it in a report."""
        return self.store or self.archive or self.namesrv


def namesrv_of(given: str) -> str:
    """Return the name servers that are meant; raises OptionError when nobody says."""
    found = given or os.environ.get("ROQUET_NAMESRV") or os.environ.get("NAMESRV_ADDR")
    if not found:
        raise OptionError("--namesrv is missing: the name servers, such as 127.0.0.1:9876")
    return found


def check(where: From) -> From:
    """Return it with its name servers filled in; raises OptionError when it is none or more than one."""
    files = [flag for flag, path in (("--store", where.store), ("--archive", where.archive)) if path]
    ways = [*files, *(["--namesrv"] if where.namesrv else [])]
    if len(ways) > 1:
        raise OptionError(f"{' and '.join(ways)} exclude each other: messages come from one of them")
    if where.since is not None and where.until is not None and where.since >= where.until:
        raise OptionError("--since must be before --until")
    return where if files else where._replace(namesrv=namesrv_of(where.namesrv))


def messages(spark: SparkSession, where: From, columns: Sequence[str]) -> DataFrame:
    """Return the messages that are meant, with these columns; raises OptionError, Refused."""
    if where.archive:
        return _archived(spark, where, columns)
    kept = list(dict.fromkeys((*columns, "store_time"))) if where.since or where.until else list(columns)
    if where.store:
        reader = spark.read.format("roquet-store").option("topics", ",".join(where.topics))
        reader = reader.options(**_times(where, "since", "until"))
        return reader.schema(ddl(columns)).load(where.store)
    if not where.topics:
        raise OptionError("--topics is missing: which topics?")
    options = {"namesrv": where.namesrv, "subscribe": ",".join(where.topics)}
    options |= _times(where, "startingTimestamp", "endingTimestamp")
    if where.since is not None:
        options["startingTimestampStrategy"] = "latest"  # a queue without newer messages has nothing to give
    frame = spark.read.format("roquet").options(**options).schema(ddl(kept)).load()
    # Brokers find offsets by time; where a clock was set back there may be rows beyond.
    return frame.where(_within(where)).select(*columns)


def _times(where: From, since: str, until: str) -> dict[str, str]:
    found = {since: where.since, until: where.until}
    return {name: time.isoformat() for name, time in found.items() if time is not None}


def _within(where: From) -> Column:
    from pyspark.sql import functions as f

    is_in = f.lit(True)
    if where.since is not None:
        is_in = is_in & (f.col("store_time") >= f.lit(where.since))
    if where.until is not None:
        is_in = is_in & (f.col("store_time") < f.lit(where.until))
    return is_in


def archived_files(where: From) -> tuple[Place, list[Filed]]:
    """Return the files of an archive that may hold what is meant; raises Refused when it is none."""
    place = Place.of(where.archive)
    if place.has("_delta_log"):
        files = DeltaShelf(where.archive).live()
    elif place.has("_manifest"):
        files = ParquetShelf(where.archive).live()
    else:
        raise Refused(f"{where.archive} is no archive: it has neither _manifest nor _delta_log")
    wanted = frozenset(where.topics)
    kept = [
        each
        for each in files
        if (not wanted or each.topic in wanted) and each.may_hold(where.since, where.until)
    ]
    return place, kept


def _archived(spark: SparkSession, where: From, columns: Sequence[str]) -> DataFrame:
    place, files = archived_files(where)
    kept = list(dict.fromkeys((*columns, "store_time")))
    tasks = [json.dumps([each._asdict() for each in group]) for group in in_tasks(files)]
    listed = spark.createDataFrame([(text,) for text in tasks], "files string").repartition(
        max(len(tasks), 1)
    )
    frame = listed.mapInArrow(partial(_read_listed, place=place, names=tuple(kept)), ddl(kept))
    return frame.where(_within(where)).select(*columns)


def in_tasks(files: Sequence[Filed]) -> list[list[Filed]]:
    """Return files in groups of about equal work, in their order."""
    groups: list[list[Filed]] = []
    rows = ROWS_PER_TASK
    for each in files:
        if rows >= ROWS_PER_TASK:
            groups.append([])
            rows = 0
        groups[-1].append(each)
        rows += each.rows
    return groups


def _read_listed(
    batches: Iterable[pa.RecordBatch], place: Place, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column("files").to_pylist():
            yield from read_files([Filed.of(each) for each in json.loads(text)], place, names)


def condition(frame: DataFrame, text: str) -> DataFrame:
    """Return the rows that meet an SQL condition; raises OptionError when Spark cannot read it."""
    from pyspark.errors import AnalysisException, ParseException

    if not text:
        return frame
    try:
        return frame.where(text)
    except (AnalysisException, ParseException) as error:
        reason = " ".join(str(error).split("\n")[0].split())
        raise OptionError(f"--where {text!r} is no condition on these columns: {reason}") from None


def collected(frame: DataFrame) -> list[Row]:
    """Return a small table as rows; times come with their zone, UTC."""
    return [{name: _zoned(value) for name, value in row.asDict().items()} for row in frame.collect()]


def _zoned(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
