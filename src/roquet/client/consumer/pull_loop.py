"""The pull loop of one queue: ask for the next messages, wait at the broker while there are none.

    may we? ─no─▶ wait until something ends        (room, pause)
       │yes
    PULL_MESSAGE ─┬─ found ─────▶ cut, compare tags, claim.take ─▶ again at once
                  ├─ none ──────▶ go on from where the broker says
                  ├─ moved ─────▶ another claim from there takes over
                  └─ anything else, or no answer ─▶ wait a little, again

Every pull also stores the group's position. It never ends by itself while the queue is ours, whatever
brokers and networks do. Reference: the pull of Apache's push consumer 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from roquet.client.cluster.cluster import Cluster
from roquet.client.consumer.claim import Claim
from roquet.client.consumer.membership import Membership
from roquet.client.core.pages import BadPage, messages_of, records_of, with_tags
from roquet.client.errors import Closed, RoquetError
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.pull import Pull, Pulled, PullFlag
from roquet.wire.row import FieldError

log = logging.getLogger("roquet.client")

POLL_MS: Final = 15_000
"""How long a broker keeps a pull that finds nothing."""
TIMEOUT_SECONDS: Final = 30.0
FAILED_SECONDS: Final = 1.0
"""The pause after a failure."""
FLOW_CONTROL: Final = 215
FLOW_SECONDS: Final = 0.02
"""The pause that a broker asks for with FLOW_CONTROL."""
PAGE_BYTES_MAX: Final = 256 * 1024

_SUSPEND: Final = int(PullFlag.SUSPEND)
_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)
_STALE: Final = (Code.SUBSCRIPTION_NOT_EXIST, Code.SUBSCRIPTION_NOT_LATEST, Code.FILTER_DATA_NOT_LATEST)

Moved = Callable[[Claim, int], Awaitable[None]]


class PullLoop:
    """Runs for every claim of one consumer."""

    def __init__(
        self,
        cluster: Cluster,
        membership: Membership,
        moved: Moved,
        troubled: Callable[[Claim], None],
        count: int,
        stores_positions: bool,
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._moved = moved
        self._troubled = troubled
        self._count = count
        self._flags = _SUSPEND | _COMMIT if stores_positions else _SUSPEND
        self._clock = cluster.ports.clock

    async def run(self, claim: Claim) -> None:
        """Pull until the claim is dropped."""
        while not claim.is_dropped:
            if not claim.may_pull:
                await claim.changed()
                continue
            try:
                pause_s = await self._pull(claim)
            except Closed:
                return  # the rounds of rebalance notice it, too, and end the consumer
            if pause_s:
                await self._clock.sleep_until(self._clock.monotonic() + pause_s)

    async def _pull(self, claim: Claim) -> float:
        """Ask once; returns how long to wait before the next time."""
        try:
            answer = await self._ask(claim)
            if claim.is_dropped:
                return 0.0
            return await self._take(claim, answer)
        except Closed:
            raise
        except (RoquetError, BadPage, FieldError) as error:
            log.info("pulling %s fails and is tried again: %s", claim.queue, error)
            claim.broker_id = 0
            self._troubled(claim)
            return FAILED_SECONDS

    async def _ask(self, claim: Claim) -> Frame:
        queue, flight = claim.queue, claim.inflight
        route = await self._cluster.route(queue.topic)
        address = route.reader(queue.broker_name, claim.broker_id)
        lowest, flags = flight.lowest(), self._flags
        if claim.broker_id or not lowest:  # a slave takes no positions, and 0 says nothing
            flags &= ~_COMMIT
        subscription = self._membership.subscriptions.get(queue.topic)
        request = Pull(
            self._membership.group, queue.topic, queue.queue_id, flight.next_offset, self._count, flags,
            lowest if flags & _COMMIT else 0, POLL_MS,
            0 if subscription is None else subscription.sub_version,
            expression_type="TAG" if subscription is None else subscription.expression_type,
            max_msg_bytes=PAGE_BYTES_MAX,
        )  # fmt: skip
        return await self._cluster.call(address, request, timeout_s=TIMEOUT_SECONDS)

    async def _take(self, claim: Claim, answer: Frame) -> float:
        if answer.code == Code.SUCCESS:
            self._found(claim, answer)
            return 0.0
        if answer.code in (Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY):
            pulled = Pulled.decode(answer.ext)
            claim.broker_id = pulled.suggest_which_broker_id
            claim.take((), max(pulled.next_begin_offset, claim.inflight.next_offset))
            return 0.0
        if answer.code == Code.PULL_OFFSET_MOVED:
            next_offset = Pulled.decode(answer.ext).next_begin_offset
            log.warning(
                "%s does not have offset %d: going on from %d (%s)",
                claim.queue, claim.inflight.next_offset, next_offset, answer.remark,
            )  # fmt: skip
            await self._moved(claim, next_offset)
            return 0.0
        if answer.code == FLOW_CONTROL:
            return FLOW_SECONDS
        if answer.code in _STALE:
            self._cluster.beat_soon()
        log.info("%s is not read now, code %d: %s", claim.queue, answer.code, answer.remark)
        claim.broker_id = 0
        return FAILED_SECONDS

    def _found(self, claim: Claim, answer: Frame) -> None:
        pulled = Pulled.decode(answer.ext)
        claim.broker_id = pulled.suggest_which_broker_id
        records = records_of(answer.body)
        tags = self._membership.tags(claim.queue.topic)
        if tags:
            records = with_tags(records, tags)
        messages = messages_of(records, claim.queue.broker_name, claim, self._cluster.namespace)
        claim.take(messages, max(pulled.next_begin_offset, claim.inflight.next_offset))
