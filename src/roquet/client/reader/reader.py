"""The reader: messages by explicit positions, without being a member of a group.

    async with roquet.Reader(namesrv) as reader:
        for queue in await reader.queues("orders"):
            page = await reader.read(queue, await reader.min_offset(queue))
            ...                                     # go on from page.next_offset

`read_raw` gives the records of an answer as they lie in the log, for bulk readers; `follow` goes through
all queues of a topic and stays with them. Nothing is stored anywhere: positions are the caller's. While a
master cannot be reached its slaves are read, as far as they have come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from roquet.client.cluster.cluster import Cluster
from roquet.client.consumer.starts import bound_of
from roquet.client.core.namespace import unwrap, wrap
from roquet.client.core.pages import messages_of, records_of, with_tags
from roquet.client.core.positions import Begin, Start, begin_at, check_start, time_ms_of
from roquet.client.core.route_view import MASTER
from roquet.client.core.subscription import Expression, Sql, parse, wanted_tags
from roquet.client.errors import Misuse, TimedOut, Unreachable, refusal
from roquet.client.message import Message
from roquet.client.owned import Owned
from roquet.client.reader.follow import Follow
from roquet.model.group import Subscription
from roquet.model.route import QueueName
from roquet.ports import Ports
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.client import CheckClientConfig
from roquet.wire.requests.offsets import GetMaxOffset, GetMinOffset, OffsetFound, SearchOffset
from roquet.wire.requests.pull import Pull, Pulled, PullFlag
from roquet.wire.row import Header, row_of

GROUP: Final = "TOOLS_CONSUMER"
"""Every server knows it from its first start."""
BYTES_MAX: Final = 8 * 1024 * 1024
"""What one answer may hold, unless told otherwise: half of a frame."""
_MARGIN_SECONDS: Final = 10.0
"""What a server may be late with a parked answer: Apache looks at them every five seconds."""


class Status(Enum):
    """What a read found."""

    FOUND = "found"
    NOTHING = "nothing"
    """The queue ends here for now."""
    NO_MATCH = "no match"
    """There were messages, but none that was wanted: go on from `next_offset`."""
    MOVED = "moved"
    """The queue does not hold that offset; `next_offset` is one that it holds, or its end."""


class RawPage(NamedTuple):
    """An answer as it came: records one behind the other (see `roquet.store.format.record`)."""

    status: Status
    data: bytes
    next_offset: int
    min_offset: int
    max_offset: int


class Bounds(NamedTuple):
    """The ends of a queue: its oldest offset, and the next one. A slave's word may be behind."""

    min_offset: int
    max_offset: int
    is_master: bool


class Page(NamedTuple):
    """Messages of one queue, and where to go on."""

    status: Status
    messages: Sequence[Message]
    next_offset: int
    min_offset: int
    max_offset: int


_STATUSES: Final[dict[int, Status]] = {
    Code.SUCCESS: Status.FOUND,
    Code.PULL_NOT_FOUND: Status.NOTHING,
    Code.PULL_RETRY_IMMEDIATELY: Status.NO_MATCH,
    Code.PULL_OFFSET_MOVED: Status.MOVED,
}


class Reader:
    """Reads queues by position; open it with `async with`."""

    def __init__(
        self,
        cluster: str | Cluster | None = None,
        *,
        group: str = GROUP,
        namespace: str = "",
        timeout: float | None = None,
        ports: Ports | None = None,
    ) -> None:
        if not isinstance(cluster, Cluster):
            cluster = Cluster(cluster, namespace=namespace, timeout=timeout, ports=ports)
        self._cluster = cluster
        self._clock = cluster.ports.clock
        self._group = wrap(cluster.namespace, group)
        self._tasks = Owned("reader")
        self._understood: set[tuple[str, Subscription]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; raises NamesUnreachable."""
        await self._cluster.open()

    async def close(self) -> None:
        """End what follows topics, and disconnect."""
        await self._tasks.close()
        await self._cluster.close()

    # --- queues and their ends

    async def queues(self, topic: str) -> tuple[QueueName, ...]:
        """Return the queues of a topic that may be read; raises NoRoute."""
        space = self._cluster.namespace
        route = await self._cluster.route(wrap(space, topic), fresh=True)
        return tuple(queue._replace(topic=unwrap(space, queue.topic)) for queue in route.read_queues())

    async def min_offset(self, queue: QueueName) -> int:
        """Return the oldest offset that the queue still holds."""
        return (await self._bound(queue, GetMinOffset))[0]

    async def max_offset(self, queue: QueueName) -> int:
        """Return the offset that the next message of the queue will get."""
        return (await self._bound(queue, GetMaxOffset))[0]

    async def bounds(self, queue: QueueName) -> Bounds:
        """Return both ends of the queue, and whether its master told them."""
        oldest, newest = await asyncio.gather(
            self._bound(queue, GetMinOffset), self._bound(queue, GetMaxOffset)
        )
        return Bounds(oldest[0], newest[0], oldest[1] and newest[1])

    async def offset_at(self, queue: QueueName, when: datetime | timedelta) -> int:
        """Return the offset of the first message stored at that time or later; a `timedelta` is ago."""
        known = self._known(queue)
        request = SearchOffset(known.topic, known.queue_id, time_ms_of(when, self._clock.now_ms()))
        return (await self._asked(known, request))[0]

    # --- reading

    async def read(
        self,
        queue: QueueName,
        offset: int,
        *,
        max: int = 32,
        tags: str = "*",
        sql: str | None = None,
        wait: float | timedelta = 0.0,
    ) -> Page:
        """Return up to `max` messages from an offset on, waiting so long for the first of them.

        Raises what a call can raise: Unreachable, TimedOut, NoRoute, Refused.
        """
        subscription = self._subscription(queue, tags, sql)
        raw = await self._pull(queue, offset, subscription, max, BYTES_MAX, wait)
        records = records_of(raw.data)
        if wanted := wanted_tags(subscription):
            records = with_tags(records, wanted)
        messages = messages_of(records, queue.broker_name, None, self._cluster.namespace)
        return Page(raw.status, messages, raw.next_offset, raw.min_offset, raw.max_offset)

    async def read_raw(
        self,
        queue: QueueName,
        offset: int,
        *,
        max_messages: int = 1024,
        max_bytes: int = BYTES_MAX,
        tags: str = "*",
        sql: str | None = None,
        wait: float | timedelta = 0.0,
    ) -> RawPage:
        """Return an answer's bytes; of tags the server compares only the hashes.

        A Roquet broker fills the answer up to its setting maxTransferBytesOnBulkPull; other servers give as
        much as to any consumer, usually 32 messages.
        """
        subscription = self._subscription(queue, tags, sql)
        return await self._pull(queue, offset, subscription, max_messages, max_bytes, wait, bulk=True)

    def follow(
        self, topic: str, *, start: Start = "latest", tags: str = "*", sql: str | None = None
    ) -> Follow:
        """Return the messages of all queues of a topic, those to come among them, to iterate over.

        Within a queue they keep their order. Queues that are added later are read from their beginning.
        """
        check_start(start)
        asked_ms = self._clock.now_ms()

        async def begin(queue: QueueName) -> int:
            where: Begin = begin_at(start, queue.topic, asked_ms)
            return await bound_of(self._cluster, self._known(queue), where)

        async def read(queue: QueueName, offset: int, wait_s: float) -> tuple[Sequence[Message], int]:
            page = await self.read(queue, offset, tags=tags, sql=sql, wait=wait_s)
            return page.messages, page.next_offset

        return Follow(topic, self.queues, begin, read, self._clock, self._tasks)

    # --- inside

    def _known(self, queue: QueueName) -> QueueName:
        return queue._replace(topic=wrap(self._cluster.namespace, queue.topic))

    def _subscription(self, queue: QueueName, tags: str, sql: str | None) -> Subscription:
        if sql is not None and tags != "*":
            raise Misuse("tags and SQL exclude each other", hint="ask for TAGS within the SQL expression")
        expression: Expression = tags if sql is None else Sql(sql)
        return parse(self._known(queue).topic, expression, 0)

    async def _pull(
        self,
        queue: QueueName,
        offset: int,
        subscription: Subscription,
        count: int,
        size_bytes: int,
        wait: float | timedelta,
        bulk: bool = False,
    ) -> RawPage:
        if subscription.expression_type != "TAG":
            await self._check(queue.broker_name, subscription)
        wait_s = wait.total_seconds() if isinstance(wait, timedelta) else wait
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_s > 0 else 0)
        request = Pull(
            self._group, subscription.topic, queue.queue_id, offset, count, int(flags), 0,
            int(wait_s * 1000), 0,
            subscription.sub_string, subscription.expression_type, size_bytes,
            bulk=bulk or None,
        )  # fmt: skip
        timeout_s = self._cluster.timeout_s + (wait_s + _MARGIN_SECONDS if wait_s > 0 else 0.0)
        replica, answer = await self._reach(subscription.topic, queue.broker_name, request, timeout_s)
        status = _STATUSES.get(answer.code)
        if status is None:
            raise refusal(answer.code, answer.remark, replica[1], "PULL_MESSAGE")
        pulled = Pulled.decode(answer.ext)
        return RawPage(status, answer.body, pulled.next_begin_offset, pulled.min_offset, pulled.max_offset)

    async def _check(self, broker_name: str, subscription: Subscription) -> None:
        """Ask a broker once whether it understands an expression; raises Refused, BadExpression among them.

        Apache's brokers answer a pull with one that they cannot read with every message there is.
        """
        if (broker_name, subscription) in self._understood:
            return
        question = {"clientId": self._cluster.client_id, "group": self._group, "namespace": ""}
        body = msgspec.json.encode({**question, "subscriptionData": subscription})
        replica, answer = await self._reach(
            subscription.topic, broker_name, CheckClientConfig(), self._cluster.timeout_s, body
        )
        if answer.code != Code.SUCCESS:
            raise refusal(answer.code, answer.remark, replica[1], row_of(CheckClientConfig).name)
        self._understood.add((broker_name, subscription))

    async def _bound(self, queue: QueueName, kind: type[GetMinOffset | GetMaxOffset]) -> tuple[int, bool]:
        known = self._known(queue)
        return await self._asked(known, kind(known.topic, known.queue_id))

    async def _asked(self, known: QueueName, request: Header) -> tuple[int, bool]:
        """Return an offset, and whether the master told it; raises RoquetError."""
        timeout_s = self._cluster.timeout_s
        replica, answer = await self._reach(known.topic, known.broker_name, request, timeout_s)
        if answer.code != Code.SUCCESS:
            raise refusal(answer.code, answer.remark, replica[1], row_of(type(request)).name)
        return OffsetFound.decode(answer.ext).offset, replica[0] == MASTER

    async def _reach(
        self, topic: str, broker_name: str, request: Header, timeout_s: float, body: bytes = b""
    ) -> tuple[tuple[int, str], Frame]:
        """Ask the master, or a slave when it is away; returns who answered. Raises what a call can raise."""
        route = await self._cluster.route(topic)
        replicas = route.replicas(broker_name)
        if not replicas:
            route = await self._cluster.route(topic, fresh=True)
            replicas = route.replicas(broker_name)
        failure: Unreachable | TimedOut | None = None
        for replica in sorted(replicas, key=lambda each: self._cluster.is_ailing(each[1])):
            try:
                return replica, await self._cluster.call(replica[1], request, body, timeout_s)
            except (Unreachable, TimedOut) as error:
                failure = failure or error
        if failure is not None:
            raise failure
        route.reader(broker_name)  # raises: nobody has it
        raise AssertionError("a broker without addresses has a reader")
