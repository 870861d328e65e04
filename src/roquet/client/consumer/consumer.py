"""The consumer: a member of a group that gets its share of the messages.

    async with roquet.Consumer(namesrv, group="billing", subscribe={"orders": "created || paid"}) as consumer:
        async for message in consumer:
            await message.ack()

Three ways to take messages: `async for`, `batches`, or a `handler` that is called with each. A message
that is not ended (ack, retry, dead letter) comes again, at the latest to another member. The work is done
by `session` and the parts that it puts together; this is their face.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Literal, Self

from roquet.client import otel
from roquet.client.cluster.cluster import Cluster
from roquet.client.consumer.claim import Bounds, Claim
from roquet.client.consumer.session import Plan, Session
from roquet.client.consumer.starts import bound_of
from roquet.client.consumer.streams import Batches, Messages
from roquet.client.consumer.workers import Handler
from roquet.client.core.assign import Assign, averagely
from roquet.client.core.namespace import unwrap, wrap
from roquet.client.core.positions import At, End, Start, check_start, time_ms_of
from roquet.client.core.subscription import Expression, Sql, as_mapping
from roquet.client.errors import Closed, Forked, Misuse
from roquet.client.hooks import Hook
from roquet.client.message import Message
from roquet.client.trace import Trace
from roquet.model.names import TRACE_TOPIC, group_fault, is_retry
from roquet.model.route import QueueName
from roquet.ports import Ports
from roquet.runtime.process import home
from roquet.runtime.signals import forget_sigterm, on_sigterm

__all__ = ["Consumer", "Sql"]

BATCH_MAX: Final = 1024
COUNT_MAX: Final = 65_535
RESERVED_GROUPS: Final = ("DEFAULT_CONSUMER", "DEFAULT_PRODUCER")
BROADCAST_INSTANCE: Final = "DEFAULT"
"""The client id must be the same at the next start: the positions are filed under it."""


class Consumer:
    """A member of a consumer group; open it with `async with`, or let `run` do it.

    cluster           name servers as text, or a Cluster to share; None: from the environment
    subscribe         topics, or topic → tags ("a || b") or `Sql("…")`
    start             where a group begins that has no position yet; a `timedelta` is so long ago
    broadcast         every member gets everything; positions are kept in a file below `offsets_dir`
    ordered           of each queue one message at a time, in order
    handler           called with each message, `concurrency` of them at once; raising means: again later.
                      A plain function runs on the event loop: it must be quick
    batch             messages of one pull; `prefetch`, `prefetch_bytes`, `span` bound what waits, by queue
    max_attempts      after so many a message goes to the dead letters; None: as the group is set up, and
                      without end when ordered
    consume_timeout   what is in hand for longer is given back
    drain_timeout     what handlers get to finish when the consumer closes
    assign            how the group shares the queues (see `roquet.assign`); all members need the same
    auto_ack          a message is done when the loop asks for the next one
    drain_on_sigterm  SIGTERM ends loops and `run` in good order (in the main thread)
    """

    def __init__(
        self,
        cluster: str | Cluster | None = None,
        *,
        group: str,
        subscribe: Mapping[str, Expression] | str | Sequence[str],
        start: Start = "latest",
        broadcast: bool = False,
        ordered: bool = False,
        handler: Handler | None = None,
        concurrency: int = 20,
        batch: int = 32,
        prefetch: int = 1000,
        prefetch_bytes: int = 100 * 1024 * 1024,
        span: int = 2000,
        max_attempts: int | None = None,
        consume_timeout: timedelta = timedelta(minutes=15),
        drain_timeout: timedelta = timedelta(seconds=30),
        assign: Assign = averagely,
        auto_ack: bool = False,
        namespace: str = "",
        timeout: float | None = None,
        trace: bool | str = False,
        hooks: Sequence[Hook] = (),
        offsets_dir: str | None = None,
        drain_on_sigterm: bool = False,
        ports: Ports | None = None,
    ) -> None:
        if fault := group_fault(group):
            raise Misuse(fault)
        if group in RESERVED_GROUPS:
            raise Misuse(f"{group} belongs to the protocol", hint="choose a group name of your own")
        check_start(start)
        _check_range("batch", batch, BATCH_MAX)
        for name, value in (("concurrency", concurrency), ("prefetch", prefetch), ("span", span)):
            _check_range(name, value, COUNT_MAX)
        if max_attempts is not None:
            _check_range("max_attempts", max_attempts, COUNT_MAX)
        self.group = group
        self._topics = as_mapping(subscribe)
        if not isinstance(cluster, Cluster):
            instance = BROADCAST_INSTANCE if broadcast else None
            cluster = Cluster(cluster, namespace=namespace, instance=instance, timeout=timeout, ports=ports)
        elif namespace and namespace != cluster.namespace:
            raise Misuse("the cluster has another namespace", hint="give the namespace to the Cluster")
        self._cluster = cluster
        self._auto_ack = auto_ack
        self._drain_on_sigterm = drain_on_sigterm
        self._trace_topic = trace if isinstance(trace, str) else TRACE_TOPIC if trace else ""
        self._plan = Plan(
            group=group,
            start=start,
            is_broadcast=broadcast,
            is_ordered=ordered,
            handler=handler,
            concurrency=concurrency,
            batch=batch,
            bounds=Bounds(prefetch, prefetch_bytes, span),
            attempts_max=max_attempts,
            consume_timeout_s=consume_timeout.total_seconds(),
            drain_timeout_s=drain_timeout.total_seconds(),
            assign=assign,
            hooks=(*hooks, *otel.automatic()),
            offsets_dir=offsets_dir or f"{home()}/.rocketmq_offsets",
        )
        self._session: Session | None = None
        self._stopped = asyncio.Event()
        self._seeking = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Consumer of {self.group}: {', '.join(self._topics)}>"

    # --- opening and closing

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Join the group; when it returns, the first share of the queues is being read."""
        if self._session is not None:
            raise Misuse(f"{self!r} is open already")
        await self._cluster.open()
        try:
            plan = self._plan
            if self._trace_topic:
                plan = replace(plan, hooks=(*plan.hooks, Trace(self._cluster, self._trace_topic)))
            session = self._session = Session(self._cluster, plan)
            self._stopped.clear()
            await session.open(self._topics)
        except (Exception, asyncio.CancelledError):
            await self.close()
            raise
        if self._drain_on_sigterm and not on_sigterm(self.stop):
            await self.close()
            raise Misuse("this event loop gets no signals", hint="drain_on_sigterm needs the main thread")

    def stop(self) -> None:
        """Hand out no more messages: loops over the consumer end, handlers finish, `run` returns."""
        self._stopped.set()
        if self._session is not None:
            self._session.inbox.close()

    async def close(self) -> None:
        """Leave the group in good order; closing once too often is fine."""
        session, self._session = self._session, None
        self._stopped.set()
        if session is None:
            return
        try:
            self._cluster.check()
        except Forked:
            return  # the tasks and the connections are the parent's
        except Misuse:
            pass  # the cluster was closed first: our own tasks still have to end
        if self._drain_on_sigterm:
            forget_sigterm(self.stop)
        try:
            await session.close()
        finally:
            await self._cluster.close()

    async def run(self) -> None:
        """Let the handler work until `stop`, SIGTERM (`drain_on_sigterm`) or cancellation, then close."""
        if self._plan.handler is None:
            raise Misuse("there is no handler to run", hint="give one: Consumer(…, handler=function)")
        if self._session is None:
            await self.open()
        try:
            await self._stopped.wait()
        finally:
            await self.close()

    # --- messages

    def __aiter__(self) -> AsyncIterator[Message]:
        return Messages(self._iterable().inbox, self._auto_ack)

    def batches(self, max: int = 32, timeout: float | timedelta = 0.0) -> AsyncIterator[list[Message]]:
        """Return lists of at most `max` messages ; with a `timeout` each waits so long to fill up.

        None of them is empty. With `auto_ack` a list is done when the next one is asked for.
        """
        _check_range("max", max, COUNT_MAX)
        linger_s = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        return Batches(self._iterable().inbox, max, linger_s, self._auto_ack)

    # --- subscriptions and positions

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Take messages of one more topic, or others of it than before."""
        self._topics[topic] = expression
        await self._opened().subscribe(topic, expression)

    async def unsubscribe(self, topic: str) -> None:
        """Take no more messages of a topic."""
        self._topics.pop(topic, None)
        await self._opened().unsubscribe(topic)

    @property
    def assigned(self) -> tuple[QueueName, ...]:
        """The queues that are ours now."""
        space = self._cluster.namespace
        table = self._opened().claims.table
        mine = [
            queue._replace(topic=unwrap(space, queue.topic)) for queue in table if not is_retry(queue.topic)
        ]
        return tuple(sorted(mine, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id)))

    def pause(self, *queues: QueueName) -> None:
        """Hand out nothing of these queues (of all, when none is named) until `resume`."""
        for claim in self._claims(queues):
            claim.is_halted = True

    def resume(self, *queues: QueueName) -> None:
        """Go on with these queues, or with all."""
        for claim in self._claims(queues):
            claim.is_halted = False
            claim.nudge()
        self._opened().inbox.resumed()

    async def seek(
        self, where: QueueName | str, to: int | datetime | timedelta | Literal["earliest", "latest"]
    ) -> None:
        """Go on from another offset or time, with one queue or with all of ours of a topic.

        Messages in hand count no more: what is said about them changes nothing.
        """
        session = self._opened()
        async with self._seeking:
            queues = [q for q in self.assigned if q.topic == where] if isinstance(where, str) else [where]
            if not queues:
                raise Misuse(f"no queue of {where} is ours now")
            for claim in self._claims(queues):
                await session.claims.jump(claim, await self._find(claim.queue, to))

    def position(self, queue: QueueName) -> int:
        """Return the lowest offset of a queue that is not done: what the group's position becomes."""
        return self._claims((queue,))[0].inflight.lowest()

    # --- inside

    def _opened(self) -> Session:
        if self._session is None:
            raise Closed(f"{self!r} is not open")
        return self._session

    def _iterable(self) -> Session:
        if self._plan.handler is not None:
            raise Misuse("the handler takes the messages", hint="leave the handler away to iterate")
        return self._opened()

    def _claims(self, queues: Sequence[QueueName]) -> list[Claim]:
        table = self._opened().claims.table
        if not queues:
            return list(table.values())
        space = self._cluster.namespace
        claims = []
        for queue in queues:
            claim = table.get(queue._replace(topic=wrap(space, queue.topic)))
            if claim is None:
                raise Misuse(f"{queue} is not ours now", hint="`assigned` tells which ones are")
            claims.append(claim)
        return claims

    async def _find(
        self, queue: QueueName, to: int | datetime | timedelta | Literal["earliest", "latest"]
    ) -> int:
        if isinstance(to, int):
            return to
        check_start(to)
        if to == "earliest" or to == "latest":
            end = End.OLDEST if to == "earliest" else End.NEWEST
            return await bound_of(self._cluster, queue, end)
        assert isinstance(to, datetime | timedelta)
        time_ms = time_ms_of(to, self._cluster.ports.clock.now_ms())
        return await bound_of(self._cluster, queue, At(time_ms))


def _check_range(name: str, value: int, high: int) -> None:
    if not 1 <= value <= high:
        raise Misuse(f"{name}={value} is out of its range", hint=f"between 1 and {high}")
