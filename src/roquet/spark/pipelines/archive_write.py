"""What tasks of an archive do: Arrow batches into Parquet files by topic and day, and back into batches.

    batches ─▶ split by (topic, day of storing) ─▶ held until a row group is worth it ─▶ one file each
                                                                                        ─▶ a line about it

A file's name is made of a random id, so that two attempts of one task never touch each other's; which of
them counts is the driver's decision. What is held in memory is bounded, however many topics there are.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from roquet.arrow import COLUMNS
from roquet.arrow import schema as message_schema
from roquet.spark.pipelines.archive_files import Filed, Place, Span, folder_of, merged_spans
from roquet.spark.pipelines.summary import Refused

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_BYTES: Final = 32 << 20
HELD_BYTES_MAX: Final = 128 << 20
"""Of all files that a task writes; beyond it the fullest is written out."""
READ_ROWS: Final = 10_000

LINE_SCHEMA: Final = "file string"
"""What tasks return to the driver, in Spark's words: lines of a manifest."""

STORED: Final = tuple(name for name in COLUMNS if name != "topic")
"""The columns within a file: topic and day are in its folder's name."""


def file_schema() -> pa.Schema:
    """Return the schema of a file."""
    return message_schema(STORED)


@dataclass(slots=True)
class _Open:
    """A file that is being written."""

    topic: str
    day: str
    name: str
    staged: str
    writer: Any
    held: list[pa.Table] = field(default_factory=list)
    held_bytes: int = 0
    rows: int = 0
    spans: dict[tuple[str, int], Span] = field(default_factory=dict)
    first_time: str = ""
    last_time: str = ""


class FileWriter:
    """Writes the rows of one task into files."""

    def __init__(self, place: Place, folder: str) -> None:
        """`folder`, within the archive, is where the files go until they are committed."""
        self._place = place
        self._folder = folder
        self._open: dict[tuple[str, str], _Open] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        import pyarrow as pa

        table = pa.Table.from_batches([batch]).select(list(COLUMNS))
        for topic, day, part in split(table):
            file = self._open.get((topic, day))
            if file is None:
                file = self._open[topic, day] = self._begin(topic, day)
            _note(file, part)
            file.held.append(part.drop_columns(["topic"]))
            file.held_bytes += part.nbytes
            if file.held_bytes >= ROW_GROUP_BYTES:
                _flush(file)
        while sum(each.held_bytes for each in self._open.values()) > HELD_BYTES_MAX:
            _flush(max(self._open.values(), key=lambda each: each.held_bytes))

    def close(self) -> list[Filed]:
        """Finish all files and tell about them."""
        return [self._end(each) for each in self._open.values()]

    def _begin(self, topic: str, day: str) -> _Open:
        from pyarrow.parquet import ParquetWriter

        name = f"{uuid.uuid4().hex}.parquet"
        staged = f"{self._folder}/{name}"
        self._place.files.create_dir(self._place.at(self._folder), recursive=True)
        writer = ParquetWriter(
            self._place.at(staged), file_schema(), filesystem=self._place.files, compression="zstd"
        )
        return _Open(topic, day, f"{folder_of(topic, day)}/{name}", staged, writer)

    def _end(self, file: _Open) -> Filed:
        _flush(file)
        file.writer.close()
        self._place.sync(self._place.at(file.staged))
        size_bytes = self._place.files.get_file_info(self._place.at(file.staged)).size
        spans = tuple(file.spans[key] for key in sorted(file.spans))
        times = file.first_time, file.last_time
        return Filed(file.name, file.topic, file.day, file.rows, size_bytes, spans, *times, file.staged)


def split(table: pa.Table) -> Iterator[tuple[str, str, pa.Table]]:
    """Yield the rows of each topic and day, in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    days = pc.cast(table["store_time"], pa.date32())
    keys = pa.table({"topic": table["topic"], "day": days})
    pairs = keys.group_by(["topic", "day"]).aggregate([]).to_pylist()
    for pair in sorted(pairs, key=lambda each: (each["topic"], each["day"])):
        if len(pairs) > 1:
            is_it = pc.and_(pc.equal(table["topic"], pair["topic"]), pc.equal(days, pair["day"]))
            yield pair["topic"], pair["day"].isoformat(), table.filter(is_it)
        else:
            yield pair["topic"], pair["day"].isoformat(), table


def _note(file: _Open, part: pa.Table) -> None:
    """Remember which offsets and times a file has."""
    import pyarrow.compute as pc

    file.rows += part.num_rows
    ranges = part.group_by(["broker", "queue_id"]).aggregate(
        [("queue_offset", "min"), ("queue_offset", "max")]
    )
    for row in ranges.to_pylist():
        key = row["broker"], row["queue_id"]
        start, end = row["queue_offset_min"], row["queue_offset_max"] + 1
        known = file.spans.get(key, Span(*key, start, end))
        file.spans[key] = known._replace(start=min(known.start, start), end=max(known.end, end))
    times = pc.min_max(part["store_time"]).as_py()
    first, last = times["min"].isoformat(), times["max"].isoformat()
    file.first_time = min(file.first_time or first, first, key=_moment)
    file.last_time = max(file.last_time or last, last, key=_moment)


def _moment(text: str) -> Any:
    from datetime import datetime

    return datetime.fromisoformat(text)


def _flush(file: _Open) -> None:
    import pyarrow as pa

    if file.held:
        file.writer.write_table(pa.concat_tables(file.held).cast(file_schema()))
        file.held.clear()
        file.held_bytes = 0


def write_batches(batches: Iterable[pa.RecordBatch], place: Place, folder: str) -> Iterator[pa.RecordBatch]:
    """Write a task's rows into files and yield a line about each of them."""
    writer = FileWriter(place, folder)
    for batch in batches:
        if batch.num_rows:
            writer.add(batch)
    yield _lines(writer.close())


def _lines(files: Sequence[Filed]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"file": pa.array([each.line() for each in files], pa.string())})


def filed(lines: Iterable[str]) -> list[Filed]:
    """Return the files that tasks told about."""
    return sorted(Filed.of(json.loads(line)["add"]) for line in lines)


def join_files(batches: Iterable[pa.RecordBatch], place: Place, folder: str) -> Iterator[pa.RecordBatch]:
    """Write the files of each row, a JSON list in the column `files`, into one; yield a line about each."""
    for batch in batches:
        for text in batch.column("files").to_pylist():
            group = [Filed.of(each) for each in json.loads(text)]
            writer = FileWriter(place, folder)
            for part in read_files(group, place, COLUMNS):
                writer.add(part)
            (joined,) = writer.close()
            assert joined.spans == merged_spans(group), "the joined file has what its parts had"
            yield _lines([joined])


def read_files(files: Iterable[Filed], place: Place, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files as batches with these columns; raises Refused for one that is not right."""
    import pyarrow as pa

    schema = message_schema(names)
    inside = [name for name in names if name != "topic"]
    for each in files:
        for batch in _batches_of(each, place, inside):
            columns = {name: batch.column(name) for name in inside}
            if "topic" in names:
                columns["topic"] = pa.repeat(pa.scalar(each.topic, pa.string()), batch.num_rows)
            arrays = [columns[name].cast(schema.field(name).type) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _batches_of(file: Filed, place: Place, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with place.files.open_input_file(place.at(file.path)) as stream:
            yield from ParquetFile(stream).iter_batches(READ_ROWS, columns=list(names))
    except (OSError, pa.ArrowException) as error:
        raise Refused(f"{file.path} of the archive cannot be read: {error}") from None
