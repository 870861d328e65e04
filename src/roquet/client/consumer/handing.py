"""Concurrent delivery: every message goes out as soon as somebody wants one, in no promised order.

retry         back to the broker at a delay level; it comes again through the group's retry topic
dead letter   the same at level −1
no broker     it stays in flight here and is offered once more after five seconds
broadcasting  nobody takes messages back: one that is given back is gone, and the log says so
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from roquet.client.consumer.claim import Claim
from roquet.client.consumer.inbox import Inbox
from roquet.client.consumer.send_back import Returns
from roquet.client.core.levels import AFTER_TIMEOUT, DEAD_LETTER, WAITS_S, level_for
from roquet.client.message import Message
from roquet.client.owned import Owned
from roquet.ports import Clock

log = logging.getLogger("roquet.client")

LOCAL_RETRY_SECONDS: Final = 5.0
OVERDUE_MAX: Final = 16
"""Messages of one queue that a single sweep gives back."""


class AllAtOnce:
    """The line of a concurrent consumer."""

    def __init__(self, inbox: Inbox, returns: Returns, clock: Clock, tasks: Owned) -> None:
        self._inbox = inbox
        self._returns = returns
        self._clock = clock
        self._tasks = tasks

    def offer(self, claim: Claim, messages: Sequence[Message]) -> None:
        self._inbox.put(claim, messages)

    def ended(self, claim: Claim) -> None:
        """Nothing waits for a message's end here."""

    async def again(self, claim: Claim, message: Message, after: timedelta | None) -> None:
        await self._return(claim, message, level_for(after))

    async def bury(self, claim: Claim, message: Message) -> None:
        await self._return(claim, message, DEAD_LETTER)

    def drop(self, claim: Claim) -> None:
        """What waits in the inbox is passed over there."""

    async def _return(self, claim: Claim, message: Message, level: int) -> None:
        # In a task of its own: whoever asked may be cancelled, the message must not be forgotten by that.
        await asyncio.shield(self._tasks.spawn(self._give(claim, message, level), "gives a message back"))

    async def _give(self, claim: Claim, message: Message, level: int) -> None:
        if await self._returns.send(message, claim.queue.topic, level):
            claim.end(message.queue_offset)
            return
        when = self._clock.monotonic() + LOCAL_RETRY_SECONDS
        self._clock.call_at(when, self._offer_again, claim, next_attempt(message, claim))

    def _offer_again(self, claim: Claim, message: Message) -> None:
        if not claim.is_dropped:
            self._inbox.put(claim, (message,))


class Unreturned:
    """The line of a broadcasting consumer."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def offer(self, claim: Claim, messages: Sequence[Message]) -> None:
        self._inbox.put(claim, messages)

    def ended(self, claim: Claim) -> None:
        """Nothing waits for a message's end here."""

    async def again(self, claim: Claim, message: Message, after: timedelta | None) -> None:
        log.warning("%r was given back, but a broadcasting consumer has no retries: it is dropped", message)
        claim.end(message.queue_offset)

    async def bury(self, claim: Claim, message: Message) -> None:
        await self.again(claim, message, None)

    def drop(self, claim: Claim) -> None:
        """What waits in the inbox is passed over there."""


def next_attempt(message: Message, claim: Claim) -> Message:
    """Return the message as it comes again without having left."""
    record = message.record
    return Message(record._replace(reconsume_times=record.reconsume_times + 1), message.broker, claim)


async def give_back_overdue(claims: Sequence[Claim], since: float) -> None:
    """Give back what user code has had for too long, so that it does not hold up the rest."""
    after = timedelta(seconds=WAITS_S[AFTER_TIMEOUT - 1])
    for claim in claims:
        for message in claim.overdue(since, OVERDUE_MAX):
            log.warning("%r has been consumed for too long: it is given back and comes again", message)
            await claim.give_back(message, after, "timeout")
