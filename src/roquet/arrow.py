"""Messages as Arrow record batches: the table that bulk readers see, from a broker or from its files.

    bytes of records ─▶ store.format.columns ─▶ buffers ─▶ RecordBatch (here) ─▶ Spark, pandas, Polars, DuckDB

One schema for all of them, in Spark's types (no large or view types; times in microseconds, UTC). Only
the columns that are asked for are read. pyarrow is imported when the first batch is made: it comes
with the extra `spark`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from roquet.client.compression import inflate
from roquet.client.errors import BadMessage
from roquet.store.format.columns import KINDS, Buffer, Columns, Sieve, read_columns
from roquet.store.format.record import Stop

if TYPE_CHECKING:
    import pyarrow as pa

Found = TypeVar("Found")

COLUMNS: Final = (
    "topic",
    "broker",
    "queue_id",
    "queue_offset",
    "body",
    "tag",
    "keys",
    "properties",
    "message_id",
    "born_time",
    "store_time",
    "born_host",
    "store_host",
    "reconsume_times",
    "sys_flag",
    "flag",
    "log_offset",
)
"""All columns, in their order."""

_READ_AS: Final = {"born_time": "born_us", "store_time": "store_us"}
_GIVEN: Final = frozenset({"broker"})
"""Columns that no record holds."""


def schema(names: Sequence[str] = COLUMNS) -> pa.Schema:
    """Return the Arrow schema of some columns; raises KeyError for one that there is not."""
    return _pyarrow().schema([(name, _type(name)) for name in names])


def record_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return what must be read from records to make these columns."""
    return tuple(_READ_AS.get(name, name) for name in names if name not in _GIVEN)


def to_batch(found: Columns, names: Sequence[str], broker: str) -> pa.RecordBatch:
    """Return rows that were read as one batch with these columns."""
    pa = _pyarrow()
    arrays = [_array(found, name, broker) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(names))


def read_batch(
    data: Buffer, position: int, names: Sequence[str], broker: str, rows_max: int, sieve: Sieve
) -> tuple[pa.RecordBatch, int]:
    """Return the rows of a pull answer from `position` on and where the next ones begin.

    Raises ValueError when the bytes are no records: an answer is whole or it is damaged.
    """
    found = read_columns(
        data, position, record_columns(names), rows_max=rows_max, sieve=sieve, inflate=inflate
    )
    if found.stop is not Stop.MORE or (found.rows < rows_max and found.position != len(data)):
        raise ValueError(
            f"the answer is damaged at byte {found.position}: {found.fault or 'it is cut short'}"
        )
    return to_batch(found, names, broker), found.position


def rows_that_open(read: Callable[[int], Found], rows_max: int) -> tuple[Found | None, str]:
    """Return what `read` gives for as many rows as have bodies that open, None when the first does not.

    The text says why the one behind them does not; it is empty when all do.
    """
    try:
        return read(rows_max), ""
    except BadMessage as error:
        reason = str(error)
    good, bad = 0, rows_max
    while bad - good > 1:
        half = (good + bad) // 2
        try:
            read(half)
            good = half
        except BadMessage:
            bad = half
    return (read(good) if good else None), reason


def _array(found: Columns, name: str, broker: str) -> pa.Array:
    pa = _pyarrow()
    rows = found.rows
    if name in _GIVEN:
        return pa.repeat(pa.scalar(broker, pa.string()), rows)
    source = _READ_AS.get(name, name)
    if not rows:
        return pa.array([], _type(name))
    buffers = [pa.py_buffer(part) for part in found.buffers[source]]
    kind = KINDS[source]
    if kind in ("int32", "int64"):
        return pa.Array.from_buffers(_type(name), rows, [None, buffers[0]])
    if kind in ("text", "bytes"):
        return pa.Array.from_buffers(_type(name), rows, [None, *buffers])
    inner = [_texts(buffers[at], buffers[at + 1]) for at in range(1, len(buffers), 2)]
    ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, buffers[0]])
    return (
        pa.MapArray.from_arrays(ends, *inner) if kind == "pairs" else pa.ListArray.from_arrays(ends, *inner)
    )


def _texts(ends: pa.Buffer, data: pa.Buffer) -> pa.Array:
    pa = _pyarrow()
    return pa.Array.from_buffers(pa.string(), ends.size // 4 - 1, [None, ends, data])


def _type(name: str) -> pa.DataType:
    pa = _pyarrow()
    if name in _READ_AS:
        return pa.timestamp("us", "UTC")
    kinds = {
        "int32": pa.int32(),
        "int64": pa.int64(),
        "text": pa.string(),
        "bytes": pa.binary(),
        "texts": pa.list_(pa.string()),
        "pairs": pa.map_(pa.string(), pa.string()),
    }
    return pa.string() if name in _GIVEN else kinds[KINDS[name]]


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError("pyarrow is not installed: pip install 'roquet[spark]'") from None
    return pyarrow
