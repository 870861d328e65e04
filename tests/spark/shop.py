"""What the tests of the source share: topics with messages in them, and rows that came out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
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
WAIT_S = 180.0
LOG_FILE_BYTES = 8 << 20
"""Small enough that a test can fill one file of a broker's log and have it deleted."""
Place = tuple[str, int, int]

_numbers = itertools.count()


def queue(topic: str, queue_id: int = 0) -> QueueName:
    """Return the name of a queue at the only broker."""
    return QueueName(BROKER, queue_id, topic)


class Shop:
    """Writes to one cluster, and reads from it as Spark would; use it with `with`."""

    broker: ThreadedBroker
    is_ours = False
    """The broker runs in this process on a clock of its own; others are shared, and file messages late."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self.sent: list[Place] = []
        self._producer = roquet.sync.Producer(namesrv, timeout=20.0)
        self._reader = roquet.sync.Reader(namesrv, timeout=20.0)
        self.admin = roquet.sync.Admin(namesrv, timeout=20.0)

    def __enter__(self) -> Self:
        self._producer.__enter__()
        self._reader.__enter__()
        self.admin.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.__exit__(kind, error, trace)
        self._reader.__exit__(kind, error, trace)
        self._producer.__exit__(kind, error, trace)

    def topic(self, name: str, queues: int = 1) -> None:
        self.admin.topics.create(name, queues=queues)

    def fresh(self, stem: str, queues: int = 1) -> str:
        """Create a topic that no other test uses, and return its name."""
        name = f"{stem}-{next(_numbers)}"
        self.topic(name, queues)
        return name

    def send(self, topic: str, count: int, queue_id: int = 0, broker: str = BROKER, **how: Any) -> None:
        """Send messages `<topic> <queue> <offset>` to one queue; returns when they can be read."""
        before = sum(1 for place in self.sent if place[:2] == (topic, queue_id))
        where = QueueName(broker, queue_id, topic)
        for number in range(before, before + count):
            body = how.get("body", f"{topic} {queue_id} {number}".encode())
            more = {name: value for name, value in how.items() if name != "body"}
            last = self._producer.send(topic, body, queue=where, **more)
            self.sent.append((topic, queue_id, number))
        if not self.is_ours:
            filed = partial(self._reader.max_offset, where)
            wait_for(lambda: filed() > last.queue_offset, "the broker has filed the messages", pause_s=0.01)

    def bounds(self, topic: str, queue_id: int = 0) -> tuple[int, int]:
        """Return both ends of a queue."""
        return self._reader.bounds(queue(topic, queue_id))[:2]

    def later(self) -> datetime:
        """Let time pass, and return the time that the broker has then: all that it stores now is later."""
        if self.is_ours:
            self.broker.advance(timedelta(hours=1))
            return self.broker.now()
        now = datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000) + timedelta(milliseconds=2)
        wait_for(lambda: datetime.now(UTC) > now, "the clock goes on", pause_s=0.001)
        return now

    def forget(self, topic: str, queue_id: int = 0) -> int:
        """Have the broker delete all full files of its log by age, and return where the queue begins then."""
        if self.is_ours:
            self.broker.advance(timedelta(hours=2))
        else:
            self.admin.cluster.update_settings({"fileReservedTime": "0"}, broker=BROKER)
        self.admin.cluster.delete_expired_log(broker=BROKER)
        wait_for(lambda: self._is_last_file_alone(topic, queue_id), "the oldest messages are deleted")
        if not self.is_ours:
            self.admin.cluster.update_settings({"fileReservedTime": "72"}, broker=BROKER)
        return self.bounds(topic, queue_id)[0]

    def _is_last_file_alone(self, topic: str, queue_id: int) -> bool:
        runtime = self.admin.cluster.runtime(BROKER)
        if runtime.log_min_offset // LOG_FILE_BYTES < (runtime.log_max_offset - 1) // LOG_FILE_BYTES:
            return False
        first = self.bounds(topic, queue_id)[0]  # queues learn of it a little later
        page = self._reader.read(queue(topic, queue_id), first, max=1)
        return [message.queue_offset for message in page.messages] == [first]

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


def as_java(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return rows, by their mark, as a Java consumer of `mix-kinds` tells of its messages."""
    found = {}
    for row in rows:
        properties = dict(row["properties"])
        assert properties["mark"] not in found, "each once"
        found[properties["mark"]] = {
            "topic": row["topic"],
            "body": row["body"].decode(),
            "tag": row["tag"],
            "keys": " ".join(row["keys"]),
            "flag": row["flag"],
            "colour": properties["colour"],
            "queue": row["queue_id"],
            "id": row["message_id"],
        }
    return found


def wait_for(condition: Callable[[], bool], what: str, pause_s: float = 0.1) -> None:
    """Wait until something is so; fails when it is not so in time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(pause_s)
