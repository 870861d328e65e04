"""`spark.read.format("roquet-store")`: a store's files as a table, without a broker.

    spark.read.format("roquet-store").load("/var/lib/roquet/store").where("topic = 'orders'")

The driver plans byte ranges of the log (`store_reader.plan`), tasks read them as Arrow batches; the
folder must be visible to all of them. The end of the log is looked up once, when the query is planned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from roquet.arrow import COLUMNS
from roquet.spark import options as opt
from roquet.spark.pushdown import PUSHDOWN, Conditions, decline, is_offered, take
from roquet.spark.schema import ddl, projection

if TYPE_CHECKING:
    import pyarrow as pa

    from roquet.store_reader.plan import Range

NUMBERS: Final = opt.Kind(
    "numbers with commas", lambda text: tuple(opt.number().read(word) for word in opt.WORDS.read(text))
)

OPTIONS: Final = opt.Table(
    "roquet-store",
    opt.Option("path", opt.TEXT, opt.REQUIRED, "Folder of a store, or of its commit log (`.load(path)`)."),
    opt.Option("topics", opt.WORDS, (),
               "Only these topics. Otherwise all that the log holds: also those in which brokers keep halves "
               "of transactions and messages that are delayed."),
    opt.Option("queueIds", NUMBERS, (), "Only these queue ids."),
    opt.Option("since", opt.TIME, None, "Only messages stored at this time or later."),
    opt.Option("until", opt.TIME, None, "Only messages stored before this time."),
    opt.Option("damaged", opt.choice("error", "skip", "column"), "error",
               "What damage is (no record, a body that does not open, a file that is missing or short): an "
               "error, a gap, or a row with the column `damage`."),
    PUSHDOWN,
    opt.Option("verify", opt.SWITCH, True, "Compare each body with its checksum."),
    opt.Option("broker", opt.TEXT, "", "What the column `broker` says: files do not know."),
    opt.Option("rangeBytes", opt.number(1 << 20), 128 << 20, "Bytes of the log that one task reads at most."),
    opt.Option("arrowBatchRows", opt.number(1), 10_000, "Rows of one Arrow batch."),
)  # fmt: skip

PUSHED: Final = ("topic", "queue_id", "store_time")


class StorePartition(InputPartition):
    """What one task reads: byte ranges of the log, one after another."""

    def __init__(self, ranges: Sequence[Any]) -> None:
        super().__init__(ranges)


class StoreReader(DataSourceReader):
    """Plans the ranges and reads them."""

    def __init__(self, given: dict[str, Any], names: Sequence[str]) -> None:
        self._given = given
        self._names = tuple(names)
        self._pushed = Conditions()

    def partitions(self) -> Sequence[InputPartition]:
        from roquet.store_reader.plan import RANGE_BYTES, plan

        if self._pushed.is_empty:
            return []
        at_most = self._given["rangeBytes"]
        ranges = plan(self._given["path"], self._filter(), range_bytes=min(at_most, RANGE_BYTES))
        return [StorePartition(some) for some in shared_out(ranges, at_most, os.cpu_count() or 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from roquet.store_reader import read_range

        if partition.value is None:  # Spark makes one partition of nothing where a plan has none
            return
        given, wanted = self._given, self._filter()
        for part in partition.value:
            yield from read_range(
                part, wanted, columns=self._names, rows=given["arrowBatchRows"],
                damaged=given["damaged"], verify=given["verify"], broker=given["broker"],
            )  # fmt: skip

    def _filter(self) -> Any:
        from roquet.store_reader import Filter as StoreFilter

        given, pushed = self._given, self._pushed
        topics = _both(frozenset(given["topics"]), pushed.topics)
        queue_ids = _both(frozenset(given["queueIds"]), pushed.queue_ids)
        since = max((time for time in (given["since"], pushed.since) if time), default=None)
        until = min((time for time in (given["until"], pushed.until) if time), default=None)
        return StoreFilter(tuple(sorted(topics)), tuple(sorted(queue_ids)), since, until)


class PushingStoreReader(StoreReader):
    """A reader that takes conditions over, where Spark offers them."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        if self._given["damaged"] == "column":  # rows of damage have no topic: Spark sorts them out itself
            return iter(filters)
        pushed, left = take(filters, PUSHED)
        # What options and conditions have in common may be nothing, which is not the same as "any".
        if pushed.topics is not None:
            pushed = pushed._replace(topics=_both(frozenset(self._given["topics"]), pushed.topics))
        if pushed.queue_ids is not None:
            pushed = pushed._replace(queue_ids=_both(frozenset(self._given["queueIds"]), pushed.queue_ids))
        self._pushed = pushed
        return iter(left)


class TellingStoreReader(StoreReader):
    """A reader that takes no conditions over, and says what it could have done with them."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        return iter(decline(filters, PUSHED))


def shared_out(ranges: Sequence[Range], bytes_max: int, cores: int) -> list[Sequence[Range]]:
    """Share ranges out among tasks: few, since each takes time to start, and as many as keep all cores busy.

    Ranges stay small beneath them, so that those without a wanted topic or time can be left out.
    """
    from roquet.store_reader.plan import joined

    sizes = [part.end - part.begin for part in ranges]
    tasks = -(-sum(sizes) // bytes_max)
    tasks = min(-(-tasks // cores) * cores, len(ranges))
    share = sum(sizes) / max(tasks, 1)
    found: list[list[Range]] = [[] for _ in range(tasks)]
    before = 0
    for part, size in zip(ranges, sizes, strict=True):
        found[min(int((before + size / 2) / share), tasks - 1)].append(part)
        before += size
    return [joined(some) for some in found if some]


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
        if not is_offered():  # Spark would refuse a reader that wants conditions
            return StoreReader(self._given, names)
        return (PushingStoreReader if self._given["pushdown"] else TellingStoreReader)(self._given, names)
