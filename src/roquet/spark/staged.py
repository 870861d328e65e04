"""Delivery exactly once: rows are staged as halves, and a batch becomes visible as a whole or not at all.

    task    write  ─▶ halves, marked query/batch/partition/attempt ─▶ their places, to the driver
    driver  commit ─▶ `prepared` in the query's log (the commit point) ─▶ every half is ended ─▶ `committed`
            abort  ─▶ halves are rolled back, unless they are in a `prepared`

A batch that runs again finds what became of it before: committed, then the new halves are rolled back;
prepared, then that one is finished, whoever began it. Halves that nobody knows of any more (lost tasks)
stay invisible until brokers drop them. `committing` does the driver's part, `manifest` knows the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from roquet.client.core.bulk import pair
from roquet.client.errors import RoquetError
from roquet.client.producer.staging import Staged as Half
from roquet.client.producer.staging import Staging
from roquet.model.route import QueueName
from roquet.runtime.background import shared
from roquet.spark import committing, manifest
from roquet.spark.committing import Rules
from roquet.spark.options import OptionError
from roquet.spark.outbox import Wires, queue_of
from roquet.spark.rows import Fixed, Group, groups

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("roquet.spark")

MARK: Final = "ROQUET_STAGED"
"""The property that says whose a row is."""

BATCH_EPOCH: Final = 0
"""A batch write is one batch."""


class Mark(NamedTuple):
    """Whose rows they are: one attempt of one task of one batch."""

    query: str
    epoch: int
    partition: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.query}/{self.epoch}/{self.partition}/{self.attempt}"


class Staged(WriterCommitMessage):
    """What a task has staged: where its halves lie."""

    def __init__(self, mark: Mark, stage: str, runs: list[manifest.Run]) -> None:
        self.mark = mark
        self.stage = stage
        self.runs = runs

    @property
    def rows(self) -> int:
        return manifest.rows_of(self.runs)


class Stages:
    """What tasks do: stage rows, and take them back when that fails."""

    def __init__(self, wires: Wires, fixed: Fixed, rules: Rules, query: str) -> None:
        self.wires = wires
        self.rules = rules
        self.query = query
        self._fixed = fixed

    def stage(self, batches: Iterator[pa.RecordBatch], mark: Mark) -> Staged:
        """Stage a task's rows; after an error those that were staged are rolled back."""
        task = _Task(self.wires, self.rules, mark)
        background = shared()
        background.run(task.open())
        try:
            for batch in batches:
                for group in groups(batch, self._fixed):
                    background.run(task.stage(group))
            return Staged(mark, uuid4().hex, task.runs())
        except BaseException:
            background.run(task.take_back())
            raise
        finally:
            background.run(task.close())


class _Task:
    """One attempt of one task, on the event loop."""

    def __init__(self, wires: Wires, rules: Rules, mark: Mark) -> None:
        self._wires = wires
        self._rules = rules
        self._text = pair(MARK, str(mark))
        self._places: dict[tuple[str, str], list[bytes]] = {}
        self._turn = mark.partition

    async def open(self) -> None:
        self._cluster = self._wires.cluster()
        await self._cluster.open()
        self._bulk = self._wires.bulk(self._cluster)
        self._staging = Staging(
            self._bulk, self._wires.group, timeout_s=self._wires.timeout_s, retries=self._wires.retries
        )

    async def close(self) -> None:
        await self._cluster.close()

    async def stage(self, group: Group) -> None:
        queues = await self._bulk.queues(group.topic)
        if self._rules.on_apache == "refuse":
            for broker in sorted({queue.broker_name for queue in queues}):
                if not await self._staging.ends_many(broker, group.topic):
                    raise OptionError(committing.promise(broker))
        targets: list[QueueName | None] = []
        if group.queue_ids or group.ordering_keys:
            self._turn += 1
            targets = [queue_of(group, row, queues, self._turn) for row in range(len(group.bodies))]
        texts = [self._text + text for text in group.texts]
        found: dict[int, Half] = {}
        try:
            await self._staging.stage(
                group.topic, group.bodies, texts, targets, self._rules.immunity_s, found
            )
        finally:
            places: dict[str, list[bytes]] = {}
            for row in sorted(found):
                broker, place = found[row]
                places.setdefault(broker, []).append(committing.PLACE.pack(*place))
            for broker, packed in places.items():
                self._places.setdefault((broker, group.topic), []).append(b"".join(packed))

    def runs(self) -> list[manifest.Run]:
        return [manifest.Run(*where, b"".join(places)) for where, places in sorted(self._places.items())]

    async def take_back(self) -> None:
        try:
            await committing.roll_back(self._staging, self.runs())
        except RoquetError as error:
            log.warning("staged rows of a failed task stay, invisible, until brokers drop them: %s", error)


class StagedBatchSink(DataSourceArrowWriter):
    """Writes a table exactly once."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._stages.stage(iterator, _mark_of_batch(self._stages.query))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._stages, self._stages.query, BATCH_EPOCH, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._stages, self._stages.query, BATCH_EPOCH, messages)


class StagedStreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each exactly once."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._stages.stage(iterator, _mark_of_stream())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if query := _query_of(messages):
            _commit(self._stages, query, batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if query := _query_of(messages):
            _abort(self._stages, query, batchId, messages)


def staging_of(given: Mapping[str, Any], fixed: Fixed, wires: Wires) -> Stages:
    """Return what the writers of exactly-once share."""
    immunity_s = int(given["transactionTimeout"].total_seconds())
    rules = Rules(given["manifestTopic"], immunity_s, given["onApache"])
    return Stages(wires, fixed, rules, given["queryId"] or f"batch-{uuid4()}")


def finish(wires: Wires, rules: Rules, query: str) -> int:
    """Make visible what a query had committed when its driver died; returns the batch, or -1 for none.

    A stream does this by itself when it is started again; a batch write has no successor.
    """
    return shared().run(committing.finish(wires, rules, query))


def _commit(stages: Stages, query: str, epoch: int, messages: list[WriterCommitMessage | None]) -> None:
    found = _staged(messages)
    if len(found) < len(messages):
        raise AssertionError("a batch is committed when all of its tasks are done")
    handed = {each.stage: each.runs for each in found}
    shared().run(committing.commit(stages.wires, stages.rules, query, epoch, handed))


def _abort(stages: Stages, query: str, epoch: int, messages: list[WriterCommitMessage | None]) -> None:
    handed = {each.stage: each.runs for each in _staged(messages)}
    shared().run(committing.abort(stages.wires, stages.rules, query, epoch, handed))


def _staged(messages: list[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _query_of(messages: list[WriterCommitMessage | None]) -> str:
    """Return the query's name as its tasks saw it; empty when there is none, and then there is no row."""
    return next((each.mark.query for each in _staged(messages)), "")


def _mark_of_batch(query: str) -> Mark:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "tasks write"
    return Mark(query, BATCH_EPOCH, task.partitionId(), task.attemptNumber())


def _mark_of_stream() -> Mark:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "tasks write"
    query, epoch = (
        task.getLocalProperty("sql.streaming.queryId"),
        task.getLocalProperty("streaming.sql.batchId"),
    )
    if not query or epoch is None:
        raise OptionError("Spark does not say which batch this is: delivery=exactly-once needs Spark 4.2")
    return Mark(query, int(epoch), task.partitionId(), task.attemptNumber())
