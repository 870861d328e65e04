"""What brokers ask of a consumer: share anew (40), go on from elsewhere (220), how far are you (221), your
whole state (307), and: consume this one message now (309).

Each handler answers for its own group and passes on what is another's. The bodies are those that Apache's
tools read (ConsumerRunningInfo and ConsumeMessageDirectlyResult of 5.5.0).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol

from roquet.client.cluster.callbacks import Handler
from roquet.client.cluster.cluster import Cluster
from roquet.client.consumer.claim import Claim
from roquet.client.consumer.claims import Claims
from roquet.client.consumer.inbox import Inbox
from roquet.client.consumer.membership import Membership
from roquet.client.consumer.rates import Rates
from roquet.client.core.offsets_file import read_table
from roquet.client.core.pages import BadPage, messages_of, records_of
from roquet.client.message import Message
from roquet.ports import Clock
from roquet.transport.link import Link
from roquet.wire.bodies import admin, loose_json
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.reply import OK, Reply
from roquet.wire.requests.client import (
    ConsumeDirectly,
    GetClientStatus,
    GetRunningInfo,
    NotifyConsumersChanged,
    ResetClientOffset,
)
from roquet.wire.row import Header

DIRECT_SECONDS_MAX: Final = 9.0
"""How long a message may take that a tool hands over: brokers give up after ten seconds."""
MIB: Final = 1024 * 1024


class Rebalancing(Protocol):
    def wake(self) -> None: ...


class ConsumerCalls:
    """Answers brokers for one consumer."""

    def __init__(
        self,
        cluster: Cluster,
        membership: Membership,
        claims: Claims,
        inbox: Inbox,
        rebalance: Rebalancing,
        rates: Rates,
        properties: Mapping[str, str],
        is_ordered: bool,
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._claims = claims
        self._inbox = inbox
        self._rebalance = rebalance
        self._rates = rates
        self._properties = properties
        self._is_ordered = is_ordered
        self._clock = cluster.ports.clock
        self._handlers: dict[type[Header], Handler] = {
            NotifyConsumersChanged: self.share_anew,
            ResetClientOffset: self.reset,
            GetClientStatus: self.status,
            GetRunningInfo: self.running_info,
            ConsumeDirectly: self.consume_directly,
        }

    def open(self) -> None:
        for request, handler in self._handlers.items():
            self._cluster.answer(request, handler)

    def close(self) -> None:
        for request, handler in self._handlers.items():
            self._cluster.unanswer(request, handler)

    def share_anew(self, request: NotifyConsumersChanged, frame: Frame, link: Link) -> Reply | None:
        """40: the group has changed."""
        if request.consumer_group != self._membership.group:
            return None
        self._rebalance.wake()
        return OK

    async def reset(self, request: ResetClientOffset, frame: Frame, link: Link) -> Reply | None:
        """220: go on from other positions."""
        if request.group != self._membership.group:
            return None
        try:
            offsets = read_table(loose_json.loads(frame.body), "offsetTable")
        except ValueError as error:
            return Reply(Code.SYSTEM_ERROR, remark=f"the body is no table of offsets: {error}")
        for queue, offset in offsets.items():
            claim = self._claims.table.get(queue)
            if claim is not None and queue.topic == request.topic:
                await self._claims.move(claim, offset)
        return OK

    def status(self, request: GetClientStatus, frame: Frame, link: Link) -> Reply | None:
        """221: how far we are in each queue of a topic."""
        if request.group != self._membership.group:
            return None
        offsets = {
            queue: claim.inflight.lowest()
            for queue, claim in self._claims.table.items()
            if queue.topic == request.topic
        }
        return Reply(body=admin.encode({"consumerTable": {}, "messageQueueTable": admin.by_queue(offsets)}))

    def running_info(self, request: GetRunningInfo, frame: Frame, link: Link) -> Reply | None:
        """307: our whole state."""
        if request.consumer_group != self._membership.group:
            return None
        table = self._claims.table
        rates = self._rates.by_topic(self._clock.monotonic(), table.values())
        body = {
            "mqPopTable": {},
            "mqTable": admin.by_queue({queue: self._state(claim) for queue, claim in table.items()}),
            "properties": {
                **self._properties,
                "PROP_NAMESERVER_ADDR": ";".join(self._cluster.name_servers) + ";",
            },
            "statusTable": {
                topic: {
                    "consumeFailedMsgs": rate.failed_count,
                    "consumeFailedTPS": rate.failed_per_s,
                    "consumeOKTPS": rate.acked_per_s,
                    "pullTPS": rate.pulled_per_s,
                }
                for topic, rate in rates.items()
            },
            "subscriptionSet": list(self._membership.subscriptions.values()),
            "userConsumerInfo": {},
        }
        return Reply(body=admin.encode(body))

    async def consume_directly(self, request: ConsumeDirectly, frame: Frame, link: Link) -> Reply | None:
        """309: hand one message to user code and say what came of it."""
        if request.consumer_group != self._membership.group:
            return None
        direct = Direct(self._clock, self._is_ordered)
        try:
            records = records_of(frame.body)
        except BadPage as error:
            return Reply(Code.SYSTEM_ERROR, remark=str(error))
        broker = request.broker_name or ""
        self._inbox.put(direct, messages_of(records[:1], broker, direct, self._cluster.namespace))
        return await direct.result()

    def _state(self, claim: Claim) -> dict[str, object]:
        flight = claim.inflight
        return {
            "cachedMsgCount": len(flight),
            "cachedMsgMaxOffset": flight.next_offset - 1 if len(flight) else 0,
            "cachedMsgMinOffset": flight.lowest() if len(flight) else 0,
            "cachedMsgSizeInMiB": flight.size_bytes // MIB,
            "commitOffset": flight.lowest(),
            "droped": claim.is_dropped,
            "lastConsumeTimestamp": claim.consumed_ms,
            "lastLockTimestamp": claim.pulled_ms,
            "lastPullTimestamp": claim.pulled_ms,
            "locked": self._is_ordered,
            "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgMinOffset": 0,
            "tryUnlockTimes": 0,
        }


class Direct:
    """The delivery of a message that a tool hands over: its end is the answer."""

    is_dropped = False
    is_paused = False

    def __init__(self, clock: Clock, is_ordered: bool) -> None:
        self._clock = clock
        self._is_ordered = is_ordered
        self._began = clock.monotonic()
        self._ended: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    def hand(self, messages: Sequence[Message]) -> None:
        """Nothing is counted here."""

    async def ack(self, message: Message) -> None:
        self._end("CR_SUCCESS")

    async def retry(self, message: Message, after: timedelta | None) -> None:
        self._end("CR_LATER")

    async def dead_letter(self, message: Message) -> None:
        self._end("CR_LATER", "given up as a dead letter")

    async def give_back(
        self, message: Message, after: timedelta | None, outcome: str, error: BaseException | None = None
    ) -> None:
        self._end("CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}")

    async def result(self) -> Reply:
        """Wait for the end and return it in Apache's form."""
        deadline = self._clock.monotonic() + DIRECT_SECONDS_MAX
        timer = self._clock.call_at(deadline, self._end, "CR_LATER", "user code has not ended it in time")
        try:
            outcome, remark = await self._ended
        finally:
            timer.cancel()
        spent_ms = int((self._clock.monotonic() - self._began) * 1000)
        body: dict[str, object] = {
            "autoCommit": True,
            "consumeResult": outcome,
            "order": self._is_ordered,
            "spentTimeMills": spent_ms,
        }
        return Reply(body=admin.encode(body | ({"remark": remark} if remark else {})))

    def _end(self, outcome: str, remark: str = "") -> None:
        if not self._ended.done():
            self._ended.set_result((outcome, remark))


def running_properties(
    group: str, started_ms: int, is_ordered: bool, concurrency: int, model: str, start: str
) -> dict[str, str]:
    """Return what tools show of a consumer's settings."""
    return {
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CLIENT_VERSION": "V5_5_0",
        "PROP_CONSUMEORDERLY": str(is_ordered).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(concurrency),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "consumerGroup": group,
        "messageModel": model,
        "consumeFromWhere": start,
    }
