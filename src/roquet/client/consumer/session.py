"""An open consumer: all its parts, put together, started and ended in their order.

    open    heartbeat ─▶ first share of the queues ─▶ loops and handlers
    close   nothing more is handed out ─▶ handlers finish ─▶ positions stored, locks given back ─▶ goodbye

`Consumer` is the face of it; what the parts do is theirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from roquet.client.cluster.cluster import Cluster
from roquet.client.consumer.around import ConsumeHooks
from roquet.client.consumer.calls import ConsumerCalls, running_properties
from roquet.client.consumer.claim import Bounds, Claim, Line
from roquet.client.consumer.claims import Claims
from roquet.client.consumer.handing import AllAtOnce, Unreturned, give_back_overdue
from roquet.client.consumer.inbox import Inbox
from roquet.client.consumer.locks import RENEW_SECONDS, BrokerLocks, Unlocked
from roquet.client.consumer.membership import Membership
from roquet.client.consumer.offsets_kept import STORE_SECONDS, Kept, LocalOffsets, RemoteOffsets
from roquet.client.consumer.orderly import OneByOne
from roquet.client.consumer.pull_loop import PullLoop
from roquet.client.consumer.rates import Rates
from roquet.client.consumer.rebalance import Rebalance
from roquet.client.consumer.send_back import Returns
from roquet.client.consumer.starts import Starts
from roquet.client.consumer.workers import Handler, Workers
from roquet.client.core.assign import Assign
from roquet.client.core.namespace import wrap
from roquet.client.core.positions import Start, where_to_consume_from
from roquet.client.core.subscription import Expression
from roquet.client.errors import Closed, NoRoute, TimedOut, Unreachable
from roquet.client.hooks import Hook
from roquet.client.owned import Owned
from roquet.model.group import Subscription
from roquet.model.names import RETRY_PREFIX
from roquet.model.route import QueueName
from roquet.wire.requests.client import CheckClientConfig

log = logging.getLogger("roquet.client")

RENEW_AGAIN_SECONDS: Final = 1.0
"""The next try when a lock could not be renewed."""
SWEEP_SECONDS_MAX: Final = 60.0
SPAN_UNBOUNDED: Final = 1 << 62
"""Orderly consumers have no gaps in flight, so nothing to bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a consumer was asked to be; times in seconds."""

    group: str
    start: Start
    is_broadcast: bool
    is_ordered: bool
    handler: Handler | None
    concurrency: int
    batch: int
    bounds: Bounds
    attempts_max: int | None
    consume_timeout_s: float
    drain_timeout_s: float
    assign: Assign
    hooks: Sequence[Hook]
    offsets_dir: str


class Session:
    """See the module."""

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self.plan = plan
        self.cluster = cluster
        self._clock = clock = cluster.ports.clock
        name = f"consumer of {plan.group}"
        self._reading, self._upkeep, self._returning = Owned(name), Owned(name), Owned(name)
        self.group = group = wrap(cluster.namespace, plan.group)
        self.inbox = Inbox(clock)
        self._doubts = asyncio.Event()
        model = "BROADCASTING" if plan.is_broadcast else "CLUSTERING"
        self.membership = Membership(group, model, plan.start, clock, lambda topic: self.rebalance.wake())
        self._hooks = ConsumeHooks(plan.group, plan.hooks)
        self._broker_locks = BrokerLocks(cluster, group, clock)
        locks = self._broker_locks if self._has_locks else Unlocked()
        kept = self._kept()
        self._line = self._make_line()
        self._bounds = plan.bounds._replace(span_max=SPAN_UNBOUNDED) if plan.is_ordered else plan.bounds
        pulls = PullLoop(
            cluster, self.membership, self._moved, self._troubled, plan.batch, not plan.is_broadcast
        )
        self.claims = Claims(
            self._make_claim, pulls.run, kept, locks, self._reading, clock, waits_for_hands=plan.is_ordered
        )
        starts = Starts(cluster, kept, plan.start, clock.now_ms())
        self.rebalance = Rebalance(cluster, self.membership, self.claims, starts, locks, plan.assign)
        self._rates = Rates()
        properties = running_properties(
            plan.group,
            clock.now_ms(),
            plan.is_ordered,
            plan.concurrency,
            model,
            where_to_consume_from(plan.start),
        )
        self._calls = ConsumerCalls(
            cluster, self.membership, self.claims, self.inbox, self.rebalance, self._rates, properties,
            plan.is_ordered,
        )  # fmt: skip
        self._workers = None if plan.handler is None else Workers(self.inbox, plan.handler, clock, name)

    @property
    def _has_locks(self) -> bool:
        return self.plan.is_ordered and not self.plan.is_broadcast

    def _kept(self) -> Kept:
        if not self.plan.is_broadcast:
            return RemoteOffsets(self.cluster, self.group)
        folder = f"{self.plan.offsets_dir}/{self.cluster.client_id}/{self.group}"
        return LocalOffsets(self.cluster.ports.disk, folder)

    def _make_line(self) -> Line:
        plan, clock = self.plan, self._clock
        retries_max = None if plan.attempts_max is None else plan.attempts_max - 1
        returns = Returns(self.cluster, self.group, retries_max)
        if plan.is_ordered:
            return OneByOne(self.inbox, returns, clock, self._returning, plan.attempts_max)
        if plan.is_broadcast:
            return Unreturned(self.inbox)
        return AllAtOnce(self.inbox, returns, clock, self._returning)

    def _make_claim(self, queue: QueueName, next_offset: int) -> Claim:
        return Claim(queue, next_offset, self._bounds, self._line, self._hooks, self._clock)

    # --- opening and closing

    async def open(self, subscribe: Mapping[str, Expression]) -> None:
        """Become a member of the group and take a first share of the queues."""
        for topic, expression in subscribe.items():
            await self._want(topic, expression)
        if not self.plan.is_broadcast:
            self.membership.subscribe(f"{RETRY_PREFIX}{self.group}", "*")
        self._calls.open()
        self.cluster.join(self.membership)
        await self.cluster.beat()
        await self.rebalance.round()
        self._reading.spawn(self._share_queues(), "shares queues")
        self._upkeep.spawn(self._store_positions(), "stores positions")
        if self._has_locks:
            self._upkeep.spawn(self._renew_locks(), "renews locks")
        if not self.plan.is_ordered:
            self._upkeep.spawn(self._sweep(), "looks for overdue messages")
        if self._workers is not None:
            self._workers.start(self.plan.concurrency)

    async def close(self) -> None:
        """End everything; what user code has in hand gets its time to finish."""
        self.inbox.close()
        try:
            await self._reading.close()
            if self._workers is not None:
                await self._workers.drain(self.plan.drain_timeout_s)
            await self._returning.ended()
            await self._upkeep.close()
            await self.claims.close()
        finally:
            self._calls.close()
            for tasks in (self._reading, self._returning, self._upkeep):
                await tasks.close()
            await self.cluster.leave(self.membership)
            await self._hooks.close()

    # --- subscriptions

    async def subscribe(self, topic: str, expression: Expression) -> None:
        """Want messages of one more topic, or others of it than before."""
        await self._want(topic, expression)
        await self.cluster.beat()
        await self.rebalance.round()

    async def unsubscribe(self, topic: str) -> None:
        """Want no more of a topic."""
        self.membership.unsubscribe(wrap(self.cluster.namespace, topic))
        await self.rebalance.round()
        await self.cluster.beat()

    async def _want(self, topic: str, expression: Expression) -> None:
        name = wrap(self.cluster.namespace, topic)
        subscription = self.membership.subscribe(name, expression)
        try:
            route = await self.cluster.route(name)
        except NoRoute as error:
            log.warning("waiting for topic %s to come into being: %s", topic, error)
            return
        if subscription.expression_type != "TAG":
            for address in sorted(route.masters()):
                await self._check(address, subscription)

    async def _check(self, address: str, subscription: Subscription) -> None:
        """Ask a broker whether it understands an expression; raises Refused, BadExpression among them."""
        try:
            await self.cluster.ask(address, CheckClientConfig(), self._question(subscription))
        except (Unreachable, TimedOut) as error:
            log.warning(
                "%s cannot say whether it understands %r: %s", address, subscription.sub_string, error
            )

    def _question(self, subscription: Subscription) -> bytes:
        body = {
            "clientId": self.cluster.client_id,
            "group": self.group,
            "namespace": self.cluster.namespace,
            "subscriptionData": subscription,
        }
        return msgspec.json.encode(body)

    # --- loops

    async def _share_queues(self) -> None:
        try:
            await self.rebalance.run()
        except Closed:
            log.warning("the cluster of %s was closed before its consumer", self.plan.group)
            self.inbox.close()

    async def _moved(self, claim: Claim, next_offset: int) -> None:
        await self.claims.move(claim, next_offset)

    async def _store_positions(self) -> None:
        while True:
            await self._sleep(STORE_SECONDS)
            self._rates.sample(self._clock.monotonic(), self.claims.table.values())
            await self.claims.store()

    def _troubled(self, claim: Claim) -> None:
        """A broker was lost: if it has restarted, it knows no locks, and another member may be quicker."""
        if self._has_locks:
            claim.is_doubtful = True
            self._doubts.set()

    async def _renew_locks(self) -> None:
        while True:
            self._doubts.clear()
            queues = list(self.claims.table)
            held = await self._broker_locks.acquire(queues)
            for queue in queues:
                claim = self.claims.table.get(queue)
                if queue in held and claim is not None:
                    claim.is_doubtful = False
                elif not self._broker_locks.is_valid(queue):
                    log.warning("the lock of %s is lost: another member may have it", queue)
                    self._upkeep.spawn(self.claims.lose(queue), "loses a queue")
                    self.rebalance.wake()
            self.inbox.resumed()
            if len(held) < len(queues):
                await self._sleep(RENEW_AGAIN_SECONDS)
                continue
            timer = self._clock.call_at(self._clock.monotonic() + RENEW_SECONDS, self._doubts.set)
            try:
                await self._doubts.wait()
            finally:
                timer.cancel()

    async def _sweep(self) -> None:
        limit_s = self.plan.consume_timeout_s
        while True:
            await self._sleep(min(limit_s / 4, SWEEP_SECONDS_MAX))
            await give_back_overdue(list(self.claims.table.values()), self._clock.monotonic() - limit_s)

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.monotonic() + seconds)
