"""The data source `roquet`: topics as tables and streams.

    spark.read.format("roquet").option("namesrv", "127.0.0.1:9876").option("subscribe", "orders").load()

Reads the options, says which columns there are, and makes the readers. Options are read where it is
known what for, so that a source that only writes needs none of the reader's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import DataType, StructType

from roquet.arrow import COLUMNS
from roquet.client.core.subscription import parse, wanted_tags
from roquet.spark.access import Access
from roquet.spark.batch import PushingReader, RoquetReader, TellingReader
from roquet.spark.options import OptionError
from roquet.spark.pushdown import is_offered
from roquet.spark.read import How
from roquet.spark.schema import ddl, projection
from roquet.spark.sink import SINK_OPTIONS, stream_writer_of, writer_of
from roquet.spark.source_options import OPTIONS, Mode, read_options
from roquet.spark.stream import RoquetStreamReader
from roquet.spark.values import VALUE, VALUE_ERROR, Format, ValueReader, value_ddl


class RoquetSource(DataSource):
    __doc__ = (
        f"Topics as tables and streams. Options for reading:\n\n{OPTIONS.docstring()}\n\n"
        f"Options for writing:\n\n{SINK_OPTIONS.docstring()}\n"
    )

    @classmethod
    def name(cls) -> str:
        return "roquet"

    def schema(self) -> str:
        given = read_options(dict(self.options))
        format = Format.of(given)
        columns = ddl(_columns(given))
        if format is None:
            return columns
        more = [f"{VALUE} {value_ddl(format)}", f"{VALUE_ERROR} string"]
        return ", ".join((columns, *more[: len(format.names)]))

    def reader(self, schema: StructType) -> DataSourceReader:
        given, how = self._read(schema, "batch")
        if not is_offered():  # Spark would refuse a reader that wants conditions
            return RoquetReader(given, how)
        return (PushingReader if given["pushdown"] else TellingReader)(given, how)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return RoquetStreamReader(*self._read(schema, "stream"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return writer_of(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return stream_writer_of(dict(self.options), schema, overwrite)

    def _read(self, schema: StructType, mode: Mode) -> tuple[dict[str, Any], How]:
        given = read_options(dict(self.options), mode)
        format = Format.of(given)
        value = None
        if format is not None and VALUE in schema.names:
            value = ValueReader(format, _arrow_type(schema[VALUE].dataType))
        elif format is not None and VALUE_ERROR in schema.names:
            raise OptionError(f"column {VALUE_ERROR} comes only with column {VALUE}")
        names = projection(schema, (*_columns(given), *(format.names if format else ())), any_type=(VALUE,))
        return given, how_of(given, names, value)


def how_of(given: Mapping[str, Any], names: Sequence[str], value: ValueReader | None = None) -> How:
    """Return what tasks need to know."""
    topic = given["subscribe"][0] if given["subscribe"] else "topic"
    tags = frozenset(tag.decode() for tag in wanted_tags(parse(topic, given["tags"], 0)))
    return How(
        Access.of(given),
        tuple(names),
        tags=given["tags"],
        sql=given["sql"],
        exact_tags=tags or None,
        fail_on_data_loss=given["failOnDataLoss"],
        pull_messages=given["pullMessages"],
        pull_bytes=given["pullBytes"],
        pipeline=given["pullPipeline"],
        rows=given["arrowBatchRows"],
        value=value,
    )


def _columns(given: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in COLUMNS if given["includeProperties"] or name != "properties")


def _arrow_type(spark_type: DataType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(spark_type, timezone="UTC")
