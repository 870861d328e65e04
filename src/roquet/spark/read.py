"""What a task does: read ranges of queues with several requests under way, and yield Arrow batches.

    ranges ─▶ chunks, as long as the broker's answers ─▶ up to `pipeline` pulls at once ─▶ bytes, in order
           ─▶ blocks of a few MiB ─▶ roquet.arrow ─▶ tags compared, values decoded ─▶ RecordBatch

How much a broker gives at once is learned from its first answer: thousands of messages from ours, 32 from
Apache's. Memory is bounded by the pipeline: a chunk that turns out larger is left half read until its turn.
No object is made for a message. Knows nothing of drivers, checkpoints or schemas.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from roquet.arrow import read_batch, rows_that_open
from roquet.client.reader.reader import RawPage, Reader, Status
from roquet.model.route import QueueName
from roquet.spark.access import Access, Turns, report_loss
from roquet.spark.plan import Range
from roquet.spark.values import ValueReader
from roquet.store.format.columns import EVERY, OFFSET_MAX, Sieve

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES: Final = 3 << 20
"""Bytes that are turned into rows together: about ten thousand small messages."""

QUEUE_OFFSET_AT: Final = slice(20, 28)
"""Where a record has its queue offset: see `roquet.store.format.record`."""

FULL_BEFORE_MORE: Final = 64
"""Full answers after which a broker is asked for twice as much."""


class How(NamedTuple):
    """What is read of each message, and how; travels to every task."""

    access: Access
    names: tuple[str, ...]
    tags: str = "*"
    sql: str | None = None
    exact_tags: frozenset[str] | None = None
    """Tags compared here: brokers compare only their hashes."""
    sieve: Sieve = EVERY
    fail_on_data_loss: bool = True
    pull_messages: int = 8192
    pull_bytes: int = 1 << 20
    pipeline: int = 8
    rows: int = 10_000
    value: ValueReader | None = None


class Part(NamedTuple):
    """The records of an answer; those at `offset_end` or behind it are not wanted."""

    topic: str
    broker: str
    offset_end: int
    data: bytes


class _Done(NamedTuple):
    """What a chunk has read, and what is left of it."""

    parts: list[Part]
    left: Range | None


def read_ranges(ranges: Sequence[Range], how: How) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some ranges; within a queue they keep their order. Raises DataLost, RoquetError."""
    with Turns() as turns:
        pulls = Pulls(ranges, how)
        turns.run(pulls.open())
        try:
            while parts := turns.run(pulls.block()):
                yield from to_batches(parts, how)
        finally:
            turns.run(pulls.close())


class Pulls:
    """Reads ranges one after the other, always some answers ahead."""

    def __init__(self, ranges: Sequence[Range], how: How) -> None:
        self._how = how
        self._todo = list(reversed(ranges))
        self._cluster = how.access.cluster()
        self._reader = Reader(self._cluster)
        self._window: deque[asyncio.Task[_Done]] = deque()
        self._steps: dict[str, _Step] = {}
        self._sparse: set[QueueName] = set()

    async def open(self) -> None:
        await self._reader.open()

    async def close(self) -> None:
        """Break off what is under way, and disconnect."""
        tasks = list(self._window)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._reader.close()

    async def block(self) -> list[Part]:
        """Return the next answers, enough of them to make a batch of; none at the end."""
        parts: list[Part] = []
        size_bytes = 0
        while size_bytes < BLOCK_BYTES:
            await self._fill()
            if not self._window:
                break
            done = await self._window.popleft()
            if done.left is not None:
                self._window.appendleft(self._start(done.left))
            parts += done.parts
            size_bytes += sum(len(part.data) for part in done.parts)
        await self._fill()  # the next answers come while these are worked on
        return parts

    async def _fill(self) -> None:
        while self._todo and len(self._window) < self._how.pipeline:
            each = self._todo.pop()
            step = self._steps.get(each.queue.broker_name)
            if step is None:
                # The first answer of a broker tells how long the chunks should be, so it comes alone.
                step = self._steps[each.queue.broker_name] = _Step(self._how.pull_messages)
                task = self._start(each, is_first=True)
                await asyncio.wait((task,))
                self._window.append(task)
                continue
            cut = each.start + step.length
            if cut < each.end:
                self._todo.append(each._replace(start=cut))
                each = each._replace(end=cut)
            self._window.append(self._start(each))

    def _start(self, chunk: Range, is_first: bool = False) -> asyncio.Task[_Done]:
        return asyncio.get_running_loop().create_task(self._chunk(chunk, is_first))

    async def _chunk(self, chunk: Range, is_first: bool) -> _Done:
        """Read a chunk, or as much of it as memory allows; the first one of a broker ends with its answer."""
        queue, how = chunk.queue, self._how
        step = self._steps[queue.broker_name]
        parts: list[Part] = []
        size_bytes, at = 0, chunk.start
        while at < chunk.end and size_bytes < how.pull_bytes and not (is_first and at > chunk.start):
            asked = min(chunk.end - at, how.pull_messages)
            page = await self._page(chunk, at, asked)
            if page.status is Status.FOUND:
                step.note(asked, page.next_offset - at)
                parts.append(Part(queue.topic, queue.broker_name, _end(chunk, page), page.data))
                size_bytes += len(page.data)
            at = page.next_offset
        if is_first and at < chunk.end:  # the rest is cut into chunks like any other range
            self._todo.append(chunk._replace(start=at))
            at = chunk.end
        return _Done(parts, chunk._replace(start=at) if at < chunk.end else None)

    async def _page(self, chunk: Range, at: int, count: int) -> RawPage:
        """Return an answer that goes on behind `at`; raises DataLost when what should be there is gone."""
        how, clock = self._how, self._cluster.ports.clock

        async def pull() -> RawPage:
            return await self._reader.read_raw(
                chunk.queue, at, max_messages=count, max_bytes=how.pull_bytes, tags=how.tags, sql=how.sql
            )

        for attempt in range(how.access.retries + 1):
            page = await how.access.patiently(clock, pull)
            if page.status is Status.FOUND or page.next_offset > at:
                break
            # The queue ends here: a slave that is behind may still get what its master had.
            await clock.sleep_until(clock.monotonic() + how.access.pause_s * 2**attempt)
        else:
            what = f"{_shown(chunk)} ends at {at}, and its messages up to {chunk.end} were to be read"
            report_loss(what, how.fail_on_data_loss)
            return page._replace(status=Status.NO_MATCH, next_offset=chunk.end)
        is_lost = page.status is Status.MOVED or (page.status is Status.NO_MATCH and at < page.min_offset)
        if is_lost and not chunk.is_new:
            lost = min(page.next_offset, chunk.end) - at
            what = (
                f"{_shown(chunk)} begins at {page.next_offset} by now: {lost} messages from {at} on are gone"
            )
            report_loss(what, how.fail_on_data_loss)
        if page.status is Status.FOUND and not chunk.is_new and how.tags == "*" and how.sql is None:
            first = int.from_bytes(page.data[QUEUE_OFFSET_AT], "big")
            if first > at and chunk.queue not in self._sparse:
                await self._explain(chunk, at, first)
        return page

    async def _explain(self, chunk: Range, at: int, first: int) -> None:
        """Find out why a queue goes on at `first` instead of `at`; raises DataLost when messages are gone.

        Apache's brokers step over what they have just deleted, and tell only a moment later where the queue
        begins. A topic of which they keep the last message of each key alone has gaps all along, and these
        are no loss.
        """
        how, clock = self._how, self._cluster.ports.clock
        for attempt in range(how.access.retries + 1):
            begin = await how.access.patiently(clock, partial(self._reader.min_offset, chunk.queue))
            if begin > at:
                lost = min(first, chunk.end) - at
                what = f"{_shown(chunk)} begins at {begin} by now: {lost} messages from {at} on are gone"
                report_loss(what, how.fail_on_data_loss)
                return
            await clock.sleep_until(clock.monotonic() + how.access.pause_s * 2**attempt)
        self._sparse.add(chunk.queue)


class _Step:
    """How many offsets one answer of a broker spans; chunks have that length."""

    def __init__(self, length_max: int) -> None:
        self.length = length_max
        self._length_max = length_max
        self._full = 0

    def note(self, asked: int, got: int) -> None:
        if got != asked:  # less: that is its limit; more: it stepped over what is not wanted
            if got < asked or got > self.length:
                self.length, self._full = max(1, min(got, self._length_max)), 0
            return
        self._full += 1
        if self._full >= FULL_BEFORE_MORE:
            self.length, self._full = min(self.length * 2, self._length_max), 0


def _end(chunk: Range, page: RawPage) -> int:
    """Return where the wanted records of an answer end: only a filtered one goes beyond its chunk."""
    return chunk.end if page.next_offset > chunk.end else OFFSET_MAX


def _shown(chunk: Range) -> str:
    queue = chunk.queue
    return f"queue {queue.queue_id} of topic {queue.topic} at {queue.broker_name}"


def to_batches(parts: Sequence[Part], how: How) -> Iterator[pa.RecordBatch]:
    """Yield the rows of answers; what lies together in the same way is decoded together."""
    named = bool(how.access.namespace)
    for (topic, broker, offset_end), group in groupby(
        parts, lambda part: (part.topic if named else "", part.broker, part.offset_end)
    ):
        listed = [part.data for part in group]
        data = listed[0] if len(listed) == 1 else b"".join(listed)
        sieve = how.sieve._replace(queue_offset_to=min(offset_end, how.sieve.queue_offset_to))
        names = _read_names(how)
        position = 0
        while position < len(data):
            read = partial(read_batch, data, position, names, broker, sieve=sieve)
            found, reason = rows_that_open(read, how.rows)
            if found is not None:
                batch, position = found
                if batch.num_rows:
                    yield _finished(batch, topic, how)
            if reason:
                position = _step_over(data, position, broker, sieve, reason, how)


def _step_over(data: bytes, position: int, broker: str, sieve: Sieve, reason: str, how: How) -> int:
    """Return where the next message begins behind one whose body cannot be read; raises DataLost."""
    names = ("topic", "queue_id", "queue_offset")
    batch, position = read_batch(data, position, names, broker, 1, sieve)
    (row,) = batch.to_pylist()
    where = f"queue {row['queue_id']} of topic {row['topic']} at {broker}"
    report_loss(f"message {row['queue_offset']} of {where} cannot be read: {reason}", how.fail_on_data_loss)
    return position


def _read_names(how: How) -> tuple[str, ...]:
    """Return the columns to decode: those that are wanted, and those that others are made of."""
    value = how.value
    names = [name for name in how.names if value is None or name not in value.names]
    if how.exact_tags is not None and "tag" not in names:
        names.append("tag")
    if value is not None and "body" not in names and any(name in value.names for name in how.names):
        names.append("body")
    return tuple(names)


def _finished(batch: pa.RecordBatch, topic: str, how: How) -> pa.RecordBatch:
    if how.exact_tags is None and how.value is None and not topic:
        return batch
    import pyarrow as pa
    import pyarrow.compute as pc

    if how.exact_tags is not None:
        wanted = pa.array(sorted(how.exact_tags), pa.string())
        batch = batch.filter(pc.is_in(batch.column("tag"), value_set=wanted))
    columns = {name: batch.column(name) for name in batch.schema.names}
    if topic:  # as its users call it, without the namespace
        columns["topic"] = pa.repeat(pa.scalar(topic, pa.string()), batch.num_rows)
    if how.value is not None:
        columns |= how.value.read(columns["body"]) if "body" in columns else {}
    return pa.RecordBatch.from_arrays([columns[name] for name in how.names], names=list(how.names))
