"""The values that users hold: a received `Message`, the `Receipt` of a sent one, an `Outgoing` one.

A received message is a thin view of the record in the pull answer: body and properties are read when
they are asked for, so a consumer that looks at tags pays for tags. What to do with it afterwards (ack,
retry, dead letter) belongs to whoever delivered it and hangs on the message as its `Delivery`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec

from roquet.client.compression import inflate
from roquet.client.errors import Misuse
from roquet.model.ids import offset_id
from roquet.model.message import Host, SysFlag, parse_properties
from roquet.model.names import is_retry
from roquet.store.format.record import Record

_COMPRESSED = int(SysFlag.COMPRESSED)  # the operators of the enumeration are slow


class Delivery(Protocol):
    """The consumer's end of a delivered message."""

    async def ack(self, message: Message) -> None: ...

    async def retry(self, message: Message, after: timedelta | None) -> None: ...

    async def dead_letter(self, message: Message) -> None: ...


class Message:
    """A message as a consumer sees it."""

    __slots__ = ("_body", "_delivery", "_properties", "broker", "record")

    def __init__(self, record: Record, broker: str, delivery: Delivery | None = None) -> None:
        self.record = record
        self.broker = broker
        self._delivery = delivery
        self._body: bytes | None = None
        self._properties: dict[str, str] | None = None

    def __repr__(self) -> str:
        return (
            f"<Message {self.message_id} topic={self.topic} queue={self.broker}/{self.queue_id} "
            f"offset={self.queue_offset} tag={self.tag!r} {len(self.record.body)} bytes>"
        )

    @property
    def body(self) -> bytes:
        """The bytes as they were sent; a compressed body is opened."""
        if self._body is None:
            raw = bytes(self.record.body)
            flag = self.record.sys_flag
            self._body = inflate(raw, flag) if flag & _COMPRESSED else raw
        return self._body

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, the protocol's own ones among them."""
        if self._properties is None:
            self._properties = parse_properties(str(self.record.properties, "utf-8", "replace"))
        return self._properties

    @property
    def topic(self) -> str:
        """The topic that it was sent to, also when it comes back through a retry topic."""
        topic = self.record.topic
        return self.properties.get("RETRY_TOPIC", topic) if is_retry(topic) else topic

    @property
    def tag(self) -> str:
        return self.properties.get("TAGS", "")

    @property
    def keys(self) -> list[str]:
        return self.properties.get("KEYS", "").split()

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def log_offset(self) -> int:
        return self.record.log_offset

    @property
    def message_id(self) -> str:
        """The producer's id for it, the same over retries; the offset id where it has none."""
        return self.properties.get("UNIQ_KEY") or self.offset_id

    @property
    def offset_id(self) -> str:
        """The id that tells where the record lies."""
        return offset_id(self.record.store_host, self.record.log_offset)

    @property
    def attempt(self) -> int:
        """1 at the first delivery, one more after each retry."""
        return self.record.reconsume_times + 1

    @property
    def born_time(self) -> datetime:
        """When the producer made it."""
        return datetime.fromtimestamp(self.record.born_ms / 1000, UTC)

    @property
    def store_time(self) -> datetime:
        """When the broker stored it."""
        return datetime.fromtimestamp(self.record.store_ms / 1000, UTC)

    @property
    def born_host(self) -> Host:
        return self.record.born_host

    @property
    def store_host(self) -> Host:
        return self.record.store_host

    async def ack(self) -> None:
        """It is done: it will not come again."""
        await self._delivered().ack(self)

    async def retry(self, after: timedelta | None = None) -> None:
        """Give it back; it comes again after a while, by default a little longer each time."""
        await self._delivered().retry(self, after)

    async def dead_letter(self) -> None:
        """Give it up: it goes to the group's dead letters."""
        await self._delivered().dead_letter(self)

    def _delivered(self) -> Delivery:
        if self._delivery is None:
            raise Misuse(
                f"{self!r} was read, not delivered to a group", hint="only a Consumer's messages end so"
            )
        return self._delivery


class Receipt(NamedTuple):
    """Where a sent message went."""

    message_id: str
    offset_id: str
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    status: str = "ok"
    """ok, or which promise is weaker: flush-disk-timeout, flush-slave-timeout, slave-not-available."""
    transaction_id: str = ""
    recall_handle: str = ""
    """What `Producer.recall` takes, for a message with a time of its own."""
    region: str = "DefaultRegion"
    is_traced: bool = True
    """False when the broker wants no traces of it."""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send, where one call is not enough: for batches, `send_many` and hooks."""

    topic: str
    body: bytes
    tag: str = ""
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = {}
    delay: timedelta | None = None
    deliver_at: datetime | None = None
    ordering_key: str | None = None
    flag: int = 0
