"""From Arrow columns to what is sent: checks of the columns, property texts, groups by where they go; pure.

    RecordBatch: body, topic, tag, keys, …  ─▶ one text of properties a row (in Arrow, not row by row)
                                            ─▶ groups: topic × (any queue | a queue id | by key | later)

Columns that are missing are filled from options (`Fixed`), and so are nulls. Wrong names and types are
refused when the query is planned, bad values when they come. Knows neither brokers nor Spark's writers.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from roquet.client.core.bulk import END, KEYS, MIDDLE, ORDERING_KEY, OWNED, TAG, check_texts
from roquet.spark.options import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tag": ("string",),
    "keys": ("array<string>", "string"),
    "properties": ("map<string,string>",),
    "delay": ("interval day to second", "bigint", "int"),
    "deliver_at": ("timestamp",),
    "ordering_key": ("string",),
    "queue_id": ("int", "bigint", "smallint", "tinyint"),
}
"""The columns of the sink and their types in Spark."""


class Fixed(NamedTuple):
    """What options say for all rows; the emptiest value means that they say nothing."""

    topic: str = ""
    tag: str = ""
    keys: str = ""
    properties: Mapping[str, str] = {}
    delay: timedelta | None = None
    deliver_at: datetime | None = None
    ordering_key: str = ""
    queue_id: int | None = None


class Group(NamedTuple):
    """Rows that go the same way, in their order. The last three are empty where they do not matter."""

    topic: str
    bodies: list[bytes]
    texts: list[str]
    queue_ids: list[int | None]
    ordering_keys: list[str | None]
    dues: list[timedelta | datetime | None]


def check_columns(schema: StructType, fixed: Fixed) -> tuple[str, ...]:
    """Return the names of the columns; raises OptionError with the wrong one and the nearest right one."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, found in types.items():
        if name not in COLUMNS:
            near = difflib.get_close_matches(name.lower(), COLUMNS, 1, 0.5)
            offer = f"did you mean {near[0]}?" if near else f"the sink takes {', '.join(COLUMNS)}"
            raise OptionError(f"the sink has no column {name}: {offer}")
        allowed = COLUMNS[name]
        if found not in allowed and not (name == "delay" and _is_day_time(found)):
            raise OptionError(f"column {name} must be {' or '.join(allowed)}, not {found}: cast it")
    if "body" not in types:
        raise OptionError(f"the sink needs a column body (binary or string); there is {', '.join(types)}")
    if "topic" not in types and not fixed.topic:
        raise OptionError("where to? give the option topic, or a column topic")
    for one, other in (("delay", "deliver_at"), ("ordering_key", "queue_id")):
        if _is_given(one, types, fixed) and _is_given(other, types, fixed):
            raise OptionError(f"{one} and {other} exclude each other: give one of them")
    return tuple(types)


def _is_given(name: str, types: Mapping[str, str], fixed: Fixed) -> bool:
    return name in types or getattr(fixed, name) not in ("", None)


def _is_day_time(found: str) -> bool:
    return found.startswith("interval ") and not any(word in found for word in ("year", "month"))


def groups(batch: pa.RecordBatch, fixed: Fixed) -> Iterator[Group]:
    """Yield the rows of a batch by topic, and those to be delivered later by themselves.

    Raises BadMessage and OptionError for values that cannot be sent.
    """
    if not batch.num_rows:
        return
    columns = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
    bodies = _bodies(columns["body"])
    texts = _texts(columns, fixed, batch.num_rows)
    topics = _filled(columns.get("topic"), fixed.topic)
    dues = _dues(columns, fixed)
    queue_ids = _filled(columns.get("queue_id"), fixed.queue_id)
    ordering_keys = _filled(columns.get("ordering_key"), fixed.ordering_key or None)
    if isinstance(topics, list) and not all(topics):
        row = next(row for row, topic in enumerate(topics) if not topic)
        raise OptionError(f"column topic is null or empty in row {row} of a batch: give the option topic too")
    for topic, rows in _by_topic(topics, batch.num_rows):
        now, later = _by_due(rows, dues)
        for part in (now, later):
            if part:
                yield Group(
                    topic,
                    _picked(bodies, part),
                    _picked(texts, part),
                    _spread(queue_ids, part),
                    _spread(ordering_keys, part),
                    _spread(dues, part) if part is later else [],
                )


Rows = Sequence[int]


def _by_topic(topics: Any, count: int) -> Iterator[tuple[str, Rows]]:
    if not isinstance(topics, list):
        yield topics, range(count)
        return
    found: dict[str, list[int]] = {}
    for row, topic in enumerate(topics):
        found.setdefault(topic, []).append(row)
    yield from found.items()


def _by_due(rows: Rows, dues: Any) -> tuple[Rows, Rows]:
    if not isinstance(dues, list):
        return (rows, ()) if dues is None else ((), rows)
    now = [row for row in rows if dues[row] is None]
    return now, [row for row in rows if dues[row] is not None]


def _picked(values: list[Any], rows: Rows) -> list[Any]:
    return values if len(rows) == len(values) else [values[row] for row in rows]


def _spread(values: Any, rows: Rows) -> list[Any]:
    """Return a column's values for some rows; empty when no row has any."""
    if values is None:
        return []
    if not isinstance(values, list):
        return [values] * len(rows)
    found = [values[row] for row in rows]
    return found if any(value is not None for value in found) else []


def _filled(column: pa.Array | None, fixed: Any) -> Any:
    """Return a list with nulls filled, or the one value that all rows share."""
    if column is None:
        return fixed
    values = column.to_pylist()
    if fixed is None or not column.null_count:
        return values
    return [fixed if value is None else value for value in values]


def _bodies(column: pa.Array) -> list[bytes]:
    import pyarrow as pa

    if column.null_count:
        raise OptionError("column body is null in a row: a message needs a body")
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    bodies: list[bytes] = column.to_pylist()
    return bodies


def _dues(columns: Mapping[str, pa.Array], fixed: Fixed) -> Any:
    """Return when rows are due: one value for all, or a list; None means now."""
    import pyarrow as pa

    if "deliver_at" in columns:
        return _filled(columns["deliver_at"], fixed.deliver_at)
    if "delay" not in columns:
        return fixed.delay if fixed.delay is not None else fixed.deliver_at
    column = columns["delay"]
    values = column.to_pylist()
    if pa.types.is_integer(column.type):
        values = [None if value is None else timedelta(milliseconds=value) for value in values]
    # No wait at all is no delay: such a row travels with the others.
    return [(fixed.delay if value is None else value) or None for value in values]


def _texts(columns: Mapping[str, pa.Array], fixed: Fixed, count: int) -> list[str]:
    """Return the property text of each row, made column by column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[Any] = []
    pairs = 0
    for name, values in (
        (TAG, _words(columns.get("tag"), fixed.tag)),
        (KEYS, _words(_keys(columns.get("keys")), fixed.keys)),
        (ORDERING_KEY, _words(columns.get("ordering_key"), fixed.ordering_key)),
    ):
        if isinstance(values, str):
            if values:
                parts.append(pa.scalar(f"{name}{MIDDLE}{values}{END}"))
                pairs += count
        elif values is not None:
            made = pc.binary_join_element_wise(name + MIDDLE, values, END, "")
            parts.append(pc.fill_null(made, ""))
            pairs += count - values.null_count
    if "properties" in columns:
        made, given = _properties(columns["properties"])
        parts.append(made)
        pairs += given
    for name, value in fixed.properties.items():
        parts.append(pa.scalar(f"{name}{MIDDLE}{value}{END}"))
        pairs += count
    if not parts:
        return [""] * count
    joined = pc.binary_join_element_wise(*parts, "")
    texts: list[str] = joined.to_pylist() if isinstance(joined, pa.Array) else [joined.as_py()] * count
    check_texts(texts, pairs)
    return texts


def _words(column: pa.Array | None, fixed: str) -> Any:
    """Return a column with empty texts as nulls and nulls filled, or the text that all rows share."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is None:
        return fixed
    empty = pc.equal(column, "")
    column = pc.if_else(pc.fill_null(empty, False), pa.scalar(None, pa.string()), column)
    return pc.fill_null(column, fixed) if fixed else column


def _keys(column: pa.Array | None) -> pa.Array | None:
    """Return keys as one text a row, with spaces between them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is None or not pa.types.is_list(column.type):
        return column
    words = column.flatten()
    if words.null_count or pc.any(pc.equal(words, "")).as_py():
        raise OptionError("column keys holds a key that is null or empty: leave it out")
    if pc.any(pc.match_substring_regex(words, r"\s")).as_py():
        raise OptionError("column keys holds a key with a space in it: spaces separate keys, replace them")
    # Spark says of a list that its words are never null where it knows; Arrow joins only plain ones.
    return pc.binary_join(column.cast(pa.list_(pa.string())), " ")


def _properties(column: pa.Array) -> tuple[Any, int]:
    """Return the texts of a column of maps, and how many properties that are.

    Properties that the protocol owns are left out, and so are those without a value: a table that was read
    from a topic can be written as it is.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
    names, values = column.keys[first:last], column.items[first:last]
    ends = np.asarray(column.offsets) - first
    owned = pc.is_in(names, value_set=pa.array(sorted(OWNED)))
    empty = pc.or_(pc.equal(names, ""), pc.equal(pc.fill_null(values, ""), ""))
    keep = pc.invert(pc.or_(owned, empty))
    kept = np.concatenate(([0], np.cumsum(np.asarray(keep)))).astype(np.int32)
    made = pc.binary_join_element_wise(names.filter(keep), MIDDLE, values.filter(keep), END, "")
    lists = pa.ListArray.from_arrays(pa.array(kept[ends]), made)
    texts = pc.binary_join(lists, "")
    return pc.fill_null(texts, ""), len(made)
