"""Orderly delivery: of each queue one message at a time, the next one only after its end.

    waiting ▒▒▒▒▒ ─▶ one in hand ─▶ ack ─▶ the next
                        │ retry: the queue stands still for a while, then the same message again
                        │ dead letter, or one attempt too many: the message leaves, the queue goes on

Only the holder of a queue's lock at the broker may deliver: see `locks`. A line hands nothing out while
the lock is not valid; the lock's keeper wakes it again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from roquet.client.consumer.claim import Claim
from roquet.client.consumer.handing import LOCAL_RETRY_SECONDS, next_attempt
from roquet.client.consumer.inbox import Inbox
from roquet.client.consumer.send_back import Returns
from roquet.client.core.levels import DEAD_LETTER
from roquet.client.message import Message
from roquet.client.owned import Owned
from roquet.model.route import QueueName
from roquet.ports import Clock, Timer

SUSPEND_SECONDS: Final = 1.0
"""How long a queue stands still after a failure, unless told otherwise."""


class OneByOne:
    """The line of an orderly consumer; one for all of its queues."""

    def __init__(
        self, inbox: Inbox, returns: Returns, clock: Clock, tasks: Owned, attempts_max: int | None
    ) -> None:
        self._inbox = inbox
        self._returns = returns
        self._clock = clock
        self._tasks = tasks
        self._attempts_max = attempts_max
        self._waiting: dict[QueueName, deque[Message]] = {}
        self._busy: set[QueueName] = set()
        self._timers: dict[QueueName, Timer] = {}

    def offer(self, claim: Claim, messages: Sequence[Message]) -> None:
        self._waiting.setdefault(claim.queue, deque()).extend(messages)
        self._next(claim)

    def ended(self, claim: Claim) -> None:
        self._busy.discard(claim.queue)
        self._next(claim)

    async def again(self, claim: Claim, message: Message, after: timedelta | None) -> None:
        if self._attempts_max is not None and message.attempt >= self._attempts_max:
            await self.bury(claim, message)
            return
        wait_s = SUSPEND_SECONDS if after is None else max(after.total_seconds(), 0.0)
        self._stand_still(claim, next_attempt(message, claim), wait_s)

    async def bury(self, claim: Claim, message: Message) -> None:
        # In a task of its own: whoever asked may be cancelled, the queue must go on all the same.
        await asyncio.shield(self._tasks.spawn(self._bury(claim, message), "buries a message"))

    def drop(self, claim: Claim) -> None:
        """Forget the queue's messages; one in hand may still be at work."""
        self._waiting.pop(claim.queue, None)
        self._busy.discard(claim.queue)
        timer = self._timers.pop(claim.queue, None)
        if timer is not None:
            timer.cancel()

    async def _bury(self, claim: Claim, message: Message) -> None:
        if await self._returns.send(message, claim.queue.topic, DEAD_LETTER):
            claim.end(message.queue_offset)
        elif not claim.is_dropped:
            self._stand_still(claim, message, LOCAL_RETRY_SECONDS)

    def _stand_still(self, claim: Claim, message: Message, wait_s: float) -> None:
        when = self._clock.monotonic() + wait_s
        self._timers[claim.queue] = self._clock.call_at(when, self._go_on, claim, message)

    def _go_on(self, claim: Claim, message: Message) -> None:
        if not claim.is_dropped:
            self._timers.pop(claim.queue, None)
            self._inbox.put(claim, (message,))

    def _next(self, claim: Claim) -> None:
        waiting = self._waiting.get(claim.queue)
        if waiting and claim.queue not in self._busy:
            self._busy.add(claim.queue)
            self._inbox.put(claim, (waiting.popleft(),))
