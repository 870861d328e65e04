"""Message traces: who sent and who consumed a message, when and how well, as messages of a trace topic.

    hooks ─▶ records ─▶ up to 2,048 wait ─▶ by 10, or what 5 s have brought ─▶ one message of the trace topic

Apache's tools (`mqadmin queryMsgTraceById`, the dashboard) read them. Traces are told on a best-effort
basis: what does not fit or cannot be sent is counted and dropped, and user code never waits for it.
Reference: AsyncTraceDispatcher of Apache 5.5.0; the text is `core.trace_text`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from roquet.client.cluster.cluster import Cluster
from roquet.client.core import trace_text
from roquet.client.core.namespace import unwrap
from roquet.client.core.sending import Rules, keys_of
from roquet.client.core.trace_text import Told
from roquet.client.errors import RoquetError
from roquet.client.hooks import Consuming, Hook, Sending
from roquet.client.message import Message, Outgoing, Receipt
from roquet.client.producer.packing import Packing
from roquet.client.producer.posting import Posting
from roquet.model.ids import parse_offset_id
from roquet.model.names import TRACE_TOPIC

log = logging.getLogger("roquet.client.trace")

GROUP: Final = "_INNER_TRACE_PRODUCER"
WAITING_MAX: Final = 2_048
BATCH_RECORDS: Final = 10
BATCH_BYTES_MAX: Final = 128_000
FLUSH_SECONDS: Final = 5.0
SEND_SECONDS: Final = 5.0
REGION: Final = "DefaultRegion"


class _Handed(NamedTuple):
    """What is remembered of messages while user code has them."""

    started_ms: int
    request_id: str
    messages: Sequence[Message]


class Trace(Hook):
    """A hook that tells the trace topic; usually made by `trace=True`."""

    def __init__(self, cluster: Cluster, topic: str = TRACE_TOPIC) -> None:
        self._cluster = cluster
        self._clock = cluster.ports.clock
        self._topic = topic
        rules = Rules("", BATCH_BYTES_MAX * 2, None, "zlib")  # a trace topic is outside of namespaces
        self._packing = Packing(cluster, rules, 0)
        self._posting = Posting(cluster, GROUP, rules, 2, None, ())
        self._waiting: deque[Told] = deque()
        self._more = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._is_closing = False
        self._enough = BATCH_RECORDS
        self.dropped = 0
        """Records that did not get out."""

    # what hooks hear

    def before_send(self, sending: Sending) -> object:
        return self._clock.now_ms()

    def after_send(
        self, sending: Sending, token: object, receipts: Sequence[Receipt], error: BaseException | None
    ) -> None:
        if not isinstance(token, int):
            return
        cost_ms = self._clock.now_ms() - token
        for message, receipt in zip(sending.messages, receipts, strict=False):
            if not receipt.is_traced or message.topic == self._topic:
                continue
            self._tell(
                trace_text.sent(
                    token, receipt.region, self._bare(sending.group), message.topic, receipt.message_id,
                    message.tag, keys_of(message), sending.address, len(message.body), cost_ms, sending.kind,
                    receipt.offset_id, receipt.status == "ok",
                )
            )  # fmt: skip

    def before_consume(self, consuming: Consuming) -> object:
        now_ms = self._clock.now_ms()
        messages = [each for each in consuming.messages if each.properties.get("TRACE_ON") != "false"]
        handed = _Handed(now_ms, self._cluster.ids.next(now_ms), messages)
        for message in messages:
            region = message.properties.get("MSG_REGION", REGION)
            self._tell(
                trace_text.about_to_consume(
                    now_ms, region, self._bare(consuming.group), handed.request_id, message.message_id,
                    message.attempt - 1, message.keys,
                )
            )  # fmt: skip
        return handed

    def after_consume(
        self, consuming: Consuming, token: object, outcome: str, error: BaseException | None
    ) -> None:
        if not isinstance(token, _Handed):
            return
        now_ms = self._clock.now_ms()
        cost_ms = (now_ms - token.started_ms) // max(len(token.messages), 1)
        for message in token.messages:
            self._tell(
                trace_text.consumed(
                    now_ms, self._bare(consuming.group), token.request_id, message.message_id, cost_ms,
                    outcome, message.keys,
                )
            )  # fmt: skip

    def after_end_transaction(
        self, group: str, message: Outgoing, receipt: Receipt, outcome: str, is_check: bool
    ) -> None:
        if not receipt.is_traced:
            return
        host, _ = parse_offset_id(receipt.offset_id)
        self._tell(
            trace_text.ended(
                self._clock.now_ms(), receipt.region, self._bare(group), message.topic, receipt.message_id,
                message.tag, keys_of(message), f"{ipaddress.ip_address(host.ip)}:{host.port}",
                receipt.transaction_id, outcome, is_check,
            )
        )  # fmt: skip

    def after_recall(self, group: str, topic: str, message_id: str, error: BaseException | None) -> None:
        now_ms = self._clock.now_ms()
        self._tell(trace_text.recalled(now_ms, REGION, self._bare(group), topic, message_id, error is None))

    async def close(self) -> None:
        """Send what is left."""
        self._is_closing = True
        self._flush()
        if self._sender is not None:
            await asyncio.wait([self._sender])
        self._sender, self._is_closing, self._enough = None, False, BATCH_RECORDS

    # on the way out

    def _bare(self, name: str) -> str:
        return unwrap(self._cluster.namespace, name)

    def _tell(self, told: Told) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(told)
        if self._sender is None:
            self._sender = self._cluster.spawn(self._send_all(), "traces")
        if len(self._waiting) >= BATCH_RECORDS:
            self._more.set()

    async def _send_all(self) -> None:
        while True:
            timer = self._clock.call_at(self._clock.monotonic() + FLUSH_SECONDS, self._flush)
            try:
                await self._more.wait()
            finally:
                timer.cancel()
            self._more.clear()
            while len(self._waiting) >= self._enough:
                if not await self._send_some() and self._is_closing:
                    self.dropped += len(self._waiting)
                    self._waiting.clear()
            if self._is_closing:
                return
            self._enough = BATCH_RECORDS

    def _flush(self) -> None:
        """Let everything go that waits, however little it is."""
        self._enough = 1
        self._more.set()

    async def _send_some(self) -> bool:
        """Send one message of records; False, and they are dropped, when that fails."""
        records: list[Told] = []
        size_bytes = 0
        while self._waiting and len(records) < BATCH_RECORDS and size_bytes < BATCH_BYTES_MAX:
            records.append(self._waiting.popleft())
            size_bytes += len(records[-1].text)
        keys = tuple(dict.fromkeys(key for told in records for key in told.keys))
        body = "".join(told.text for told in records).encode()
        try:
            parcel = self._packing.one(Outgoing(topic=self._topic, body=body, keys=keys))
            await self._posting.post(parcel, None, SEND_SECONDS)
        except RoquetError as error:
            self.dropped += len(records)
            log.warning("%d traces were lost: %s", len(records), error)
            return False
        return True
