"""Rebalance: which queues are ours now, worked out again whenever something may have changed.

    every 20 s · a broker's notice (40) · a changed route · start · subscribe ─▶ round
    round, per topic:  route ─▶ all queues ┐
                       a broker ─▶ members ┴▶ assign ─▶ drop what is not ours, lock and start what is new

Every member does the same over the same lists, so their shares fit. What cannot be found out leaves the
topic as it is, and the next round comes after a second. Reference: RebalanceImpl of Apache 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from roquet.client.cluster.cluster import Cluster
from roquet.client.consumer.claims import Claims
from roquet.client.consumer.locks import Locks
from roquet.client.consumer.membership import Membership
from roquet.client.consumer.starts import Starts
from roquet.client.core.assign import Assign, sorted_queues
from roquet.client.core.route_view import RouteView
from roquet.client.errors import Closed, NoRoute, RoquetError
from roquet.model.names import is_retry
from roquet.model.route import QueueName
from roquet.wire.bodies import admin
from roquet.wire.requests.client import GetConsumerList
from roquet.wire.row import FieldError

log = logging.getLogger("roquet.client")

ROUND_SECONDS: Final = 20.0
UNSETTLED_SECONDS: Final = 1.0
"""The next round when something could not be done in this one."""
BETWEEN_SECONDS_MIN: Final = 0.2
"""The least time between two rounds, however many notices come."""
HANDOVER_SECONDS: Final = 0.5
"""What the member that had a queue before gets to store its position."""


class _Members(msgspec.Struct, rename="camel"):
    consumer_id_list: list[str] = []


class Rebalance:
    """The rounds of one consumer."""

    def __init__(
        self,
        cluster: Cluster,
        membership: Membership,
        claims: Claims,
        starts: Starts,
        locks: Locks,
        assign: Assign,
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._claims = claims
        self._starts = starts
        self._locks = locks
        self._assign = assign
        self._clock = cluster.ports.clock
        self._wanted = asyncio.Event()
        self._unknown: set[str] = set()
        self._round = asyncio.Lock()

    def wake(self) -> None:
        """Let the next round come at once."""
        self._wanted.set()

    async def run(self) -> None:
        """Make rounds until cancelled; raises Closed when the connections are gone for good."""
        while True:
            try:
                is_settled = await self.round()
            except Closed:
                raise
            except (FieldError, ValueError) as error:
                log.warning("the shares stay as they are, a server's answer cannot be read: %s", error)
                is_settled = False
            await self._sleep(BETWEEN_SECONDS_MIN)
            pause_s = ROUND_SECONDS if is_settled else UNSETTLED_SECONDS
            timer = self._clock.call_at(self._clock.monotonic() + pause_s, self._wanted.set)
            try:
                await self._wanted.wait()
            finally:
                timer.cancel()

    async def round(self) -> bool:
        """Work out all shares anew; False when something is left to do."""
        async with self._round:
            self._wanted.clear()
            topics = sorted(self._membership.subscriptions)
            gone = [
                queue for queue in self._claims.table if queue.topic not in self._membership.subscriptions
            ]
            await self._claims.drop(gone)
            settled = await asyncio.gather(*[self._share(topic) for topic in topics])
            return all(settled)

    async def _share(self, topic: str) -> bool:
        try:
            route = await self._cluster.route(topic, fresh=topic in self._unknown)
            members = await self._members(route)
        except Closed:
            raise
        except NoRoute as error:
            self._note_unknown(topic, error)
            return False
        except RoquetError as error:
            log.info("the queues of %s stay as they are: %s", topic, error)
            return False
        self._unknown.discard(topic)
        queues = sorted_queues(route.read_queues())
        try:
            mine = set(self._assign(self._cluster.client_id, queues, members))
        except Exception:  # it may be the user's: a mistake in it must not end the rounds
            log.exception("the rule cannot share the queues of %s, which stay as they are", topic)
            return False
        if self._cluster.client_id not in members:
            self._cluster.beat_soon()  # the broker has forgotten us, or not heard of us yet
        table = self._claims.table
        not_mine = [
            queue
            for queue, claim in table.items()
            if queue.topic == topic and (queue not in mine or _has_failed(claim.pulling))
        ]
        await self._claims.drop(not_mine)
        new = [queue for queue in sorted_queues(mine) if queue not in table]
        if not new:
            return self._cluster.client_id in members
        return await self._begin(new, has_others=len(members) > 1)

    async def _begin(self, queues: Sequence[QueueName], has_others: bool) -> bool:
        """Take queues; False when one of them must wait for the next round."""
        free = [queue for queue in queues if queue not in self._claims.leaving]
        locked = await self._locks.acquire(free)
        if has_others and locked and not self._has_only_retries(locked):
            await self._sleep(HANDOVER_SECONDS)
        begun = await asyncio.gather(*[self._begin_one(queue) for queue in free if queue in locked])
        return len(locked) == len(queues) and all(begun)

    async def _begin_one(self, queue: QueueName) -> bool:
        try:
            next_offset = await self._starts.find(queue)
        except Closed:
            raise
        except RoquetError as error:
            log.info("%s cannot be read yet: %s", queue, error)
            return False
        self._claims.start(queue, next_offset)
        return True

    async def _members(self, route: RouteView) -> list[str]:
        """Ask the brokers of a topic, one after another from a random one on; raises the last error."""
        if self._membership.model == "BROADCASTING":
            return [self._cluster.client_id]
        masters = sorted(route.masters())
        first = self._cluster.ports.rng.randrange(len(masters)) if masters else 0
        failure = RoquetError(f"no broker of {route.topic} has a master now", retriable=True)
        for address in (*masters[first:], *masters[:first]):
            try:
                answer = await self._cluster.ask(address, GetConsumerList(self._membership.group))
            except RoquetError as error:
                failure = error
                continue
            return sorted(admin.decode(answer.body, _Members).consumer_id_list)
        raise failure

    def _note_unknown(self, topic: str, error: NoRoute) -> None:
        if topic not in self._unknown:
            self._unknown.add(topic)
            if not is_retry(topic):  # the broker makes that one with our first heartbeat
                log.warning("waiting for topic %s to come into being: %s", topic, error)

    def _has_only_retries(self, queues: Collection[QueueName]) -> bool:
        return all(is_retry(queue.topic) for queue in queues)

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.monotonic() + seconds)


def _has_failed(pulling: asyncio.Task[None] | None) -> bool:
    """True when a pull loop has ended though its queue is ours: a fresh one must take over."""
    return pulling is not None and pulling.done()
