"""What the tests of the source share: topics with messages in them, and rows that came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

import roquet.sync
from roquet.arrow import COLUMNS
from roquet.client.message import Outgoing
from roquet.model.route import QueueName
from roquet.spark.batch import RoquetReader
from roquet.spark.source import how_of
from roquet.spark.source_options import read_options
from roquet.spark.stream import RoquetStreamReader
from roquet.testing import ThreadedBroker

BROKER = "broker-a"
WAIT_S = 60.0
Place = tuple[str, int, int]


def queue(topic: str, queue_id: int = 0) -> QueueName:
    """Return the name of a queue at the only broker."""
    return QueueName(BROKER, queue_id, topic)


class Shop:
    """Writes to one cluster, and reads from it as Spark would; use it with `with`."""

    broker: ThreadedBroker

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self.sent: list[Place] = []
        self._producer = roquet.sync.Producer(namesrv, timeout=20.0)
        self.admin = roquet.sync.Admin(namesrv, timeout=20.0)

    def __enter__(self) -> Self:
        self._producer.__enter__()
        self.admin.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.__exit__(kind, error, trace)
        self._producer.__exit__(kind, error, trace)

    def topic(self, name: str, queues: int = 1) -> None:
        self.admin.topics.create(name, queues=queues)

    def send(self, topic: str, count: int, queue_id: int = 0, **how: Any) -> None:
        """Send messages `<topic> <queue> <offset>` to one queue."""
        before = sum(1 for place in self.sent if place[:2] == (topic, queue_id))
        for number in range(before, before + count):
            body = how.get("body", f"{topic} {queue_id} {number}".encode())
            more = {name: value for name, value in how.items() if name != "body"}
            self._producer.send(topic, body, queue=queue(topic, queue_id), **more)
            self.sent.append((topic, queue_id, number))

    def fill(self, topic: str, count: int) -> None:
        """Send many messages in batches, to whatever queues the producer takes."""
        self._producer.send_many(Outgoing(topic=topic, body=b"%d" % number) for number in range(count))

    # --- readers as plain classes

    def options(self, **given: str) -> dict[str, str]:
        return {"namesrv": self.namesrv, "retryInterval": "1ms", "timeout": "30s", **given}

    def batch(self, names: Sequence[str] = COLUMNS, **given: str) -> RoquetReader:
        options = read_options(self.options(**given), "batch")
        return RoquetReader(options, how_of(options, names))

    def stream(self, names: Sequence[str] = COLUMNS, **given: str) -> RoquetStreamReader:
        options = read_options(self.options(**given), "stream")
        return RoquetStreamReader(options, how_of(options, names))

    def read(self, names: Sequence[str] = COLUMNS, **given: str) -> pa.Table:
        return table(self.batch(names, **given))


def table(reader: DataSourceReader) -> pa.Table:
    """Return all rows of a batch."""
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def between(reader: DataSourceStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Place]:
    """Return where the rows of one micro-batch come from."""
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return places(pa.Table.from_batches(batches)) if batches else []


def places(rows: pa.Table) -> list[Place]:
    """Return where rows come from."""
    if not rows.num_rows:
        return []
    columns = (rows[name].to_pylist() for name in ("topic", "queue_id", "queue_offset"))
    return list(zip(*columns, strict=True))


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is so; fails when it is not so in time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.1)
