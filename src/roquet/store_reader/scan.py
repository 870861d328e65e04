"""Reading a range: its bytes in blocks, its records as Arrow batches, its damage reported.

Damage is a place where no sound record begins although sound ones follow, a compressed body that does not
open, or a part of the log that is in no file although one follows. By choice it is an error, it is stepped
over with a warning, or it is a row of its own with `log_offset` and `damage` and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from roquet.arrow import COLUMNS, record_columns, rows_that_open, to_batch
from roquet.arrow import schema as message_schema
from roquet.client.compression import inflate
from roquet.store.format.columns import Columns, read_columns
from roquet.store.format.record import Stop
from roquet.store_reader.files import BLOCK_BYTES, LogBytes, fault_at, next_record
from roquet.store_reader.plan import Filter, Range, joined, plan

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("roquet.store_reader")

Damaged = Literal["error", "skip", "column"]
DAMAGE: Final = "damage"
ROWS: Final = 10_000


class DamagedStore(ValueError):
    """Bytes in the middle of the log that are no record."""


def schema(columns: Sequence[str] = COLUMNS, damaged: Damaged = "error") -> pa.Schema:
    """Return the schema of the batches that `read` gives."""
    import pyarrow

    found = message_schema(columns)
    return found.append(pyarrow.field(DAMAGE, pyarrow.string())) if damaged == "column" else found


def read(
    path: str,
    *,
    topics: Sequence[str] = (),
    queue_ids: Sequence[int] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    columns: Sequence[str] = COLUMNS,
    rows: int = ROWS,
    damaged: Damaged = "error",
    verify: bool = True,
    broker: str = "",
) -> Iterator[pa.RecordBatch]:
    """Read a store in batches of up to `rows` rows, as it is now.

    `since` and `until` are datetimes of storing. `verify` compares each body with its checksum. Files do
    not know the name of their broker: `broker` fills that column.
    """
    wanted = Filter(tuple(topics), tuple(queue_ids), since, until)
    for part in joined(plan(path, wanted)):
        yield from read_range(
            part, wanted, columns=columns, rows=rows, damaged=damaged, verify=verify, broker=broker
        )


def read_range(
    part: Range,
    wanted: Filter,
    *,
    columns: Sequence[str] = COLUMNS,
    rows: int = ROWS,
    damaged: Damaged = "error",
    verify: bool = True,
    broker: str = "",
) -> Iterator[pa.RecordBatch]:
    """Read the records that begin in one range."""
    names = [name for name in columns if name != DAMAGE]
    for found in _scan(part, wanted, record_columns(names), rows, damaged, verify):
        if isinstance(found, Columns):
            batch = to_batch(found, names, broker)
            yield _with_damage(batch) if damaged == "column" else batch
        else:
            yield _damage_row(names, *found)


def _scan(
    part: Range, wanted: Filter, columns: Sequence[str], rows: int, damaged: Damaged, verify: bool
) -> Iterator[Columns | tuple[int, str]]:
    """Yield rows, and the places and reasons of damage.

    Damage belongs to the range of the record before it, so that it is told once.
    """
    yield from _records(part, wanted, columns, rows, damaged, verify)
    if part.missing_bytes:
        what = f"{part.missing_bytes} bytes at {part.end}, behind {part.file.path}, are in no file"
        yield from _told(part.end, what, damaged)


def _records(
    part: Range, wanted: Filter, columns: Sequence[str], rows: int, damaged: Damaged, verify: bool
) -> Iterator[Columns | tuple[int, str]]:
    sieve = wanted.sieve()
    size_bytes = BLOCK_BYTES
    with LogBytes(part.file) as source:
        position: int | None = part.begin
        if part.begin != part.file.begin:
            position = next_record(source, part.begin, part.end)
        while position is not None and position < part.end:
            data = source.read(position, size_bytes)
            at = 0
            walk = partial(
                read_columns, data, stop_at=part.end - position, sieve=sieve, log_offset=position,
                check_crc=verify, inflate=inflate,
            )  # fmt: skip
            while True:
                found, reason = rows_that_open(partial(_walked, walk, at, columns), rows)
                if found is not None:
                    at = found.position
                    if found.rows:
                        yield found
                if reason:
                    closed = walk(at, ("log_offset",), rows_max=1)
                    (place,) = memoryview(closed.buffers["log_offset"][0]).cast("q")
                    words = f"the body of the record at {place} of {part.file.path} cannot be read: {reason}"
                    yield from _told(place, words, damaged)
                    at = closed.position
                elif found is not None and found.rows < rows:
                    break
            position, size_bytes = position + at, BLOCK_BYTES
            if found.stop is Stop.FILE_END or len(data) < 8:
                return
            fault = found.fault or "zeros"
            if found.stop is Stop.MORE:
                claimed = int.from_bytes(data[:4], "big") if not at else 0
                if claimed <= part.file.end - position:
                    size_bytes = max(claimed, BLOCK_BYTES)
                    continue
                fault = f"it claims {claimed} bytes, more than the file has left"
            beyond = next_record(source, position + 1, part.file.end)
            yield from _report(part, position, beyond, fault, damaged)
            position = beyond
        if position is not None and position < min(part.limit, part.file.end):
            fault = fault_at(source, position)
            if fault:
                beyond = next_record(source, position + 1, part.file.end)
                yield from _report(part, position, beyond, fault, damaged)


def _walked(walk: Callable[..., Columns], at: int, columns: Sequence[str], rows_max: int) -> Columns:
    return walk(at, columns, rows_max=rows_max)


def _report(
    part: Range, position: int, beyond: int | None, fault: str, damaged: Damaged
) -> Iterator[tuple[int, str]]:
    size = (part.end if beyond is None else beyond) - position
    words = f"{size} bytes at {position} of {part.file.path} are no record: {fault}"
    yield from _told(position, words, damaged)


def _told(position: int, words: str, damaged: Damaged) -> Iterator[tuple[int, str]]:
    if damaged == "error":
        raise DamagedStore(f'{words}; read with damaged="skip" or damaged="column" to go on behind them')
    log.warning("%s", words)
    if damaged == "column":
        yield position, words


def _with_damage(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow

    return batch.append_column(DAMAGE, pyarrow.nulls(batch.num_rows, pyarrow.string()))


def _damage_row(names: Sequence[str], position: int, words: str) -> pa.RecordBatch:
    import pyarrow

    row: dict[str, Any] = dict.fromkeys(names) | {DAMAGE: words}
    if "log_offset" in row:
        row["log_offset"] = position
    return pyarrow.RecordBatch.from_pylist([row], schema=schema(names, "column"))
