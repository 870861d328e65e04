"""The attempts of a send: choose a queue, ask its broker, and try another one when that may help.

    choose ─▶ hooks ─▶ ask ─┬─ stored (0, or 10 11 12 with a weaker promise) ─▶ receipts
      ▲                     ├─ no connection · no answer in time · a code in `TRY_AGAIN` ─▶ next attempt
      └── another broker ◀──┘  any other code ─▶ raised at once
    no name server answers, and no route is known ─▶ next attempt

All attempts share one time-out. Where the queue is given, every attempt goes there; a key chooses by the
route of the moment, so that an order survives the loss of a broker only in what comes after it.
Before the same broker is asked again there is a pause. Knows nothing of batches growing or transactions.
Reference: DefaultMQProducerImpl of Apache 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.choose import Pick, Turns, by_key
from roquet.client.core.faults import Faults
from roquet.client.core.route_view import RouteView
from roquet.client.core.sending import Rules, level_pairs, timer_pairs
from roquet.client.errors import (
    Attempt,
    Busy,
    NamesUnreachable,
    NoRoute,
    RoquetError,
    SendFailed,
    TimedOut,
    Unreachable,
    refusal,
)
from roquet.client.hooks import Hook, Sending, told
from roquet.client.message import Receipt
from roquet.client.producer.parcel import STORED, Parcel
from roquet.model.route import QueueName
from roquet.wire.codes import Code
from roquet.wire.header import Frame
from roquet.wire.requests.offsets import GetMaxOffset
from roquet.wire.row import row_of

log = logging.getLogger("roquet.client.producer")

NO_BUYER_ID: Final = 204
NOT_IN_CURRENT_UNIT: Final = 205
TRY_AGAIN: Final = frozenset(
    {
        Code.SYSTEM_ERROR,
        Code.SYSTEM_BUSY,
        Code.SERVICE_NOT_AVAILABLE,
        Code.NO_PERMISSION,
        Code.TOPIC_NOT_EXIST,
        NO_BUYER_ID,
        NOT_IN_CURRENT_UNIT,
        Code.GO_AWAY,
    }
)
"""Answers after which another broker may do better."""

NOTHING: Final[Mapping[str, str]] = {}

PAUSE_S: Final = 0.1
"""Before the same broker is asked again; twice as long each time."""

TIMERS_SINCE_VERSION: Final = 413
"""5.0.0, the first release that delays to the millisecond; older ones know levels only."""


class Posting:
    """Sends parcels of one producer group."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        rules: Rules,
        retries: int,
        faults: Faults | None,
        hooks: Sequence[Hook],
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.ports.clock
        self._group = group
        self._rules = rules
        self._retries = retries
        self._faults = faults
        self.hooks = hooks
        self._turns: dict[str, Turns] = {}
        self._versions: dict[str, int] = {}
        self._looking: set[str] = set()

    @property
    def topics(self) -> Sequence[str]:
        """The topics, by their names on the wire, that anything was sent to."""
        return tuple(self._turns)

    async def post(self, parcel: Parcel, pick: Pick | None, timeout_s: float) -> list[Receipt]:
        """Send until a broker has it; raises SendFailed, NoRoute, or the refusal that ends the matter."""
        clock, ask = self._clock, self._hooked if self.hooks else self._ask
        deadline = clock.monotonic() + timeout_s
        attempts: list[Attempt] = []
        last = ""
        while True:
            view = await self._route(parcel.topic, attempts, deadline)
            queue = self._choose(view, pick, last)
            last = queue.broker_name
            started = clock.monotonic()
            try:
                address = view.master(last)
                answer = await ask(parcel, queue, address, deadline - started)
            except (Unreachable, TimedOut, Busy) as error:
                failure: RoquetError = error
            else:
                if answer.code in STORED:
                    if self._faults is not None:
                        now = clock.monotonic()
                        self._faults.answered(last, now - started, now)
                    return parcel.receipts(last, answer)
                failure = refusal(answer.code, answer.remark, address, row_of(parcel.form).name)
                if answer.code not in TRY_AGAIN:
                    raise failure
            now = clock.monotonic()
            if self._faults is not None:
                self._faults.failed(last, now)
            attempts.append(Attempt(last, failure))
            if len(attempts) > self._retries or now >= deadline:
                raise SendFailed(parcel.topic, attempts) from failure
            self._look_again(parcel.topic)
            if pick is not None or all(other.broker_name == last for other in view.write_queues()):
                pause_s = PAUSE_S * 2 ** (len(attempts) - 1)
                if now + pause_s >= deadline:
                    raise SendFailed(parcel.topic, attempts) from failure
                await clock.sleep_until(now + pause_s)

    async def queues(self, topic: str, timeout_s: float) -> tuple[QueueName, ...]:
        """Return the queues that take messages of a topic; raises NoRoute, NamesUnreachable."""
        return (await self._route(topic, [], self._clock.monotonic() + timeout_s)).write_queues()

    async def _route(self, topic: str, attempts: list[Attempt], deadline: float) -> RouteView:
        """Return where to send; waits for name servers as for brokers: they may be back in a moment."""
        while True:
            try:
                return await self._cluster.publish_route(topic)
            except (NamesUnreachable, NoRoute) as error:
                # Those that come back learn of their brokers last; those that were there know it all.
                is_final = isinstance(error, NoRoute) and not attempts
                until = self._clock.monotonic() + PAUSE_S * 2 ** len(attempts)
                attempts.append(Attempt("the name servers", error))
                if is_final or len(attempts) > self._retries or until >= deadline:
                    raise
            await self._clock.sleep_until(until)

    async def queue_of(self, topic: str, key: str) -> QueueName:
        """Return the queue of an ordering key by the route of this moment; raises NoRoute."""
        return by_key((await self._cluster.publish_route(topic)).write_queues(), key)

    async def post_one_way(self, parcel: Parcel, pick: Pick | None) -> None:
        """Send once and wait for nothing but the connection."""
        view = await self._cluster.publish_route(parcel.topic)
        queue = self._choose(view, pick, "")
        address = view.master(queue.broker_name)
        extra = await self._delayed(parcel, queue, address) if parcel.delay_ms else NOTHING
        sending, tokens = self._before(parcel, queue, address)
        error: BaseException | None = None
        try:
            await self._cluster.tell(address, parcel.request(self._group, queue, extra), parcel.body)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._after(sending, tokens, (), error)

    def _ask(
        self, parcel: Parcel, queue: QueueName, address: str, timeout_s: float
    ) -> Coroutine[Any, Any, Frame]:
        """Ask one broker."""
        if parcel.delay_ms:
            return self._ask_delayed(parcel, queue, address, timeout_s)
        request = parcel.request(self._group, queue, NOTHING)
        return self._cluster.call(address, request, parcel.body, timeout_s)

    async def _ask_delayed(self, parcel: Parcel, queue: QueueName, address: str, timeout_s: float) -> Frame:
        request = parcel.request(self._group, queue, await self._delayed(parcel, queue, address))
        return await self._cluster.call(address, request, parcel.body, timeout_s)

    async def _hooked(self, parcel: Parcel, queue: QueueName, address: str, timeout_s: float) -> Frame:
        """Ask one broker, with hooks before and after."""
        sending, tokens = self._before(parcel, queue, address)
        receipts: list[Receipt] = []
        error: BaseException | None = None
        try:
            answer = await self._ask(parcel, queue, address, timeout_s)
            if answer.code in STORED:
                receipts = parcel.receipts(queue.broker_name, answer)
            else:
                error = refusal(answer.code, answer.remark, address, row_of(parcel.form).name)
            return answer
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._after(sending, tokens, receipts, error)

    def _choose(self, view: RouteView, pick: Pick | None, last: str) -> QueueName:
        queues = view.write_queues()
        turns = self._turns.get(view.topic)
        if turns is None:
            turns = self._turns[view.topic] = Turns(self._cluster.ports.rng.randrange(len(queues)))
        if pick is not None:
            return pick(queues)
        faults = self._faults
        if faults is None and not last:
            queue = turns.next(queues)
            if not self._cluster.is_ailing(view.master(queue.broker_name)):
                return queue
        now = self._clock.monotonic()
        return turns.next_where(
            queues,
            lambda broker: broker != last and self._is_well(view, broker, now),
            lambda broker: broker != last,
        )

    def _look_again(self, topic: str) -> None:
        """Ask for the route beside: the broker may have moved, or the topic may be elsewhere now."""
        if topic not in self._looking:
            self._looking.add(topic)
            self._cluster.spawn(self._refresh(topic), f"look for {topic} again")

    async def _refresh(self, topic: str) -> None:
        try:
            await self._cluster.route(topic, fresh=True)
        except RoquetError as error:
            log.info("the route of %s stays as it is: %s", topic, error.what)
        finally:
            self._looking.discard(topic)

    def _is_well(self, view: RouteView, broker: str, now: float) -> bool:
        if self._faults is not None and not self._faults.is_good(broker, now):
            return False
        return not self._cluster.is_ailing(view.master(broker))

    async def _delayed(self, parcel: Parcel, queue: QueueName, address: str) -> Mapping[str, str]:
        """Return the properties of a delay as the broker understands them, asking it once how old it is."""
        version = self._versions.get(address)
        if version is None:
            answer = await self._cluster.call(address, GetMaxOffset(parcel.topic, queue.queue_id))
            version = self._versions[address] = answer.version
        if version >= TIMERS_SINCE_VERSION:
            return timer_pairs(parcel.messages[0])
        return level_pairs(parcel.delay_ms)

    def _before(self, parcel: Parcel, queue: QueueName, address: str) -> tuple[Sending, list[object]]:
        sending = Sending(self._group, queue.broker_name, address, parcel.messages, parcel.pairs, parcel.kind)
        tokens = [told(hook.before_send, sending) for hook in self.hooks]
        if self.hooks:
            parcel.write_again(self._rules)
        return sending, tokens

    def _after(
        self,
        sending: Sending,
        tokens: Sequence[object],
        receipts: Sequence[Receipt],
        error: BaseException | None,
    ) -> None:
        for hook, token in zip(self.hooks, tokens, strict=True):
            told(hook.after_send, sending, token, receipts, error)
