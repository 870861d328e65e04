"""Message traces, read: the text that clients send to the trace topic, as values; pure.

    Pub ─ SubBefore ─ SubAfter       what happened to one message: sent, handed to a consumer, done with

The counterpart of `roquet.client.core.trace_text`, which writes them and has the drawing of the fields.
Clients of several ages write: fields that older ones lack are filled, records of a kind that is not known
are counted and left out. Reference: TraceDataEncoder of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from roquet.client.core.trace_text import END, FIELD

if TYPE_CHECKING:
    import pyarrow as pa

NULL: Final = "null"

SCHEMA: Final = (
    "kind string, when timestamp, group_name string, topic string, message_id string, request_id string, "
    "cost_ms bigint, is_ok boolean, retries int, client string, carried timestamp"
)
"""A record in Spark's words. `carried` is when the message with the record was stored."""


class Seen(NamedTuple):
    """One record; what its kind does not tell is empty."""

    kind: str
    when_ms: int | None
    group: str
    topic: str
    message_id: str
    request_id: str
    cost_ms: int
    is_ok: bool
    retries: int


def read_records(text: str) -> Iterator[Seen | None]:
    """Yield the records of a message's body; None for one that cannot be read."""
    for record in text.split(END):
        if record:
            try:
                yield _record(record.split(FIELD))
            except (IndexError, ValueError):
                yield None


def _record(fields: list[str]) -> Seen | None:
    match fields[0]:
        case "Pub":
            is_ok = fields[-1] == "true" if len(fields) >= 14 else True
            return Seen("pub", int(fields[1]), _word(fields[3]), fields[4], fields[5], "",
                        int(fields[10]), is_ok, 0)  # fmt: skip
        case "SubBefore":
            retries = int(fields[6]) if len(fields) > 6 and fields[6] != NULL else 0
            return Seen(
                "before", int(fields[1]), _word(fields[3]), "", fields[5], fields[4], 0, True, retries
            )
        case "SubAfter":
            when_ms = int(fields[7]) if len(fields) > 7 else None
            group = _word(fields[8]) if len(fields) > 8 else ""
            return Seen("after", when_ms, group, "", fields[2], fields[1], int(fields[3]),
                        fields[4] == "true", 0)  # fmt: skip
        case "EndTransaction":
            is_ok = fields[11] == "COMMIT_MESSAGE"
            return Seen("end", int(fields[1]), _word(fields[3]), fields[4], fields[5], "", 0, is_ok, 0)
        case "Recall":
            return Seen("recall", int(fields[1]), _word(fields[3]), fields[4], fields[5], "", 0,
                        fields[6] == "true", 0)  # fmt: skip
        case _:
            return None


def _word(text: str) -> str:
    return "" if text == NULL else text


def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn messages (body, born_host, store_time) into records; what cannot be read has the kind `bad`."""
    import pyarrow as pa

    time = pa.timestamp("us", "UTC")
    types = [pa.string(), time, *[pa.string()] * 4, pa.int64(), pa.bool_(), pa.int32(), pa.string(), time]
    names = [part.split()[0] for part in SCHEMA.split(", ")]
    for batch in batches:
        columns: list[list[object]] = [[] for _ in names]
        bodies = batch.column("body").to_pylist()
        hosts = batch.column("born_host").to_pylist()
        stored = batch.column("store_time").to_pylist()
        for body, host, carried in zip(bodies, hosts, stored, strict=True):
            for seen in read_records(body.decode("utf-8", "replace")):
                row = _bad() if seen is None else seen
                when = None if row.when_ms is None else row.when_ms * 1000
                values = (row.kind, when, *row[2:], host, carried)
                for column, value in zip(columns, values, strict=True):
                    column.append(value)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _bad() -> Seen:
    return Seen("bad", None, "", "", "", "", 0, False, 0)
