"""A client without groups, retries or background work: send, read a queue, ask any request.

    async with connect("127.0.0.1:9876") as mq:
        receipt = await mq.send("hello", b"Hello, Roquet!")
        for message in await mq.read("hello", receipt.queue_id, receipt.queue_offset):
            print(message.body)

It asks a name server for routes and talks to the brokers behind them, Roquet's or Apache's. Tools and
tests stand on it; balanced consumers and safe retries are not its affair.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, NamedTuple

from roquet.model.message import parse_properties
from roquet.model.route import Route
from roquet.model.topic import Perm
from roquet.ports import Ports
from roquet.runtime.real import real_ports
from roquet.store.format import record
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call
from roquet.wire.bodies import route as route_body
from roquet.wire.codes import Code
from roquet.wire.header import Frame
from roquet.wire.reply import Reply
from roquet.wire.requests.names import GetRoute
from roquet.wire.requests.pull import LitePull, Pulled, PullFlag
from roquet.wire.requests.send import SendV2, Sent
from roquet.wire.row import Header

GROUP: Final = "roquet-plain"
TIMEOUT_SECONDS: Final = 10.0


class Answered(Exception):
    """A server said no: `code` and its own words."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"answered {code}: {remark}")
        self.code = code
        self.remark = remark


class Message(NamedTuple):
    """A stored message."""

    topic: str
    body: bytes
    properties: dict[str, str]
    queue_id: int
    queue_offset: int
    log_offset: int
    store_ms: int

    @property
    def tag(self) -> str:
        return self.properties.get("TAGS", "")


class Plain(AbstractAsyncContextManager["Plain"]):
    """A connection to one cluster through one name server."""

    def __init__(self, namesrv: str, ports: Ports) -> None:
        self._namesrv = namesrv
        self._clock = ports.clock
        self._rng = ports.rng
        self._dialer = Dialer(ports.net, ports.clock, _refuse)
        self._routes: dict[str, Route] = {}

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._dialer.close()

    async def ask(
        self, address: str, request: Header, body: bytes = b"", timeout_s: float = TIMEOUT_SECONDS
    ) -> Frame:
        """Ask `host:port` anything; raises Answered when it says no, OSError when it cannot be reached."""
        answer = await self._dialer.call(address, request, timeout_s, body)
        if answer.code != Code.SUCCESS:
            raise Answered(answer.code, answer.remark)
        return answer

    async def route(self, topic: str) -> Route:
        """Return who serves a topic, asking the name server each time; raises Answered when nobody does."""
        answer = await self.ask(self._namesrv, GetRoute(topic, True))
        route = self._routes[topic] = route_body.decode(answer.body)
        return route

    async def master(self, topic: str) -> tuple[str, int]:
        """Return the address of a master that takes sends for a topic, and how many queues it has."""
        route = self._routes.get(topic)
        if route is None:
            try:
                route = await self.route(topic)
            except Answered:
                route = await self.route("TBW102")  # a first send creates the topic there
        brokers = {broker.broker_name: broker for broker in route.brokers}
        for queue in route.queues:
            broker = brokers.get(queue.broker_name)
            if broker is not None and 0 in broker.broker_addrs and queue.perm & Perm.WRITE:
                return broker.broker_addrs[0], queue.write_queue_nums
        raise Answered(Code.TOPIC_NOT_EXIST, f"no broker takes messages for {topic}")

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str = "",
        keys: str = "",
        queue_id: int = -1,
        properties: dict[str, str] | None = None,
    ) -> Sent:
        """Store one message and return where it went."""
        address, _ = await self.master(topic)
        pairs = {"TAGS": tag, "KEYS": keys, "WAIT": "true"} | (properties or {})
        text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items() if value)
        request = SendV2(
            GROUP, topic, "TBW102", 4, queue_id, 0, self._clock.now_ms(), 0, text, 0, False, None, False
        )
        answer = await self.ask(address, request, body)
        return Sent.decode(answer.ext)

    async def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        count: int = 32,
        wait_ms: int = 0,
        tags: str = "*",
    ) -> list[Message]:
        """Return messages of one queue from an offset on, waiting for the first up to `wait_ms`."""
        messages, _ = await self.read_on(
            topic, queue_id, queue_offset, count=count, wait_ms=wait_ms, tags=tags
        )
        return messages

    async def read_on(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        count: int = 32,
        wait_ms: int = 0,
        tags: str = "*",
    ) -> tuple[list[Message], int]:
        """Return messages of one queue and the offset to go on from."""
        address, _ = await self.master(topic)
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else 0)
        request = LitePull(
            GROUP, topic, queue_id, queue_offset, count, int(flags), 0, wait_ms, 0, tags, "TAG"
        )
        answer = await self._dialer.call(address, request, TIMEOUT_SECONDS + wait_ms / 1000)
        if answer.code not in (
            Code.SUCCESS,
            Code.PULL_NOT_FOUND,
            Code.PULL_RETRY_IMMEDIATELY,
            Code.PULL_OFFSET_MOVED,
        ):
            raise Answered(answer.code, answer.remark)
        return _messages(answer.body), Pulled.decode(answer.ext).next_begin_offset


def connect(namesrv: str, ports: Ports | None = None) -> Plain:
    """Return a client of the cluster behind a name server; use it as an async context manager."""
    return Plain(namesrv, ports or real_ports())


def _messages(body: bytes) -> list[Message]:
    found = []
    position = 0
    while position < len(body):
        read = record.decode(body, position)
        found.append(
            Message(
                read.topic,
                bytes(read.body),
                parse_properties(bytes(read.properties).decode()),
                read.queue_id,
                read.queue_offset,
                read.log_offset,
                read.store_ms,
            )
        )
        position += read.size_bytes
    return found


def _refuse(call: Call) -> None:
    call.answer(Reply(Code.REQUEST_CODE_NOT_SUPPORTED, remark="a plain client answers no requests"))
