"""Request and reply: a message that is answered, straight to the producer that sent it.

    request ── send, CORRELATION_ID · REPLY_TO_CLIENT · TTL ──▶ topic ──▶ a consumer
       ▲                                                                   │ producer.reply(message, body)
       └── 326 ◀── broker ◀── 325 to <cluster>_REPLY_TOPIC, same CORRELATION_ID ──┘

The broker finds the asker by its heartbeats, so before the first request one goes to every broker of the
cluster. A reply goes first to the broker that the request came from: its asker is surely connected there.
Reference: RequestResponseFuture and MessageUtil of Apache 5.5.0.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Collection, Sequence
from typing import Final

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.choose import Pick
from roquet.client.errors import Busy, Misuse, NoRoute
from roquet.client.message import Message
from roquet.model.message import Host
from roquet.model.route import QueueName
from roquet.ports import Rng
from roquet.store.format.record import Record
from roquet.transport.dialer import parse_address
from roquet.transport.link import Link
from roquet.wire.header import Frame
from roquet.wire.reply import OK, Reply
from roquet.wire.requests.reply import PushReply
from roquet.wire.row import Header

log = logging.getLogger("roquet.client.producer")

CORRELATION: Final = "CORRELATION_ID"
REPLY_TO: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
OPEN_MAX: Final = 100_000
"""Requests that may wait for a reply at once."""


def reply_topic(cluster_name: str) -> str:
    return f"{cluster_name}_REPLY_TOPIC"


class Requests:
    """The requests of one producer that wait for their replies."""

    def __init__(self, cluster: Cluster, rng: Rng) -> None:
        self._cluster = cluster
        self._rng = rng
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._reply_topics: set[str] = set()
        self._without_topic: set[str] = set()
        self._known_to: set[str] = set()
        self._is_listening = False

    @property
    def topics(self) -> Collection[str]:
        """Topics whose brokers must know us, since replies may come over any of them."""
        return tuple(sorted(self._reply_topics))

    async def prepare(self, topic: str) -> None:
        """Make every broker that a reply may come over know us."""
        if not self._is_listening:
            self._is_listening = True
            self._cluster.answer(PushReply, self.pushed)
        view = await self._cluster.publish_route(topic)
        addresses = view.masters()
        for broker in view.route.brokers:
            name = reply_topic(broker.cluster)
            if name in self._without_topic:
                continue
            try:
                addresses |= (await self._cluster.route(name)).masters()
            except NoRoute:
                # Then replies come over the brokers of the request's own topic.
                self._without_topic.add(name)
                continue
            self._reply_topics.add(name)
        if not addresses <= self._known_to:
            await self._cluster.beat()
            self._known_to |= addresses

    def open(self, timeout_s: float) -> tuple[dict[str, str], asyncio.Future[Message]]:
        """Return the properties of a new request and the future of its reply; end it with `close_one`."""
        if len(self._waiting) >= OPEN_MAX:
            raise Busy(f"{OPEN_MAX} requests wait for a reply", hint="wait for some of them first")
        number = f"{self._rng.randrange(1 << 128):032x}"
        correlation = "-".join((number[:8], number[8:12], number[12:16], number[16:20], number[20:]))
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = reply
        ttl_ms = max(round(timeout_s * 1000), 1)
        pairs = {CORRELATION: correlation, REPLY_TO: self._cluster.client_id, TTL: str(ttl_ms)}
        return pairs, reply

    def close_one(self, pairs: dict[str, str]) -> None:
        """Wait no longer for the reply to a request."""
        reply = self._waiting.pop(pairs[CORRELATION], None)
        if reply is not None:
            reply.cancel()

    def close(self) -> None:
        """Wait no longer for anything."""
        if self._is_listening:
            self._is_listening = False
            self._cluster.unanswer(PushReply, self.pushed)
        for reply in self._waiting.values():
            reply.cancel()
        self._waiting.clear()

    def pushed(self, request: Header, frame: Frame, link: Link) -> Reply | None:
        """A broker brings a reply (326); one that nobody waits for is not ours."""
        assert isinstance(request, PushReply)
        message = Message(_record(request, frame.body), "")
        reply = self._waiting.pop(message.properties.get(CORRELATION, ""), None)
        if reply is None:
            log.info("a reply came that nobody waits for (any more): %r", message)
            return None
        if not reply.done():
            reply.set_result(message)
        return OK


def answer_to(message: Message) -> tuple[str, dict[str, str]]:
    """Return the topic and the properties of a reply; raises Misuse when the message wants none."""
    properties = message.properties
    missing = [name for name in (CORRELATION, REPLY_TO, "CLUSTER") if name not in properties]
    if missing:
        raise Misuse(
            f"{message!r} wants no reply: it lacks {', '.join(missing)}",
            hint="only messages sent with Producer.request can be replied to",
        )
    pairs = {name: properties[name] for name in (CORRELATION, REPLY_TO)}
    pairs[TTL] = properties.get(TTL, "3000")
    pairs["MSG_TYPE"] = "reply"
    return reply_topic(properties["CLUSTER"]), pairs


def first_at(broker: str) -> Pick:
    """Return a choice that begins at a broker and goes on to the others when it is asked again."""
    turn = -1

    def pick(queues: Sequence[QueueName]) -> QueueName:
        nonlocal turn
        turn += 1
        near = [queue for queue in queues if queue.broker_name == broker]
        far = [queue for queue in queues if queue.broker_name != broker]
        ordered = near[:1] + far
        return ordered[turn % len(ordered)]

    return pick


def _record(request: PushReply, body: bytes) -> Record:
    properties = (request.properties or "").encode()
    return Record(
        0, 0, request.queue_id, request.flag, 0, 0, request.sys_flag, request.born_timestamp,
        _host(request.born_host), request.store_timestamp, _host(request.store_host),
        request.reconsume_times or 0, 0, body, request.topic, properties,
    )  # fmt: skip


def _host(text: str) -> Host:
    """Return the address of `ip:port`, as Java writes it with a slash before; all zeros for a host's name."""
    try:
        host, port = parse_address(text.lstrip("/"))
        return Host(ipaddress.ip_address(host).packed, port)
    except ValueError:
        return Host(bytes(4), 0)
