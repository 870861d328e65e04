"""Many messages at once: `send_many`, batches, and batches that form by themselves under load.

    batch      one topic ─▶ as few requests as the size limit allows, one behind the other
    many       a stream of messages ─▶ by topic (and queue, where an order is wanted) ─▶ batches side by side
    automatic  single sends of one turn of the loop ─▶ one batch, while few or none are under way

What cannot share a request (a delay, a retry topic, a body worth compressing) goes by itself. All of it is
bounded by the producer's room. Batches of one ordering key leave one after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple

from roquet.client.core.accumulate import Accumulator, Batching
from roquet.client.core.choose import Pick
from roquet.client.errors import RoquetError
from roquet.client.message import Outgoing, Receipt
from roquet.client.producer.packing import Packing, pick_of
from roquet.client.producer.posting import Posting
from roquet.client.producer.room import Room
from roquet.model.names import is_retry
from roquet.model.route import QueueName

MANY_BYTES_MAX: Final = 256 * 1024
"""Size of the batches that `send_many` makes: large enough for speed, small enough to spread over queues."""
MANY_MESSAGES_MAX: Final = 1_000

Spawn = Callable[[Coroutine[Any, Any, Any], str], "asyncio.Task[Any]"]


class _Waiting(NamedTuple):
    message: Outgoing
    done: asyncio.Future[Receipt]


class Gathering:
    """Sends more than one message at a time, for one producer."""

    def __init__(
        self,
        packing: Packing,
        posting: Posting,
        room: Room,
        spawn: Spawn,
        batch_bytes_max: int,
        compress_above_bytes: int | None,
        batching: Batching | None,
    ) -> None:
        self._packing = packing
        self._posting = posting
        self._room = room
        self._spawn = spawn
        self._batch_bytes_max = batch_bytes_max
        self._compress_above_bytes = compress_above_bytes
        self._batching = batching
        self._waiting: Accumulator[_Waiting] = Accumulator(batching or Batching())

    # explicit batches

    async def batch(self, topic: str, messages: Sequence[Outgoing], timeout_s: float) -> list[Receipt]:
        """Send messages of one topic in order, to one queue for each request that they need."""
        receipts: list[Receipt] = []
        for parcel in self._packing.several(topic, messages, self._batch_bytes_max):
            count, size_bytes = len(parcel.messages), len(parcel.body)
            await self._room.take(count, size_bytes)
            try:
                receipts += await self._posting.post(parcel, None, timeout_s)
            except RoquetError as error:
                error.add_note(f"{len(receipts)} of {len(messages)} messages had been stored before")
                raise
            finally:
                self._room.give(count, size_bytes)
        return receipts

    # a stream of messages

    async def many(
        self, messages: Iterable[Outgoing] | AsyncIterable[Outgoing], timeout_s: float
    ) -> list[Receipt]:
        """Send all of them; receipts come in the order of the messages. Raises the first error at the end."""
        stream = _Stream(self, timeout_s)
        try:
            if isinstance(messages, AsyncIterable):
                async for message in messages:
                    await stream.add(message)
            else:
                for message in messages:
                    await stream.add(message)
            return await stream.end()
        finally:
            await stream.cancel()

    def fits_a_batch(self, message: Outgoing) -> bool:
        """True when a message loses nothing by sharing a request."""
        return (
            message.delay is None
            and message.deliver_at is None
            and (self._compress_above_bytes is None or len(message.body) <= self._compress_above_bytes)
            and not is_retry(message.topic)
        )

    def fits_by_itself(self, message: Outgoing) -> bool:
        """True when a message may join an automatic batch, whose queue nobody chooses."""
        return message.ordering_key is None and self.fits_a_batch(message)

    async def post_run(
        self, run: Sequence[Outgoing], pick: Pick | None, timeout_s: float, after: asyncio.Task[Any] | None
    ) -> list[Receipt]:
        """Send a run of one topic whose room is taken, behind another one where order matters."""
        if after is not None:
            await after
        if len(run) == 1:
            parcels = [self._packing.one(run[0])]
        else:
            parcels = self._packing.several(run[0].topic, run, self._batch_bytes_max)
        receipts: list[Receipt] = []
        for parcel in parcels:
            receipts += await self._posting.post(parcel, pick, timeout_s)
        return receipts

    def start_run(
        self, run: Sequence[Outgoing], pick: Pick | None, timeout_s: float, after: asyncio.Task[Any] | None
    ) -> asyncio.Task[list[Receipt]]:
        """Send a run in the background; its room is given back when it has ended, however it ends."""
        sizes = _size_of(run)
        task = self._spawn(self.post_run(run, pick, timeout_s, after), f"send a batch to {run[0].topic}")
        task.add_done_callback(lambda _: self._room.give(*sizes))
        return task

    async def queue_of(self, topic: str, key: str) -> QueueName:
        """Return the queue of an ordering key; raises NoRoute, BadMessage."""
        return await self._posting.queue_of(self._packing.name(topic), key)

    async def take_room(self, run: Sequence[Outgoing]) -> None:
        await self._room.take(*_size_of(run))

    # batches that form by themselves

    async def send(self, message: Outgoing, timeout_s: float) -> Receipt:
        """Send one message together with others of its topic that come at the same time."""
        self._packing.name(message.topic)
        size_bytes = len(message.body)
        await self._room.take(1, size_bytes)
        try:
            done: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
            full = self._waiting.add(message.topic, _Waiting(message, done), size_bytes)
            if full:
                self._leave(message.topic, full, timeout_s)
            asyncio.get_running_loop().call_soon(self._leave_if_ready, message.topic, timeout_s)
            return await done
        finally:
            self._room.give(1, size_bytes)

    def _leave_if_ready(self, topic: str, timeout_s: float) -> None:
        if run := self._waiting.ready(topic):
            self._leave(topic, run, timeout_s)

    def _leave(self, topic: str, run: list[_Waiting], timeout_s: float) -> None:
        self._spawn(self._send_waiting(topic, run, timeout_s), f"send a batch to {topic}")

    async def _send_waiting(self, topic: str, run: list[_Waiting], timeout_s: float) -> None:
        wanted = [waiting for waiting in run if not waiting.done.done()]
        try:
            if wanted:
                messages = [waiting.message for waiting in wanted]
                receipts = await self.post_run(messages, None, timeout_s, None)
                for waiting, receipt in zip(wanted, receipts, strict=True):
                    if not waiting.done.done():
                        waiting.done.set_result(receipt)
        except BaseException as error:
            for waiting in wanted:
                if waiting.done.done():
                    continue
                if isinstance(error, asyncio.CancelledError):
                    waiting.done.cancel()
                else:
                    waiting.done.set_exception(error)
            if not isinstance(error, RoquetError):
                raise
        finally:
            self._waiting.returned(topic)
            self._leave_if_ready(topic, timeout_s)


class _Bucket:
    """What waits for one batch of a stream."""

    __slots__ = ("last", "pick", "places", "run", "size_bytes")

    def __init__(self, pick: Pick | None) -> None:
        self.pick = pick
        self.run: list[Outgoing] = []
        self.places: list[int] = []
        self.size_bytes = 0
        self.last: asyncio.Task[list[Receipt]] | None = None


class _Stream:
    """One call of `send_many`: buckets by topic (and queue, for ordering keys), and batches under way."""

    def __init__(self, gathering: Gathering, timeout_s: float) -> None:
        self._gathering = gathering
        self._timeout_s = timeout_s
        self._buckets: dict[tuple[str, QueueName | None], _Bucket] = {}
        self._under_way: list[tuple[asyncio.Task[list[Receipt]], list[int]]] = []
        self._count = 0

    async def add(self, message: Outgoing) -> None:
        """Put a message into its bucket and send what that fills."""
        queue = None
        if message.ordering_key is not None:
            queue = await self._gathering.queue_of(message.topic, message.ordering_key)
        bucket = self._buckets.get((message.topic, queue))
        if bucket is None:
            bucket = self._buckets[message.topic, queue] = _Bucket(pick_of(message, queue))
        is_alone = not self._gathering.fits_a_batch(message)
        size_bytes = len(message.body)
        if bucket.run and (
            is_alone
            or bucket.size_bytes + size_bytes > MANY_BYTES_MAX
            or len(bucket.run) >= MANY_MESSAGES_MAX
        ):
            await self._flush(bucket)
        bucket.run.append(message)
        bucket.places.append(self._count)
        bucket.size_bytes += size_bytes
        self._count += 1
        if is_alone:
            await self._flush(bucket)

    async def end(self) -> list[Receipt]:
        await self._flush_all()
        if self._under_way:
            await asyncio.wait([task for task, _ in self._under_way])
        receipts: dict[int, Receipt] = {}
        failure: BaseException | None = None
        for task, places in self._under_way:
            error = task.exception()
            if error is None:
                receipts.update(zip(places, task.result(), strict=True))
            elif failure is None:
                failure = error
        if failure is not None:
            failure.add_note(f"{len(receipts)} of {self._count} messages were stored")
            raise failure
        return [receipts[place] for place in range(self._count)]

    async def cancel(self) -> None:
        """Leave nothing behind: cancel what a failure or a cancellation has left under way."""
        tasks = [task for task, _ in self._under_way if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _flush_all(self) -> None:
        for bucket in self._buckets.values():
            if bucket.run:
                await self._flush(bucket)

    async def _flush(self, bucket: _Bucket) -> None:
        run, places = bucket.run, bucket.places
        bucket.run, bucket.places, bucket.size_bytes = [], [], 0
        await self._gathering.take_room(run)
        after = bucket.last if bucket.pick is not None else None
        task = self._gathering.start_run(run, bucket.pick, self._timeout_s, after)
        bucket.last = task
        self._under_way.append((task, places))


def _size_of(run: Sequence[Outgoing]) -> tuple[int, int]:
    return len(run), sum(len(message.body) for message in run)
