"""What Spark can do at most: a source whose Arrow batches lie ready, and a sink that drops its rows.

    prebuilt   one batch of real messages in a file; every task yields it again and again
               options: path, rows, partitions; for streams rowsPerTrigger (offset = rows so far)
    discard    an Arrow writer that counts

Imported by Spark's workers. Nothing here knows of brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa


class Ready:
    """Yields so many rows of the prepared batch."""

    def __init__(self, options: dict[str, str], names: Sequence[str]) -> None:
        self.rows = int(options["rows"])
        self._path = options["path"]
        self._count = int(options.get("partitions", "2"))
        self._names = list(names)

    def cut(self, rows: int) -> list[InputPartition]:
        """Return tasks that share the rows evenly."""
        bounds = [rows * number // self._count for number in range(self._count + 1)]
        return [InputPartition(end - begin) for begin, end in zip(bounds, bounds[1:], strict=False)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with pa.memory_map(self._path) as file:
            batch = pa.ipc.open_file(file).get_batch(0).select(self._names)
            left = int(partition.value)
            while left > 0:
                yield batch if left >= batch.num_rows else batch.slice(0, left)
                left -= batch.num_rows


class ReadyReader(DataSourceReader):
    def __init__(self, ready: Ready) -> None:
        self._ready = ready

    def partitions(self) -> Sequence[InputPartition]:
        return self._ready.cut(self._ready.rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._ready.read(partition)


class ReadyStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, ready: Ready, rows_per_trigger: int) -> None:
        self._ready = ready
        self._step = rows_per_trigger

    def initialOffset(self) -> dict[str, Any]:
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._step) if self._step else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        return None  # there is never more than at the start

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        step = limit.max_rows if isinstance(limit, ReadMaxRows) else self._ready.rows
        return {"rows": min(int(start["rows"]) + step, self._ready.rows)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._ready.cut(int(end["rows"]) - int(start["rows"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._ready.read(partition)


class PrebuiltSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> str:
        return str(self.options["ddl"])

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(Ready(dict(self.options), schema.names))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        step = int(self.options.get("rowsPerTrigger", "0"))
        return ReadyStreamReader(Ready(dict(self.options), schema.names), step)


class Dropped(WriterCommitMessage):
    def __init__(self, rows: int) -> None:
        self.rows = rows


class DroppingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Dropped(sum(batch.num_rows for batch in iterator))


class DiscardSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "discard"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return DroppingWriter()
