"""Messages that wait for user code: pull loops put runs of them in, loops and handlers take them out.

    claim ─▶ put(claim, messages) ─▶ ▒▒▒▒▒▒ ─▶ get() · get_many()

Runs leave in the order in which they came. What belongs to a queue that is no longer ours is passed over,
what belongs to a paused one is kept aside until it goes on. After `close` nothing is handed out and every
waiter gets InboxClosed. A waiter that is cancelled loses no message: it takes one only when it returns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from roquet.client.message import Message
from roquet.ports import Clock


class InboxClosed(Exception):
    """No more messages are handed out."""


class Source(Protocol):
    """Where messages come from: told of each that goes out."""

    is_dropped: bool

    @property
    def is_paused(self) -> bool: ...

    def hand(self, messages: Sequence[Message]) -> None:
        """These are in the hands of user code from now on."""

    async def ack(self, message: Message) -> None:
        """One of them is done."""

    async def give_back(
        self, message: Message, after: timedelta | None, outcome: str, error: BaseException | None = None
    ) -> None:
        """One of them must come again."""


class Inbox:
    """The messages of all queues of one consumer that nobody has taken yet."""

    def __init__(self, clock: Clock) -> None:
        self.is_closed = False
        self._clock = clock
        self._runs: deque[tuple[Source, deque[Message]]] = deque()
        self._aside: list[tuple[Source, deque[Message]]] = []
        self._waiters: deque[asyncio.Future[None]] = deque()

    def put(self, source: Source, messages: Sequence[Message]) -> None:
        """Let messages of one queue wait; they stay in their order."""
        self._runs.append((source, deque(messages)))
        self._wake(len(messages))

    def resumed(self) -> None:
        """Bring back what was kept aside of queues that go on now."""
        aside, self._aside = self._aside, []
        for source, messages in reversed(aside):
            self._runs.appendleft((source, messages))
            self._wake(len(messages))

    async def get(self) -> tuple[Source, Message]:
        """Return the next message and where it is from, waiting for it; raises InboxClosed."""
        while True:
            run = self._front()
            if run is not None:
                source, messages = run
                message = messages.popleft()
                source.hand((message,))
                return source, message
            await self._until_one()

    async def get_many(self, count_max: int, linger_s: float = 0.0) -> list[Message]:
        """Return up to so many messages, at least one, waiting for the first as long as it takes.

        With `linger_s` it waits so long after the first for more, and no longer than it takes to fill up.
        """
        while True:
            taken = [] if linger_s else self._take(count_max)
            if taken:
                return taken
            await self._until_one()
            if linger_s:
                await self._until_many(count_max, self._clock.monotonic() + linger_s)
                if taken := self._take(count_max):
                    return taken

    def close(self) -> None:
        """Hand nothing out any more."""
        self.is_closed = True
        self._runs.clear()
        self._aside.clear()
        self._wake(len(self._waiters))

    # inside

    def _take(self, count_max: int) -> list[Message]:
        taken: list[Message] = []
        while len(taken) < count_max and (run := self._front()) is not None:
            source, messages = run
            room = count_max - len(taken)
            if len(messages) <= room:
                part = list(messages)
                messages.clear()
            else:
                part = [messages.popleft() for _ in range(room)]
            source.hand(part)
            taken += part
        return taken

    def _front(self) -> tuple[Source, deque[Message]] | None:
        """Return the first run from which something may be taken; None when there is none."""
        if self.is_closed:
            raise InboxClosed
        runs = self._runs
        while runs:
            source, messages = runs[0]
            if messages and not source.is_dropped and not source.is_paused:
                return runs[0]
            runs.popleft()
            if messages and not source.is_dropped:
                self._aside.append((source, messages))
        return None

    async def _until_one(self) -> None:
        while self._front() is None:
            await self._wait(None)

    async def _until_many(self, count: int, deadline: float) -> None:
        while not self.is_closed and self._clock.monotonic() < deadline:
            if sum(len(messages) for _, messages in self._runs) >= count:
                return
            await self._wait(deadline)

    async def _wait(self, deadline: float | None) -> None:
        """Return when there may be something to take, or at the deadline."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        timer = None if deadline is None else self._clock.call_at(deadline, _ring, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake(1)  # it was meant for whoever waits next
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self, count: int) -> None:
        while count and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1


def _ring(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
