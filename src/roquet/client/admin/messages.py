"""Single messages: found by id, key, time or place, sent again, or handed to a consumer.

    offset id   names broker and log offset ─▶ 33 there            unique id, key ─▶ 12 at every broker

Keys are filed by hash, so every answer is checked again here. Codes 12, 33, 309, 310, 321.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime
from typing import Final

from roquet.client.admin.answered import head, shaped
from roquet.client.admin.reach import Reach
from roquet.client.admin.reading import PAGE_MAX, Queues, messages_of, milliseconds
from roquet.client.admin.revival import again
from roquet.client.errors import Misuse, NotFound
from roquet.client.message import Message, Receipt
from roquet.model.ids import parse_offset_id
from roquet.model.message import Host
from roquet.model.route import QueueName
from roquet.wire.bodies import admin, running
from roquet.wire.codes import Code
from roquet.wire.requests import query as rows
from roquet.wire.requests.client import ConsumeDirectly
from roquet.wire.requests.send import Sent

FOUND_MAX: Final = 64
QUERY_SECONDS: Final = 18.0
"""Old index files may have to come from disk."""

RELAY_SECONDS: Final = 12.0
"""A broker waits ten for the consumer that it passes a message to."""

ALL_TIME: Final = (0, 2**63 - 1)


class Messages:
    """Finds messages."""

    def __init__(self, reach: Reach, queues: Queues) -> None:
        self._reach = reach
        self._queues = queues
        self._turn = 0

    async def get(self, message_id: str, topic: str = "") -> Message:
        """Return a message by its offset id, or by its unique id and topic; raises NotFound."""
        place = _place_of(message_id)
        if place is not None:
            known = {each.address: each.name for each in await self._reach.places()}
            address = f"{_ip(place[0])}:{place[0].port}"
            if address in known:
                return await self._at(address, known[address], place[1])
        if not topic:
            raise Misuse(
                f"{message_id} names no place in a broker that is known here",
                hint="if it is the id that a producer gave, say the topic as well",
            )
        found = await self._query(topic, message_id, FOUND_MAX, ALL_TIME, is_unique=True)
        if not found:
            raise NotFound(f"no message of {topic} has the id {message_id}", code=Code.NO_MESSAGE)
        return found[-1]

    async def _at(self, address: str, broker: str, log_offset: int) -> Message:
        answer = await self._reach.cluster.call(address, rows.ViewMessage(log_offset))
        found = messages_of(answer.body, broker) if answer.code == Code.SUCCESS else ()
        if not found:
            raise NotFound(f"{broker} has no message at {log_offset}", code=Code.NO_MESSAGE)
        return found[0]

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        max: int = FOUND_MAX,
    ) -> list[Message]:
        """Return messages of a topic that carry a key, oldest first; without times, of all times."""
        span = (
            ALL_TIME[0] if begin is None else milliseconds(begin),
            ALL_TIME[1] if end is None else milliseconds(end),
        )
        return (await self._query(topic, key, max, span, is_unique=False))[:max]

    async def by_unique_id(self, topic: str, message_id: str) -> list[Message]:
        """Return every stored copy of a message: a retry or a double send stores it again."""
        return await self._query(topic, message_id, FOUND_MAX, ALL_TIME, is_unique=True)

    async def _query(
        self, topic: str, key: str, count: int, span: tuple[int, int], is_unique: bool
    ) -> list[Message]:
        masters = await self._reach.masters_of(topic)
        request = rows.QueryMessage(topic, key, count, *span, is_unique)
        try:
            answered = await self._reach.any_of(masters, request, timeout_s=QUERY_SECONDS)
        except NotFound as error:
            if error.code != Code.QUERY_NOT_FOUND:
                raise
            return []
        found = [each for broker, answer in answered.items() for each in messages_of(answer.body, broker)]
        matching = [
            each
            for each in found
            if (each.properties.get("UNIQ_KEY") == key if is_unique else key in each.keys)
            and each.record.topic == topic
        ]
        return sorted(matching, key=lambda each: (each.record.store_ms, each.log_offset))

    async def by_time(
        self, topic: str, begin: datetime, end: datetime, *, max: int = FOUND_MAX
    ) -> list[Message]:
        """Return the first messages of a topic that were stored within a time, oldest first."""
        begin_ms, end_ms = milliseconds(begin), milliseconds(end)
        found: list[Message] = []
        for queue, address in (await self._queues.of(topic)).items():
            first = await self._queues.offset_at(address, queue, begin_ms)
            taken = 0
            async for message in self._queues.messages(address, queue, first):
                if message.record.store_ms >= end_ms or taken == max:
                    break
                if message.record.store_ms >= begin_ms:
                    found.append(message)
                    taken += 1
        return sorted(found, key=lambda each: (each.record.store_ms, each.log_offset))[:max]

    async def by_offset(self, queue: QueueName, offset: int, *, max: int = PAGE_MAX) -> list[Message]:
        """Return messages of one queue from an offset on."""
        address = await self._reach.address(queue.broker_name)
        found: list[Message] = []
        async for message in self._queues.messages(address, queue, offset, offset + max):
            found.append(message)
        return found

    async def entries(
        self, queue: QueueName, offset: int, *, max: int = 10, group: str = ""
    ) -> admin.QueueWalk:
        """Return raw entries of one queue, and what a group subscribes of it."""
        request = rows.QueryQueue(queue.topic, queue.queue_id, offset, max, group or None)
        answer = await self._reach.ask(queue.broker_name, request)
        if not answer.body:
            raise NotFound(answer.remark or f"{queue} has no entry {offset}", code=Code.NO_MESSAGE)
        return shaped(answer, admin.QueueWalk)

    async def resend(self, message: Message, topic: str = "") -> Receipt:
        """Send a stored message again, to its topic or another one; keys, tags and properties go with it."""
        draft = again(message, topic or message.topic)
        view = await self._reach.cluster.publish_route(draft.topic)
        queues = view.write_queues()
        if not queues:
            raise NotFound(f"no broker takes messages of {draft.topic} now", retriable=True)
        self._turn += 1
        queue = queues[self._turn % len(queues)]
        address = view.master(queue.broker_name)
        sent = head(await self._reach.cluster.ask(address, draft.request(queue.queue_id), draft.body), Sent)
        return Receipt(
            message.message_id, sent.msg_id, draft.topic, queue.broker_name, sent.queue_id, sent.queue_offset
        )

    async def consume_directly(
        self, message: Message, group: str, client_id: str
    ) -> running.ConsumedDirectly:
        """Hand a stored message to one live member of a group now, and tell what became of it."""
        request = ConsumeDirectly(group, client_id, message.offset_id, message.broker, message.record.topic)
        answer = await self._reach.ask(message.broker, request, timeout_s=RELAY_SECONDS)
        return shaped(answer, running.ConsumedDirectly)


def _place_of(message_id: str) -> tuple[Host, int] | None:
    """Return the place that an offset id names; None for an id of another kind."""
    try:
        host, log_offset = parse_offset_id(message_id)
    except ValueError:
        return None
    return (host, log_offset) if 0 < host.port < 65_536 and log_offset >= 0 else None


def _ip(host: Host) -> str:
    address = ipaddress.ip_address(host.ip)
    return f"[{address}]" if host.is_v6 else str(address)
