"""Messages become parcels: ids, properties and bodies as the rules of one producer want them.

One message makes one parcel; several of one topic make as many as their size asks for. Knows nothing of
where the parcels go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.choose import Pick, by_key
from roquet.client.core.sending import (
    HALF_FLAG,
    RECORD_BYTES,
    Rules,
    check_batch,
    check_delay,
    check_topic,
    item_of,
    pack_body,
    pairs_of,
    runs,
    transaction_pairs,
)
from roquet.client.errors import Misuse
from roquet.client.message import Outgoing
from roquet.client.producer.parcel import Parcel
from roquet.model.route import QueueName
from roquet.wire.requests.send import SendBatch

HOOK_BYTES: Final = 512
"""Room that a batch leaves for what hooks add to each of its messages."""

TOPICS_KEPT_MAX: Final = 10_000
"""Names that are remembered as checked."""

NOTHING: Final[Mapping[str, str]] = {}

Queue = QueueName | Pick | None


def pick_of(message: Outgoing, queue: Queue) -> Pick | None:
    """Return how to choose among the queues of a topic; None means in turns."""
    if isinstance(queue, QueueName):
        return partial(_always, queue)
    if queue is not None:
        return queue
    if message.ordering_key is not None:
        return partial(by_key, key=message.ordering_key)
    return None


def _always(queue: QueueName, queues: Sequence[QueueName]) -> QueueName:
    return queue


class Packing:
    """Makes parcels for one producer."""

    def __init__(self, cluster: Cluster, rules: Rules, hook_bytes: int) -> None:
        self._cluster = cluster
        self._clock = cluster.ports.clock
        self._rules = rules
        self._hook_bytes = hook_bytes
        self._names: dict[str, str] = {}

    def name(self, topic: str) -> str:
        """Return a topic's name on the wire; raises BadMessage."""
        name = self._names.get(topic)
        if name is None:
            name = check_topic(topic, self._rules.namespace)
            if len(self._names) >= TOPICS_KEPT_MAX:
                self._names.clear()
            self._names[topic] = name
        return name

    def one(
        self,
        message: Outgoing,
        kind: str = "",
        extra: Mapping[str, str] = NOTHING,
        name: str = "",
    ) -> Parcel:
        """Pack one message; `extra` are properties that the protocol owns. Raises BadMessage, Misuse.

        `name` is the topic's name on the wire where it has no namespace.
        """
        now_ms = self._clock.now_ms()
        message_id = self._cluster.ids.next(now_ms)
        pairs = pairs_of(message, message_id, self._rules.namespace)
        if extra:
            pairs.update(extra)
        body, sys_flag = pack_body(message.body, self._rules)
        delay_ms = 0
        if message.delay is not None or message.deliver_at is not None:
            delay_ms = check_delay(message, now_ms)
        if not kind:
            kind = "delay" if delay_ms else "normal" if message.ordering_key is None else "order"
        name = name or self.name(message.topic)
        return Parcel(
            name, (message,), (message_id,), (pairs,), kind, body, now_ms, sys_flag, delay_ms=delay_ms
        )

    def half(self, message: Outgoing, group: str) -> Parcel:
        """Pack the first half of a transaction."""
        if message.delay is not None or message.deliver_at is not None:
            raise Misuse("a transaction cannot have a delay", hint="commit it when it is time")
        parcel = self.one(message, "transaction", transaction_pairs(group))
        parcel.sys_flag |= HALF_FLAG
        return parcel

    def several(self, topic: str, messages: Sequence[Outgoing], bytes_max: int) -> list[Parcel]:
        """Pack messages of one topic into as few requests as the limits allow; raises BadMessage, Misuse."""
        name = self.name(topic)
        check_batch(name, messages)
        rules, next_id, now_ms = self._rules, self._cluster.ids.next, self._clock.now_ms()
        ids = [next_id(now_ms) for _ in messages]
        pairs = [
            pairs_of(message, message_id, rules.namespace)
            for message, message_id in zip(messages, ids, strict=True)
        ]
        items = [item_of(message, each, rules) for message, each in zip(messages, pairs, strict=True)]
        return [
            Parcel(
                name, messages[run], ids[run], pairs[run], "batch", b"".join(items[run]), now_ms,
                form=SendBatch,
            )
            for run in runs(items, RECORD_BYTES + len(name) + self._hook_bytes, bytes_max)
        ]  # fmt: skip
