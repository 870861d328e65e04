"""Locks of queues at their brokers: the members of an orderly group keep each other out by them.

    lock (41) ─▶ renewed every 20 s ─▶ … ─▶ unlock (42)
                    └ no renewal for 30 s: we must take it as lost; the broker keeps it for 60 s

`Unlocked` is for groups that need none. Reference: RebalanceLockManager and client of Apache 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, Protocol

import msgspec

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import RoquetError
from roquet.model.route import QueueName
from roquet.ports import Clock
from roquet.wire.bodies import admin
from roquet.wire.requests.order import LockQueues, UnlockQueues

log = logging.getLogger("roquet.client")

RENEW_SECONDS: Final = 20.0
VALID_SECONDS: Final = 30.0


class _Queue(msgspec.Struct, rename="camel", frozen=True):
    broker_name: str
    queue_id: int
    topic: str


class _Locked(msgspec.Struct):
    queues: list[_Queue] = msgspec.field(name="lockOKMQSet", default_factory=list)


class Locks(Protocol):
    """Who may read a queue."""

    async def acquire(self, queues: Collection[QueueName]) -> set[QueueName]:
        """Lock queues, or renew their locks; returns those that are ours now."""

    async def release(self, queues: Collection[QueueName]) -> None:
        """Give locks back."""


class Unlocked:
    """No locks: every queue may be read by whoever has it."""

    async def acquire(self, queues: Collection[QueueName]) -> set[QueueName]:
        return set(queues)

    async def release(self, queues: Collection[QueueName]) -> None:
        """There is nothing to give back."""


class BrokerLocks:
    """The locks of one orderly consumer."""

    def __init__(self, cluster: Cluster, group: str, clock: Clock) -> None:
        self._cluster = cluster
        self._group = group
        self._clock = clock
        self._valid_until: dict[QueueName, float] = {}

    async def acquire(self, queues: Collection[QueueName]) -> set[QueueName]:
        """Lock queues, or renew their locks; those of a broker that does not answer are left out."""
        held: set[QueueName] = set()
        for address, part in (await self._by_broker(queues)).items():
            asked_at = self._clock.monotonic()
            try:
                answer = await self._cluster.ask(address, LockQueues(), self._body(part))
            except RoquetError as error:
                log.info("%d queues are not locked: %s", len(part), error)
                continue
            locked = admin.decode(answer.body, _Locked).queues
            ours = {QueueName(queue.broker_name, queue.queue_id, queue.topic) for queue in locked}
            for queue in part:
                if queue in ours:
                    self._valid_until[queue] = asked_at + VALID_SECONDS
                    held.add(queue)
                else:
                    self._valid_until.pop(queue, None)
        return held

    async def release(self, queues: Collection[QueueName]) -> None:
        for queue in queues:
            self._valid_until.pop(queue, None)
        for address, part in (await self._by_broker(queues)).items():
            try:
                await self._cluster.ask(address, UnlockQueues(), self._body(part))
            except RoquetError as error:
                log.info("%d queues stay locked for a while: %s", len(part), error)

    def is_valid(self, queue: QueueName) -> bool:
        """True while nobody else can have the queue."""
        return self._valid_until.get(queue, 0.0) > self._clock.monotonic()

    async def _by_broker(self, queues: Collection[QueueName]) -> dict[str, list[QueueName]]:
        parts: dict[str, list[QueueName]] = {}
        for queue in sorted(queues):
            try:
                address = (await self._cluster.route(queue.topic)).master(queue.broker_name)
            except RoquetError as error:
                log.info("nobody to ask for the lock of %s: %s", queue, error)
                continue
            parts.setdefault(address, []).append(queue)
        return parts

    def _body(self, queues: Collection[QueueName]) -> bytes:
        return msgspec.json.encode(
            {
                "clientId": self._cluster.client_id,
                "consumerGroup": self._group,
                "mqSet": [_Queue(queue.broker_name, queue.queue_id, queue.topic) for queue in queues],
                "onlyThisBroker": False,
            }
        )
