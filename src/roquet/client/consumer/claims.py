"""The queues that are ours, and how one comes and goes.

    start ─▶ pulled ─▶ drop ─▶ (orderly: the one in hand ends) ─▶ position stored ─▶ lock given back
                │
                └ move: the same queue from another position

Decides nothing: `rebalance` says what to take and what to let go. A queue that is still leaving cannot be
taken again before it has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from roquet.client.consumer.claim import Claim
from roquet.client.consumer.locks import Locks
from roquet.client.consumer.offsets_kept import Kept
from roquet.client.owned import Owned
from roquet.model.route import QueueName
from roquet.ports import Clock

LEAVE_SECONDS: Final = 0.5
"""How long letting a queue go waits for the message in hand; after that it goes on by itself."""


class Claims:
    """The table of one consumer's queues."""

    def __init__(
        self,
        make: Callable[[QueueName, int], Claim],
        pull: Callable[[Claim], Coroutine[Any, Any, None]],
        kept: Kept,
        locks: Locks,
        tasks: Owned,
        clock: Clock,
        waits_for_hands: bool,
    ) -> None:
        self.table: dict[QueueName, Claim] = {}
        self.leaving: set[QueueName] = set()
        self._make = make
        self._pull = pull
        self._kept = kept
        self._locks = locks
        self._tasks = tasks
        self._clock = clock
        self._waits_for_hands = waits_for_hands
        self._parting: dict[QueueName, Claim] = {}  # dropped, and not yet stored

    def start(self, queue: QueueName, next_offset: int) -> Claim:
        """Begin to read a queue."""
        assert queue not in self.table, f"{queue} is ours already"
        claim = self.table[queue] = self._make(queue, next_offset)
        claim.pulling = self._tasks.spawn(self._pull(claim), f"pulls {queue.topic}/{queue.queue_id}")
        return claim

    async def drop(self, queues: Collection[QueueName]) -> None:
        """Let queues go: store where we are, and leave them to others."""
        claims = [claim for queue in queues if (claim := self._stop(queue)) is not None]
        self._parting |= {claim.queue: claim for claim in claims}
        if self._waits_for_hands:
            await asyncio.gather(*[self._leave_soon(claim) for claim in claims])
        elif claims:
            # In a task of its own: whoever asked may be cancelled, the queues must leave all the same.
            await asyncio.shield(self._tasks.spawn(self._let_go(claims), "lets queues go"))

    async def close(self) -> None:
        """Let all queues go at once: user code has nothing in hand any more, or has been given up on."""
        for queue in list(self.table):
            claim = self._stop(queue)
            if claim is not None:
                self._parting[queue] = claim
        await self._let_go(list(self._parting.values()))

    async def lose(self, queue: QueueName) -> None:
        """A queue is not ours any more, and perhaps somebody else's already: store nothing."""
        claim = self._stop(queue)
        if claim is not None:
            try:
                await self._hands_free(claim)
            finally:
                self.leaving.discard(queue)

    async def move(self, claim: Claim, next_offset: int) -> None:
        """Go on with a queue from another position, in order: after the message in hand has ended."""
        if self.table.get(claim.queue) is claim:
            self._stop(claim.queue)
            # In a task of its own: the claim's pull loop may be who asks, and has just been ended.
            await asyncio.shield(self._tasks.spawn(self._begin_again(claim, next_offset), "moves a queue"))

    async def jump(self, claim: Claim, next_offset: int) -> None:
        """Go on with a queue from another position at once: user code has the messages, and wants it so."""
        claim.handed.clear()
        await self.move(claim, next_offset)

    async def _begin_again(self, claim: Claim, next_offset: int) -> None:
        queue = claim.queue
        if self._waits_for_hands:
            await self._hands_free(claim)
        await self._kept.store_now({queue: next_offset})
        self.leaving.discard(queue)
        self.start(queue, next_offset).is_halted = claim.is_halted

    async def store(self) -> None:
        """Store all positions."""
        await self._kept.store({queue: claim.inflight.lowest() for queue, claim in self.table.items()})

    def _stop(self, queue: QueueName) -> Claim | None:
        claim = self.table.pop(queue, None)
        if claim is not None:
            self.leaving.add(queue)
            claim.drop()
        return claim

    async def _leave_soon(self, claim: Claim) -> None:
        """Let a queue go when its message in hand ends; return then, or a little later without waiting."""
        leaving = self._tasks.spawn(self._leave(claim), f"leaves {claim.queue.topic}")
        timer = self._tasks.spawn(self._sleep(LEAVE_SECONDS), "waits")
        try:
            await asyncio.wait((leaving, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def _leave(self, claim: Claim) -> None:
        await self._hands_free(claim)
        await self._let_go((claim,))

    async def _let_go(self, claims: Collection[Claim]) -> None:
        await self._kept.store_now({claim.queue: claim.inflight.lowest() for claim in claims})
        await self._locks.release([claim.queue for claim in claims])
        for claim in claims:
            self.leaving.discard(claim.queue)
            self._parting.pop(claim.queue, None)

    async def _hands_free(self, claim: Claim) -> None:
        while claim.handed:
            await claim.changed()

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.monotonic() + seconds)
