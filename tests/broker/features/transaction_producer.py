"""A transactional producer for simulated brokers: sends halves, ends them, answers when it is asked."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec

from roquet.client import Plain
from roquet.client.plain import Message
from roquet.model.message import format_properties, parse_properties
from roquet.ports import Ports
from roquet.store.format import record
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call, LinkClosed
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.client import Heartbeat
from roquet.wire.requests.send import SendV2, Sent
from roquet.wire.requests.transaction import CheckTransaction, EndTransaction
from roquet.wire.row import row_of
from tests.broker.stage import BROKER

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP = "PG"

_numbers = itertools.count(1)


class Producer:
    """One client of a producer group. `listener` decides about bodies that the broker asks for."""

    def __init__(
        self, ports: Ports, listener: Callable[[bytes], int] = lambda body: UNKNOWN, group: str = GROUP
    ) -> None:
        self.group = group
        self.asked: list[tuple[CheckTransaction, record.Record]] = []
        self.listener = listener
        self._clock = ports.clock
        self._dialer = Dialer(ports.net, ports.clock, self._serve)
        self._client_id = f"c{next(_numbers)}"

    async def heartbeat(self) -> None:
        body = {
            "clientID": self._client_id,
            "consumerDataSet": [],
            "producerDataSet": [{"groupName": self.group}],
        }
        answer = await self._dialer.call(BROKER, Heartbeat(), 5, msgspec.json.encode(body))
        assert answer.code == Code.SUCCESS

    async def send_half(self, topic: str, body: bytes, queue_id: int = 0, **properties: str) -> Sent:
        """Send a half; raises AssertionError with the broker's words when it is refused."""
        answer = await self.try_half(topic, body, queue_id, **properties)
        assert answer.code == Code.SUCCESS, answer.remark
        return Sent.decode(answer.ext)

    async def try_half(self, topic: str, body: bytes, queue_id: int = 0, **properties: str) -> Frame:
        key = f"{next(_numbers):032X}"
        pairs = {"TRAN_MSG": "true", "PGROUP": self.group, "UNIQ_KEY": key, "WAIT": "true"} | properties
        request = SendV2(
            self.group, topic, "TBW102", 4, queue_id, 4, self._clock.now_ms(), 0, format_properties(pairs)
        )
        return await self._dialer.call(BROKER, request, 5, body)

    async def end(self, sent: Sent, decision: int, **changes: object) -> Frame:
        """Say how a transaction ended, and wait for the broker's answer."""
        return await self._dialer.call(BROKER, ending(sent, decision, self.group, **changes), 5)

    async def end_one_way(self, sent: Sent, decision: int) -> None:
        """Say it as the Java client does."""
        (await self._dialer.link(BROKER)).send_one_way(ending(sent, decision, self.group))

    def close(self) -> None:
        self._dialer.close()

    def _serve(self, call: Call) -> None:
        if call.frame.code != row_of(CheckTransaction).code:
            return
        request = CheckTransaction.decode(call.frame.ext)
        half = record.decode(call.frame.body)
        self.asked.append((request, half))
        assert request.msg_id == parse_properties(half.properties.decode())["UNIQ_KEY"]
        decision = self.listener(bytes(half.body))
        call.link.send_one_way(
            EndTransaction(
                self.group,
                request.tran_state_table_offset,
                request.commit_log_offset,
                decision,
                request.msg_id or "",
                from_transaction_check=True,
            )
        )


def ending(sent: Sent, decision: int, group: str = GROUP, **changes: object) -> EndTransaction:
    """Return the request that ends what was sent; `changes` forge it."""
    request = EndTransaction(
        group, sent.queue_offset, int(sent.msg_id[-16:], 16), decision, sent.transaction_id or ""
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


async def bodies(client: Plain, topic: str, queue_id: int = 0) -> list[bytes]:
    """Return the bodies of all messages in a queue."""
    return [message.body for message in await messages(client, topic, queue_id)]


async def messages(client: Plain, topic: str, queue_id: int = 0) -> list[Message]:
    """Return all messages in a queue."""
    found: list[Message] = []
    offset = 0
    while True:
        try:
            more, next_offset = await client.read_on(topic, queue_id, offset)
        except LinkClosed:  # the broker was killed since the last read
            continue
        found += more
        if next_offset == offset:
            return found
        offset = next_offset
