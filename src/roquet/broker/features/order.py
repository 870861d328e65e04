"""Locks of queues: how the members of an orderly group keep each other out.

A client locks a queue for its group, renews the lock every 20 s and loses it 60 s after the last renewal,
or when it gives it back. Kept in memory: after a restart the clients lock again. Compatibility:
RebalanceLockManager of Apache 5.5.0.
"""

from __future__ import annotations

import msgspec

from roquet.model.names import group_fault, topic_fault
from roquet.model.route import QueueName
from roquet.ports import Clock
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import loose_json
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Outcome, Refusal, Reply
from roquet.wire.requests.order import LockQueues, UnlockQueues
from roquet.wire.row import Header


class _Queue(msgspec.Struct, rename="camel", frozen=True):
    broker_name: str
    queue_id: int
    topic: str


class _LockBody(msgspec.Struct, rename="camel"):
    """Both requests carry it."""

    client_id: str
    consumer_group: str
    mq_set: list[_Queue] = []


class _Lock:
    __slots__ = ("client_id", "expires_at")

    def __init__(self, client_id: str, expires_at: float) -> None:
        self.client_id = client_id
        self.expires_at = expires_at


class Order:
    """The lock table of one broker, by group and queue."""

    def __init__(self, clock: Clock, live_s: float) -> None:
        self._clock = clock
        self._live_s = live_s
        self._locks: dict[str, dict[QueueName, _Lock]] = {}

    def routes(self) -> dict[type[Header], Handler]:
        return {LockQueues: self.lock, UnlockQueues: self.unlock}

    def lock(self, request: LockQueues, call: Call) -> Outcome:
        """Lock or renew; the answer lists the queues that the client holds now."""
        body = _read(call.frame.body)
        expires_at = self._clock.monotonic() + self._live_s
        locks = self._locks.setdefault(body.consumer_group, {})
        held = []
        for queue in body.mq_set:
            key = QueueName(queue.broker_name, queue.queue_id, queue.topic)
            lock = locks.get(key)
            if lock is None or lock.client_id == body.client_id or self._is_expired(lock):
                locks[key] = _Lock(body.client_id, expires_at)
                held.append(queue)
        return Reply(body=msgspec.json.encode({"lockOKMQSet": held}))

    def unlock(self, request: UnlockQueues, call: Call) -> Outcome:
        """Give back the locks that are the client's own; those of others stay."""
        body = _read(call.frame.body)
        locks = self._locks.get(body.consumer_group, {})
        for queue in body.mq_set:
            key = QueueName(queue.broker_name, queue.queue_id, queue.topic)
            lock = locks.get(key)
            if lock is not None and lock.client_id == body.client_id:
                del locks[key]
        return OK

    def holds_any(self, group: str) -> bool:
        """True while some member of the group holds a live lock."""
        return any(not self._is_expired(lock) for lock in self._locks.get(group, {}).values())

    def on_tick(self, now: float) -> None:
        """Forget locks that nobody renewed."""
        for group in list(self._locks):
            locks = self._locks[group]
            for key in [key for key, lock in locks.items() if lock.expires_at <= now]:
                del locks[key]
            if not locks:
                del self._locks[group]

    def _is_expired(self, lock: _Lock) -> bool:
        return lock.expires_at <= self._clock.monotonic()


def _read(data: bytes) -> _LockBody:
    try:
        body = msgspec.convert(loose_json.loads(data), _LockBody, strict=False)
    except ValueError as error:
        raise Refusal(Code.SYSTEM_ERROR, f"the body is not a lock request: {error}") from None
    faults = [group_fault(body.consumer_group), *(topic_fault(queue.topic) for queue in body.mq_set)]
    for fault in filter(None, faults):
        raise Refusal(Code.INVALID_PARAMETER, fault)
    return body
