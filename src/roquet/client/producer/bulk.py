"""Bulk sends: columns of messages to brokers, without an object per message.

    bodies and texts ─▶ runs within the limits of a request ─▶ `posting` (attempts) ─▶ confirmed

For writers that move tables: Spark, copies of topics. A run goes to one queue, the next run to the next
one, unless a `Pick` says which. No hooks, no traces, no heartbeats: whoever sends so much has its own
measures. Knows nothing of tables; halves of transactions are in `staging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.bulk import check_bodies, items_of, text_with_id
from roquet.client.core.choose import Pick, by_key
from roquet.client.core.sending import RECORD_BYTES, Rules, check_delay, check_topic, pack_body, runs
from roquet.client.errors import Attempt, Refused, SendFailed
from roquet.client.message import Outgoing, Receipt
from roquet.client.producer.parcel import Parcel
from roquet.client.producer.posting import Posting
from roquet.model.route import QueueName
from roquet.wire.requests.send import SendBatch


class Bulk:
    """Sends columns of messages over a cluster that is open."""

    def __init__(
        self, cluster: Cluster, group: str, *, timeout_s: float, retries: int, rules: Rules, batch_bytes: int
    ) -> None:
        self.cluster = cluster
        self.rules = rules
        self._clock = cluster.ports.clock
        self._timeout_s = timeout_s
        self._batch_bytes = min(batch_bytes, rules.message_bytes_max)
        self._posting = Posting(cluster, group, rules, retries, None, ())
        self._names: dict[str, str] = {}

    def name(self, topic: str) -> str:
        """Return a topic's name on the wire; raises BadMessage."""
        name = self._names.get(topic)
        if name is None:
            name = self._names[topic] = check_topic(topic, self.rules.namespace)
        return name

    async def queues(self, topic: str) -> tuple[QueueName, ...]:
        """Return the queues that take messages of a topic; raises NoRoute."""
        return await self._posting.queues(self.name(topic), self._timeout_s)

    async def queue_of(self, topic: str, ordering_key: str) -> QueueName:
        """Return the queue of an ordering key."""
        return by_key(await self.queues(topic), ordering_key)

    def pack(
        self,
        topic: str,
        bodies: Sequence[bytes],
        texts: Sequence[str],
        form: type[SendBatch] = SendBatch,
        flag: int = 0,
    ) -> list[Parcel]:
        """Pack messages into as few requests as the limits allow; raises BadMessage."""
        name = self.name(topic)
        check_bodies(bodies, self.rules.message_bytes_max)
        now_ms, next_id = self._clock.now_ms(), self.cluster.ids.next
        ids = [next_id(now_ms) for _ in bodies]
        items = items_of(bodies, texts, ids)
        alike = (Outgoing(topic=topic, body=b""),)
        return [
            Parcel(
                name, alike, ids[run.start : run.start + 1], ({},), "batch", b"".join(items[run]), now_ms,
                flag, form, count=run.stop - run.start,
            )
            for run in runs(items, RECORD_BYTES + len(name), self._batch_bytes)
        ]  # fmt: skip

    def pack_one(
        self, topic: str, body: bytes, text: str, due: timedelta | datetime | None = None, flag: int = 0
    ) -> Parcel:
        """Pack one message, for now or for later; raises BadMessage, Misuse."""
        now_ms = self._clock.now_ms()
        packed, packed_flag = pack_body(body, self.rules)
        message_id = self.cluster.ids.next(now_ms)
        message = Outgoing(
            topic=topic,
            body=b"",
            delay=due if isinstance(due, timedelta) else None,
            deliver_at=due if isinstance(due, datetime) else None,
        )
        return Parcel(
            self.name(topic), (message,), (message_id,), ({},), "normal", packed, now_ms, flag | packed_flag,
            delay_ms=check_delay(message, now_ms), text=text_with_id(text, message_id),
        )  # fmt: skip

    async def post(self, parcel: Parcel, pick: Pick | None = None) -> Receipt:
        """Send a parcel and return where its first message lies.

        Raises SendFailed, also when it is stored but not as safely as the broker promises.
        """
        receipt = (await self._posting.post(parcel, pick, self._timeout_s))[0]
        if receipt.status != "ok":
            weak = Refused(f"stored only with {receipt.status}", retriable=True)
            raise SendFailed(parcel.topic, [Attempt(receipt.broker, weak)])
        return receipt
