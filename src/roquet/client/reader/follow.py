"""All queues of a topic at once, those to come among them: what `tail` does.

One task per queue reads ahead by a page and waits until that was taken; new queues are looked for every
half minute. Failures are waited out. The tasks belong to the reader, and end with `aclose`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from roquet.client.core.pages import BadPage
from roquet.client.errors import Closed, Misuse, RoquetError
from roquet.client.message import Message
from roquet.client.owned import Owned
from roquet.model.route import QueueName
from roquet.ports import Clock

log = logging.getLogger("roquet.client")

WAIT_SECONDS: Final = 15.0
"""How long a server keeps a read that finds nothing."""
FAILED_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 30.0
"""How often new queues are looked for."""
WAITING_MAX: Final = 1024
"""Messages that may wait to be taken before the readers stop."""

Read = Callable[[QueueName, int, float], Awaitable[tuple[Sequence[Message], int]]]


class Follow(AsyncIterator[Message]):
    """See the module; also an async context manager, for those who leave early."""

    def __init__(
        self,
        topic: str,
        queues: Callable[[str], Awaitable[Sequence[QueueName]]],
        begin: Callable[[QueueName], Awaitable[int]],
        read: Read,
        clock: Clock,
        owner: Owned,
    ) -> None:
        self._topic = topic
        self._queues = queues
        self._begin = begin
        self._read = read
        self._clock = clock
        self._owner = owner
        self._tasks: list[asyncio.Task[None]] = []
        self._known: set[QueueName] = set()
        self._waiting: deque[Message] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._is_started = False

    def __aiter__(self) -> Follow:
        return self

    async def __anext__(self) -> Message:
        await self.start()
        while not self._waiting:
            if not any(not task.done() for task in self._tasks):
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        message = self._waiting.popleft()
        if len(self._waiting) < WAITING_MAX:
            self._room.set()
        return message

    async def __aenter__(self) -> Follow:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Begin with all queues; raises NoRoute and what else keeps it from beginning."""
        if self._is_started:
            return
        self._is_started = True
        queues = await self._queues(self._topic)
        if not queues:
            raise Misuse(f"topic {self._topic} has no queue that may be read")
        positions = await asyncio.gather(*[self._begin(queue) for queue in queues])
        for queue, offset in zip(queues, positions, strict=True):
            self._spawn(queue, offset)
        self._tasks.append(self._owner.spawn(self._look(), f"looks for queues of {self._topic}"))

    async def aclose(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._changed.set()

    def _spawn(self, queue: QueueName, offset: int) -> None:
        self._known.add(queue)
        task = self._owner.spawn(self._follow(queue, offset), f"follows {queue.topic}/{queue.queue_id}")
        task.add_done_callback(lambda _: self._changed.set())
        self._tasks.append(task)

    async def _follow(self, queue: QueueName, offset: int) -> None:
        while True:
            while len(self._waiting) >= WAITING_MAX:
                self._room.clear()
                await self._room.wait()
            try:
                messages, offset = await self._read(queue, offset, WAIT_SECONDS)
            except Closed:
                return
            except (RoquetError, BadPage) as error:
                log.info("following %s fails and is tried again: %s", queue, error)
                await self._pause(FAILED_SECONDS)
                continue
            self._waiting.extend(messages)
            if messages:
                self._changed.set()

    async def _look(self) -> None:
        while True:
            await self._pause(LOOK_SECONDS)
            try:
                queues = await self._queues(self._topic)
            except Closed:
                return
            except RoquetError as error:
                log.info("the queues of %s stay as they are: %s", self._topic, error)
                continue
            for queue in queues:
                if queue not in self._known:
                    self._spawn(queue, 0)

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.monotonic() + seconds)
