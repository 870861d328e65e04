"""The producer: sends messages, waits for their receipts, and tries again where that helps.

    async with roquet.Producer("127.0.0.1:9876", group="shop") as producer:
        receipt = await producer.send("orders", b"...", tag="created", keys=["42"])

`send` returns when a broker has stored the message. Its parts: `packing` (messages become requests),
`posting` (attempts), `gathering` (many at once), `transaction`, `request_reply`, `trace`. A producer lives in
one event loop; at most `max_pending` messages are under way, and whoever sends more waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Collection, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack

from roquet.client import otel
from roquet.client.cluster.cluster import Cluster
from roquet.client.compression import Compression
from roquet.client.core.accumulate import Batching
from roquet.client.core.choose import Pick
from roquet.client.core.faults import Faults
from roquet.client.core.namespace import wrap
from roquet.client.core.sending import Body, Rules, as_bytes, recall_broker
from roquet.client.errors import Busy, Closed, Misuse, ReplyLost, RoquetError
from roquet.client.hooks import Hook, told
from roquet.client.message import Message, Outgoing, Receipt
from roquet.client.producer.gathering import Gathering
from roquet.client.producer.packing import HOOK_BYTES, Packing, Queue, pick_of
from roquet.client.producer.parcel import Parcel
from roquet.client.producer.posting import Posting
from roquet.client.producer.request_reply import Requests, answer_to, first_at
from roquet.client.producer.room import Room
from roquet.client.producer.transaction import CheckFunction, Half, Outcome, Transactions
from roquet.client.trace import Trace
from roquet.model.names import TRACE_TOPIC, group_fault
from roquet.ports import Ports
from roquet.wire.bodies.heartbeat import ProducerBeat
from roquet.wire.requests.reply import SendReplyV2
from roquet.wire.requests.timer import Recall, Recalled

GROUP: Final = "roquet-producer"
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
COMPRESS_ABOVE_BYTES: Final = 4096
PENDING_MAX: Final = 10_000
PENDING_BYTES_MAX: Final = 64 * 1024 * 1024

NO_PROPERTIES: Final[Mapping[str, str]] = {}

Result = TypeVar("Result")


class HowToSend(TypedDict, total=False):
    """What every kind of send takes besides topic and body; see `Producer.send`."""

    tag: str
    keys: Sequence[str]
    properties: Mapping[str, str] | None
    delay: timedelta | None
    deliver_at: datetime | None
    ordering_key: str | None
    queue: Queue


class Producer:
    """Sends messages; open it with `async with`.

    Args:
        cluster: where the name servers are (`host:port;host:port`, a `roquet://` URL, an HTTP address that
            serves the list), a `Cluster` to share, or nothing: then the environment says.
        group: the name under which brokers know this producer; transactions need one of their own.
        namespace: put before every topic and group, and taken off again.
        timeout: seconds that a send may take with all its attempts.
        retries: further attempts, at other brokers where there are any.
        max_message_bytes: larger bodies are refused before they are sent.
        compress_above: bodies of more bytes are compressed; None turns it off. Batches are not.
        compression: zlib, lz4 or zstd.
        avoid_slow_brokers: leave brokers that answered late, or not at all, alone for a while.
        batching: let single sends travel together when there are many of them.
        trace: tell the trace topic (True), or another one (its name), of every message.
        hooks: see `roquet.Hook`.
        check: tells brokers how a transaction of this group ended: "commit", "rollback" or "unknown".
        max_pending, max_pending_bytes: what may be unconfirmed at once; who sends more waits.
    """

    is_consumer: bool = False

    def __init__(
        self,
        cluster: str | Cluster | None = None,
        *,
        group: str = GROUP,
        namespace: str = "",
        timeout: float = 3.0,
        retries: int = 2,
        max_message_bytes: int = MESSAGE_BYTES_MAX,
        compress_above: int | None = COMPRESS_ABOVE_BYTES,
        compression: Compression = "zlib",
        avoid_slow_brokers: bool = False,
        batching: bool | Batching = False,
        trace: bool | str = False,
        hooks: Sequence[Hook] = (),
        check: CheckFunction | None = None,
        max_pending: int = PENDING_MAX,
        max_pending_bytes: int = PENDING_BYTES_MAX,
        ports: Ports | None = None,
    ) -> None:
        if not isinstance(cluster, Cluster):
            cluster = Cluster(cluster, namespace=namespace, ports=ports)
        elif namespace and namespace != cluster.namespace:
            raise Misuse("the cluster has another namespace", hint="give the namespace to the Cluster")
        self._cluster, namespace = cluster, cluster.namespace
        if fault := group_fault(group):
            raise Misuse(fault, hint="give the producer another group")
        if retries < 0 or timeout <= 0 or max_pending < 1 or max_pending_bytes < 1:
            raise Misuse("retries, timeout, max_pending and max_pending_bytes cannot be negative or nothing")
        self.group = wrap(namespace, group)
        self._timeout_s = timeout
        self._rules = Rules(namespace, max_message_bytes, compress_above, compression)
        self._hooks = [*hooks, *otel.automatic()]
        if trace:
            self._hooks.append(Trace(self._cluster, trace if isinstance(trace, str) else TRACE_TOPIC))
        self._check = check
        self._room = Room(max_pending, max_pending_bytes)
        self._batching = (batching if isinstance(batching, Batching) else Batching()) if batching else None
        faults = Faults() if avoid_slow_brokers else None
        self._posting = Posting(self._cluster, self.group, self._rules, retries, faults, self._hooks)
        self._requests = Requests(self._cluster, self._cluster.ports.rng)
        self._transactions = Transactions(self._cluster, self.group, check, self._hooks, self._spawn)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._packing = Packing(self._cluster, self._rules, HOOK_BYTES if self._hooks else 0)
        self._gathering = Gathering(
            self._packing,
            self._posting,
            self._room,
            self._spawn,
            max_message_bytes,
            compress_above,
            self._batching,
        )
        self._is_open = False

    def __repr__(self) -> str:
        return f"<Producer {self.group} of {self._cluster!r}, {self._room.messages} messages pending>"

    # --- opening and closing

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; `async with` does it. Raises NamesUnreachable."""
        if self._is_open:
            return
        await self._cluster.open()
        self._is_open = True
        self._transactions.open()
        self._cluster.join(self)

    async def close(self) -> None:
        """Wait for what is under way, say goodbye and disconnect; closing twice is fine."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self._room.emptied()
            while tasks := [task for task in self._tasks if not task.done()]:
                await asyncio.wait(tasks)
            self._transactions.close()
            self._requests.close()
            await self._cluster.leave(self)
            for hook in self._hooks:
                await hook.close()
        finally:
            for task in self._tasks:
                task.cancel()
            await self._cluster.close()

    # --- what the cluster asks of its members

    def beat(self) -> ProducerBeat:
        return ProducerBeat(self.group)

    def topics(self) -> Collection[str]:
        return (*self._posting.topics, *self._requests.topics)

    def route_changed(self, topic: str) -> None:
        return None  # every send looks at the route of its moment

    # --- sending

    async def send(
        self,
        topic: str,
        body: Body,
        *,
        tag: str = "",
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        ordering_key: str | None = None,
        queue: Queue = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Send a message and return where a broker stored it.

        Args:
            tag: consumers choose by it.
            keys: words by which the message can be found again.
            properties: names and values that travel with it.
            delay, deliver_at: when consumers get it, to the millisecond; until then `recall` takes it back.
                Brokers before 5.0 know 18 delays from 1 s to 2 h: there the next longer one is used, and
                nothing can be recalled.
            ordering_key: messages with equal keys go to the same queue, in their order.
            queue: a queue, or a function that chooses one among the topic's queues.
            timeout: seconds, instead of the producer's own.

        Raises SendFailed when all attempts failed (it may be stored all the same when one timed out), NoRoute
        when nobody serves the topic, BadMessage when it breaks a rule, Refused when a broker says no.
        """
        message = Outgoing(
            topic=topic,
            body=as_bytes(body),
            tag=tag,
            keys=keys,
            properties=properties or NO_PROPERTIES,
            delay=delay,
            deliver_at=deliver_at,
            ordering_key=ordering_key,
        )
        return await self._send(message, queue, self._timeout_s if timeout is None else timeout)

    async def send_one_way(self, topic: str, body: Body, **how: Unpack[HowToSend]) -> None:
        """Send a message and wait for no answer: quick, and it may be lost without a word."""
        self._check_open()
        message, queue = _outgoing(topic, body, how)
        parcel = self._packing.one(message, "one-way")
        await self._posting.post_one_way(parcel, pick_of(message, queue))

    def send_nowait(
        self, topic: str, body: Body, *, timeout: float | None = None, **how: Unpack[HowToSend]
    ) -> asyncio.Future[Receipt]:
        """Send in the background and return the future receipt; raises Busy when too much is pending."""
        self._check_open()
        message, queue = _outgoing(topic, body, how)
        size_bytes = len(message.body)
        if not self._room.try_take(1, size_bytes):
            raise Busy(
                f"{self._room.messages} messages are pending", hint="use `await send`, which waits its turn"
            )
        sent = self._spawn(self._send_in_room(message, queue, timeout), f"send to {topic}")
        sent.add_done_callback(lambda _: self._room.give(1, size_bytes))
        return sent

    async def send_batch(self, topic: str, messages: Sequence[Outgoing | Body]) -> list[Receipt]:
        """Send messages of one topic together, in their order; bodies alone will do.

        They share one request and one queue, or as few as the size limit allows. A message of a batch is not
        compressed and has no delay.
        """
        self._check_open()
        batch = [
            message if isinstance(message, Outgoing) else Outgoing(topic=topic, body=as_bytes(message))
            for message in messages
        ]
        if any(message.topic != topic for message in batch):
            raise Misuse(f"not every message of the batch is for {topic}", hint="use send_many")
        if not batch:
            return []
        return await self._gathering.batch(topic, batch, self._timeout_s)

    async def send_many(self, messages: Iterable[Outgoing] | AsyncIterable[Outgoing]) -> list[Receipt]:
        """Send any number of messages, in batches by topic; receipts come in the order of the messages.

        Messages with one ordering key keep their order. When some fail, the others are sent all the same and
        the first error is raised at the end.
        """
        self._check_open()
        return await self._gathering.many(messages, self._timeout_s)

    async def recall(self, topic: str, handle: str) -> str:
        """Take back a delayed message before it is due, and return its id.

        `handle` is its `Receipt.recall_handle`. Raises Refused when it is too late or the broker does not
        allow it (`recallMessageEnable`).
        """
        self._check_open()
        name = self._packing.name(topic)
        error: RoquetError | None = None
        message_id = ""
        try:
            view = await self._cluster.publish_route(name)
            address = view.master(recall_broker(handle))
            answer = await self._cluster.ask(address, Recall(name, handle, self.group))
            message_id = Recalled.decode(answer.ext).msg_id
        except RoquetError as raised:
            error = raised
            raise
        finally:
            for hook in self._hooks:
                told(hook.after_recall, self.group, topic, message_id, error)
        return message_id

    # --- transactions

    def transaction(self, topic: str, body: Body, **how: Unpack[HowToSend]) -> Half:
        """Return a transaction to be used with `async with`: it commits at the end of the block.

        An exception rolls it back. Give the producer a `check` function for the case that this process dies
        in between; without one such a message is given up after a while.
        """
        message, queue = _outgoing(topic, body, how)

        async def send() -> Receipt:
            self._check_open()
            parcel = self._packing.half(message, self.group)
            return await self._post(parcel, pick_of(message, queue), self._timeout_s)

        async def end(receipt: Receipt, outcome: Outcome) -> None:
            self._check_open()
            await self._transactions.end(self._packing.name(topic), message, receipt, outcome)

        return Half(send, end)

    # --- request and reply

    async def request(self, topic: str, body: Body, *, timeout: float, **how: Unpack[HowToSend]) -> Message:
        """Send a message and return the reply of whoever consumes it; raises ReplyLost after `timeout` s."""
        self._check_open()
        message, queue = _outgoing(topic, body, how)
        clock = self._cluster.ports.clock
        deadline = clock.monotonic() + timeout
        await self._requests.prepare(self._packing.name(topic))
        pairs, reply = self._requests.open(timeout)
        timer = clock.call_at(deadline, _lose, reply, topic, timeout)
        try:
            parcel = self._packing.one(message, "request", pairs)
            await self._post(parcel, pick_of(message, queue), max(deadline - clock.monotonic(), 0.001))
            return await reply
        finally:
            timer.cancel()
            self._requests.close_one(pairs)

    async def reply(self, message: Message, body: Body) -> Receipt:
        """Answer a message that was sent with `request`; raises SendFailed when the asker is gone."""
        self._check_open()
        topic, pairs = answer_to(message)
        parcel = self._packing.one(Outgoing(topic=topic, body=as_bytes(body)), "normal", pairs, topic)
        parcel.form = SendReplyV2
        return await self._post(parcel, first_at(message.broker), self._timeout_s)

    # --- inside

    def _send(self, message: Outgoing, queue: Queue, timeout_s: float) -> Coroutine[Any, Any, Receipt]:
        self._check_open()
        if self._batching is not None and queue is None and self._gathering.fits_by_itself(message):
            return self._gathering.send(message, timeout_s)
        return self._post(self._packing.one(message), pick_of(message, queue), timeout_s)

    async def _post(self, parcel: Parcel, pick: Pick | None, timeout_s: float) -> Receipt:
        size_bytes = len(parcel.body)
        if not self._room.try_take(1, size_bytes):
            await self._room.take(1, size_bytes)
        try:
            return (await self._posting.post(parcel, pick, timeout_s))[0]
        finally:
            self._room.give(1, size_bytes)

    async def _send_in_room(self, message: Outgoing, queue: Queue, timeout: float | None) -> Receipt:
        parcel, pick = self._packing.one(message), pick_of(message, queue)
        return (await self._posting.post(parcel, pick, self._timeout_s if timeout is None else timeout))[0]

    def _check_open(self) -> None:
        if not self._is_open:
            raise Closed("the producer is not open")

    def _spawn(self, coroutine: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result]:
        """Run something that this producer waits for when it is closed."""
        task = asyncio.get_running_loop().create_task(coroutine, name=f"roquet {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _outgoing(topic: str, body: Body, how: HowToSend) -> tuple[Outgoing, Queue]:
    message = Outgoing(
        topic=topic,
        body=as_bytes(body),
        tag=how.get("tag", ""),
        keys=how.get("keys", ()),
        properties=how.get("properties") or NO_PROPERTIES,
        delay=how.get("delay"),
        deliver_at=how.get("deliver_at"),
        ordering_key=how.get("ordering_key"),
    )
    return message, how.get("queue")


def _lose(reply: asyncio.Future[Message], topic: str, timeout_s: float) -> None:
    if not reply.done():
        reply.set_exception(ReplyLost(f"no reply to a request on {topic} within {round(timeout_s, 3):g} s"))
