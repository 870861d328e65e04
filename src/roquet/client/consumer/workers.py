"""Handlers at work: so many of them take messages at once, and what they return or raise decides.

returns   the message is done (unless the handler has ended it itself)
raises    it comes again, a little later each time
drain     no new message is taken; handlers get a while to finish, then they are cancelled
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from roquet.client.consumer.inbox import Inbox, InboxClosed
from roquet.client.message import Message
from roquet.client.owned import Owned
from roquet.ports import Clock

log = logging.getLogger("roquet.client")

Handler = Callable[[Message], Awaitable[Any] | None]


class Workers:
    """The handlers of one consumer."""

    def __init__(self, inbox: Inbox, handler: Handler, clock: Clock, name: str) -> None:
        self._inbox = inbox
        self._handler = handler
        self._clock = clock
        self._tasks = Owned(name)

    def start(self, count: int) -> None:
        """Let so many handlers work beside each other."""
        for number in range(count):
            self._tasks.spawn(self._work(), f"handler {number}")

    async def drain(self, limit_s: float) -> None:
        """Wait for the handlers once the inbox is closed; cancel what takes longer than so many seconds."""
        timer = self._clock.call_at(self._clock.monotonic() + limit_s, self._cut_off)
        try:
            await self._tasks.ended()
        finally:
            timer.cancel()
            await self._tasks.close()

    def _cut_off(self) -> None:
        log.warning("%d handlers have not finished in time; their messages come again", len(self._tasks))
        self._tasks.cancel()

    async def _work(self) -> None:
        while True:
            try:
                source, message = await self._inbox.get()
            except InboxClosed:
                return
            try:
                result = self._handler(message)
                if inspect.isawaitable(result):
                    await result
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                await source.give_back(message, None, "error", error)
            except Exception as error:
                log.warning("the handler failed on %r, which comes again", message, exc_info=error)
                await source.give_back(message, None, "error", error)
            else:
                await source.ack(message)
