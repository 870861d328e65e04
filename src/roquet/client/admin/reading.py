"""Reading queues by position, as tools do: outside any group, from any offset, without waiting.

The broker knows the group TOOLS_CONSUMER from its start, so reading leaves no trace and needs no heartbeat.
An answer that finds nothing still says where to go on; `messages` follows that until the end that the queue
had when it began, so it ends even while others send.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from roquet.client.admin.answered import BadAnswer, head
from roquet.client.admin.reach import Reach
from roquet.client.errors import Misuse, refusal
from roquet.client.message import Message
from roquet.model.route import QueueName
from roquet.store.format import record
from roquet.wire.codes import Code
from roquet.wire.requests.offsets import (
    GetEarliestTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetFound,
    SearchOffset,
    TimestampFound,
)
from roquet.wire.requests.pull import Pull, Pulled, PullFlag

GROUP: Final = "TOOLS_CONSUMER"
PAGE_MAX: Final = 32
"""Messages asked for at once; a broker gives no more in one answer by default."""

PULL_CODES: Final = frozenset(
    {Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED}
)


class Page(NamedTuple):
    """Messages of one queue, and where to go on."""

    messages: tuple[Message, ...]
    next_offset: int
    min_offset: int
    max_offset: int


def messages_of(body: bytes, broker_name: str) -> tuple[Message, ...]:
    """Return the records of an answer; raises BadAnswer."""
    found = []
    position = 0
    try:
        while position < len(body):
            read = record.decode(body, position)
            found.append(Message(read, broker_name))
            position += read.size_bytes
    except (ValueError, IndexError) as error:
        raise BadAnswer(f"{broker_name} sent a message that cannot be read: {error}") from None
    return tuple(found)


def moment(ms: int) -> datetime | None:
    """Return the time of milliseconds since 1970; None when the server knows none (0 or less)."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms > 0 else None


def milliseconds(when: datetime) -> int:
    """Return milliseconds since 1970; raises Misuse for a time without a zone."""
    if when.tzinfo is None:
        raise Misuse(
            f"{when} has no time zone", hint="write datetime(…, tzinfo=UTC), or call .astimezone() on it"
        )
    return int(when.timestamp() * 1000)


class Queues:
    """Looks into queues."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def of(self, topic: str) -> dict[QueueName, str]:
        """Return every queue of a topic that a master serves, and where; readable or not."""
        view = await self._reach.route(topic)
        return {
            QueueName(each.broker_name, queue_id, topic): view.master(each.broker_name)
            for each in sorted(view.route.queues, key=lambda each: each.broker_name)
            for queue_id in range(max(each.read_queue_nums, each.write_queue_nums))
        }

    async def read(self, address: str, queue: QueueName, queue_offset: int, count: int = PAGE_MAX) -> Page:
        """Return messages from an offset on, and where to go on; raises Refused."""
        flags = int(PullFlag.SUBSCRIPTION)
        ask = Pull(
            GROUP, queue.topic, queue.queue_id, queue_offset, min(count, PAGE_MAX), flags, 0, 0, 0, "*", "TAG"
        )
        answer = await self._reach.cluster.call(address, ask)
        if answer.code not in PULL_CODES:
            raise refusal(answer.code, answer.remark, address, "PULL_MESSAGE")
        found = head(answer, Pulled)
        messages = messages_of(answer.body, queue.broker_name) if answer.code == Code.SUCCESS else ()
        return Page(messages, found.next_begin_offset, found.min_offset, found.max_offset)

    async def messages(
        self, address: str, queue: QueueName, first: int = 0, end: int | None = None
    ) -> AsyncIterator[Message]:
        """Yield the messages of a queue from `first` up to `end`, or to what is its end now."""
        low, high = await self.bounds(address, queue)
        at, end = max(first, low), high if end is None else min(end, high)
        while at < end:
            page = await self.read(address, queue, at, min(PAGE_MAX, end - at))
            for message in page.messages:
                if message.queue_offset < end:
                    yield message
            if page.next_offset <= at:
                return
            at = page.next_offset

    async def bounds(self, address: str, queue: QueueName) -> tuple[int, int]:
        """Return the oldest offset of a queue and the one that its next message will get."""
        low = await self._reach.cluster.ask(address, GetMinOffset(queue.topic, queue.queue_id))
        high = await self._reach.cluster.ask(address, GetMaxOffset(queue.topic, queue.queue_id))
        return head(low, OffsetFound).offset, head(high, OffsetFound).offset

    async def offset_at(self, address: str, queue: QueueName, ms: int) -> int:
        """Return the offset of the first message that was stored at a time or later."""
        found = await self._reach.cluster.ask(address, SearchOffset(queue.topic, queue.queue_id, ms))
        return max(head(found, OffsetFound).offset, 0)

    async def earliest_ms(self, address: str, queue: QueueName) -> int:
        """Return when the oldest message of a queue was stored; −1 as the protocol says it for none."""
        found = await self._reach.cluster.ask(address, GetEarliestTime(queue.topic, queue.queue_id))
        return head(found, TimestampFound).timestamp
