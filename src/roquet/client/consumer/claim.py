"""One queue that is ours for now: what is in flight of it, what is in hand, and how messages end.

    pull loop ─▶ take ─▶ line (concurrent or orderly) ─▶ inbox ─▶ hand ─▶ user code
                                                                            │ ack · retry · dead letter
                     room for the pull loop ◀── inflight.end ◀──────────────┘

A claim is made with a position and never goes back: another position means another claim. Once dropped
it takes no part any more, and what user code says about its messages changes nothing: whoever has the
queue next delivers them again. It is the `Delivery` of its messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol

from roquet.client.consumer.around import ConsumeHooks
from roquet.client.core.inflight import Inflight
from roquet.client.message import Message
from roquet.model.route import QueueName
from roquet.ports import Clock


class Bounds(NamedTuple):
    """How far the pulls of one queue may run ahead of user code."""

    count_max: int
    size_bytes_max: int
    span_max: int


Handed = tuple[Message, float, Sequence[object]]
"""A message in the hands of user code, since when, and what its hooks want back: a bare tuple, for speed."""


class Line(Protocol):
    """In which order a queue's messages go to user code, and what becomes of one that is given back."""

    def offer(self, claim: Claim, messages: Sequence[Message]) -> None:
        """Messages have come."""

    def ended(self, claim: Claim) -> None:
        """One that was in hand is done."""

    async def again(self, claim: Claim, message: Message, after: timedelta | None) -> None:
        """See to it that the message comes again; end it in the claim once it will."""

    async def bury(self, claim: Claim, message: Message) -> None:
        """See to it that the message goes to the dead letters; end it in the claim once it has."""

    def drop(self, claim: Claim) -> None:
        """Forget what is not in hand."""


class Claim:
    """See the module."""

    def __init__(
        self,
        queue: QueueName,
        next_offset: int,
        bounds: Bounds,
        line: Line,
        hooks: ConsumeHooks,
        clock: Clock,
    ) -> None:
        self.queue = queue
        self.inflight = Inflight(next_offset)
        self.handed: dict[int, Handed] = {}
        self.is_dropped = False
        self.is_halted = False
        self.is_doubtful = False
        self.broker_id = 0
        self.pulled_ms = self.consumed_ms = clock.now_ms()
        self.pulling: asyncio.Task[None] | None = None
        self.pulled_count = self.acked_count = self.failed_count = 0
        self._bounds = bounds
        self._line = line
        self._hooks = hooks
        self._clock = clock
        self._waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        queue = self.queue
        return f"<Claim {queue.topic} {queue.broker_name}/{queue.queue_id} at {self.inflight.lowest()}>"

    @property
    def is_paused(self) -> bool:
        """True while nothing may be handed out: user code said so, or the lock may be another's."""
        return self.is_halted or self.is_doubtful

    # the pull loop

    def take(self, messages: Sequence[Message], next_offset: int) -> None:
        """Messages have come; the next pull is from `next_offset`."""
        self.pulled_ms = self._clock.now_ms()
        pairs = [(message.record.queue_offset, message.record.size_bytes) for message in messages]
        self.inflight.add(pairs, next_offset)
        self.pulled_count += len(pairs)
        if messages:
            self._line.offer(self, messages)

    @property
    def may_pull(self) -> bool:
        """True while there is room and nobody has paused the queue."""
        flight, bounds = self.inflight, self._bounds
        return (
            not self.is_halted
            and len(flight) < bounds.count_max
            and flight.size_bytes < bounds.size_bytes_max
            and flight.span() <= bounds.span_max
        )

    async def changed(self) -> None:
        """Return when a message has ended, or something else about the claim is new."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def nudge(self) -> None:
        """Wake whoever waits for a change."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # the inbox

    def hand(self, messages: Sequence[Message]) -> None:
        """These go to user code now."""
        now = self._clock.monotonic()
        before = self._hooks.before
        for message in messages:
            self.handed[message.record.queue_offset] = (message, now, before(message))
        self.consumed_ms = self._clock.now_ms()

    # user code

    async def ack(self, message: Message) -> None:
        """The message is done."""
        handed = self._take_back(message)
        if handed is not None:
            self.acked_count += 1
            self.end(message.record.queue_offset)
            if handed[2]:
                self._hooks.after(message, handed[2], "ok")

    async def retry(self, message: Message, after: timedelta | None) -> None:
        """The message must come again."""
        await self.give_back(message, after, "retry")

    async def give_back(
        self, message: Message, after: timedelta | None, outcome: str, error: BaseException | None = None
    ) -> None:
        """Let the message come again; hooks are told why."""
        handed = self._take_back(message)
        if handed is not None:
            self.failed_count += 1
            self._hooks.after(message, handed[2], outcome, error)
            if not self.is_dropped:
                await self._line.again(self, message, after)

    async def dead_letter(self, message: Message) -> None:
        """The message must not come again."""
        handed = self._take_back(message)
        if handed is not None:
            self.failed_count += 1
            self._hooks.after(message, handed[2], "dead-letter")
            if not self.is_dropped:
                await self._line.bury(self, message)

    def end(self, queue_offset: int) -> None:
        """Count a message as done."""
        self.inflight.end(queue_offset)
        if not self.is_dropped:
            self._line.ended(self)
        if self._waiters:
            self.nudge()

    def _take_back(self, message: Message) -> Handed | None:
        """Return how the message was handed out; None when it is not in hand, so that it ends only once."""
        handed = self.handed.get(message.record.queue_offset)
        if handed is None or handed[0] is not message:
            return None
        del self.handed[message.record.queue_offset]
        if self.is_dropped:
            self.nudge()  # whoever lets the queue go waits for this
        return handed

    # the owner

    def drop(self) -> None:
        """The queue is ours no more: pull nothing, hand out nothing."""
        self.is_dropped = True
        if self.pulling is not None:
            self.pulling.cancel()
        self._line.drop(self)
        self.nudge()

    def overdue(self, since: float, count_max: int) -> list[Message]:
        """Return messages that have been in hand since before that time, oldest first."""
        late = [message for message, handed_at, _ in self.handed.values() if handed_at < since]
        return late[:count_max]
