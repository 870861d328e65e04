"""`spark.read.format("roquet-store")`: a store's files as a table, without a broker.

    spark.read.format("roquet-store").load("/var/lib/roquet/store").where("topic = 'orders'")

The driver plans byte ranges of the log (`store_reader.plan`), executors read them as Arrow batches; the
folder must be visible to all of them. The end of the log is looked up once, when the query is planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from roquet.arrow import COLUMNS
from roquet.spark import options as opt
from roquet.spark.pushdown import PUSHDOWN, Conditions, is_offered, take
from roquet.spark.schema import ddl, projection

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS: Final = opt.Table(
    "roquet-store",
    opt.Option("path", opt.TEXT, opt.REQUIRED, "Folder of a store, or of its commit log (`.load(path)`)."),
    opt.Option("topics", opt.WORDS, (), "Only these topics."),
    opt.Option("queueIds", opt.WORDS, (), "Only these queue ids."),
    opt.Option("since", opt.TIME, None, "Only messages stored at this time or later."),
    opt.Option("until", opt.TIME, None, "Only messages stored before this time."),
    opt.Option("damaged", opt.choice("error", "skip", "column"), "error",
               "What damage in the log is: an error, a gap, or a row with the column `damage`."),
    PUSHDOWN,
    opt.Option("verify", opt.SWITCH, True, "Compare each body with its checksum."),
    opt.Option("broker", opt.TEXT, "", "What the column `broker` says: files do not know."),
    opt.Option("rangeBytes", opt.number(1 << 20), 32 << 20, "Bytes of the log that one task reads."),
    opt.Option("arrowBatchRows", opt.number(1), 10_000, "Rows of one Arrow batch."),
)  # fmt: skip

PUSHED: Final = ("topic", "queue_id", "store_time")


class StorePartition(InputPartition):
    """One byte range of the log."""

    def __init__(self, part: Any) -> None:
        super().__init__(part)


class StoreReader(DataSourceReader):
    """Plans the ranges and reads them."""

    def __init__(self, given: dict[str, Any], names: Sequence[str]) -> None:
        self._given = given
        self._names = tuple(names)
        self._pushed = Conditions()

    def partitions(self) -> Sequence[InputPartition]:
        from roquet.store_reader import plan

        if self._pushed.is_empty:
            return []
        ranges = plan(self._given["path"], self._filter(), range_bytes=self._given["rangeBytes"])
        return [StorePartition(part) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from roquet.store_reader import read_range

        if partition.value is None:  # Spark makes one partition of nothing where a plan has none
            return iter(())
        given = self._given
        return read_range(
            partition.value, self._filter(), columns=self._names, rows=given["arrowBatchRows"],
            damaged=given["damaged"], verify=given["verify"], broker=given["broker"],
        )  # fmt: skip

    def _filter(self) -> Any:
        from roquet.store_reader import Filter as StoreFilter

        given, pushed = self._given, self._pushed
        topics = _both(frozenset(given["topics"]), pushed.topics)
        queue_ids = _both(frozenset(map(int, given["queueIds"])), pushed.queue_ids)
        since = max((time for time in (given["since"], pushed.since) if time), default=None)
        until = min((time for time in (given["until"], pushed.until) if time), default=None)
        return StoreFilter(tuple(sorted(topics)), tuple(sorted(queue_ids)), since, until)


class PushingStoreReader(StoreReader):
    """A reader that takes conditions over, where Spark offers them."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        if self._given["damaged"] == "column":  # rows of damage have no topic: Spark sorts them out itself
            return iter(filters)
        self._pushed, left = take(filters, PUSHED)
        given = frozenset(self._given["topics"])
        if given and self._pushed.topics is not None:
            self._pushed = self._pushed._replace(topics=given & self._pushed.topics)
        return iter(left)


def _both(given: frozenset[Any], pushed: frozenset[Any] | None) -> frozenset[Any]:
    if pushed is None:
        return given
    return given & pushed if given else pushed


class StoreSource(DataSource):
    __doc__ = f"""The files of a store as a table. Options:\n\n{OPTIONS.docstring()}\n"""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._given = OPTIONS.parse(dict(options), ignore=())

    @classmethod
    def name(cls) -> str:
        return "roquet-store"

    def schema(self) -> str:
        names = (*COLUMNS, "damage") if self._given["damaged"] == "column" else COLUMNS
        return ddl(names)

    def reader(self, schema: StructType) -> DataSourceReader:
        names = projection(schema, (*COLUMNS, "damage") if self._given["damaged"] == "column" else COLUMNS)
        kind = PushingStoreReader if self._given["pushdown"] and is_offered() else StoreReader
        return kind(self._given, names)
