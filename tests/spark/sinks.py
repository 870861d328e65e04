"""What the tests of the sink share: tables to write, and what became visible of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

import roquet.sync
from roquet.arrow import read_batch
from roquet.client.errors import NoRoute
from roquet.store.format.columns import Sieve

SCHEMA = StructType([StructField("body", BinaryType()), StructField("keys", StringType())])


def rows(first: int, count: int, at_once: int = 1_000) -> Iterator[pa.RecordBatch]:
    """Yield rows whose key is their number."""
    for start in range(first, first + count, at_once):
        numbers = range(start, min(start + at_once, first + count))
        yield pa.record_batch(
            {
                "body": pa.array([b"row %d" % number for number in numbers]),
                "keys": pa.array([str(number) for number in numbers]),
            }
        )


class Broken(Exception):
    """What a task dies of."""


def breaking(batches: Iterator[pa.RecordBatch], after: int) -> Iterator[pa.RecordBatch]:
    """Yield some batches, then fail."""
    for number, batch in enumerate(batches):
        if number == after:
            raise Broken("in the middle of a task")
        yield batch


def visible(namesrv: str, topic: str, columns: Sequence[str] = ("keys",)) -> list[tuple[object, ...]]:
    """Return every message of a topic as a consumer would get it, queue by queue."""
    found: list[tuple[object, ...]] = []
    with roquet.sync.Reader(namesrv) as reader:
        try:
            queues = reader.queues(topic)
        except NoRoute:
            return []
        for queue in queues:
            offset, end = 0, reader.max_offset(queue)
            while offset < end:
                page = reader.read_raw(queue, offset)
                position = 0
                while position < len(page.data):
                    batch, position = read_batch(
                        page.data, position, columns, queue.broker_name, 10_000, Sieve()
                    )
                    found += zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
                offset = page.next_offset
    return found


def counted(namesrv: str, topic: str) -> Counter[str]:
    """Return how often each key is visible."""
    return Counter(" ".join(keys) for (keys,) in visible(namesrv, topic))  # type: ignore[arg-type]


def once(first: int, count: int) -> Counter[str]:
    """Return what `counted` gives when every row is there once."""
    return Counter(str(number) for number in range(first, first + count))


def until(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Wait for something that a server does by itself."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s} s"
        time.sleep(0.02)
