"""Messages by `async for`: one at a time, or in lists.

Iterators and not generators: leaving a loop early leaves nothing behind that would have to be closed.
With `auto_ack`, what was handed out is done when the next is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from roquet.client.consumer.inbox import Inbox, InboxClosed
from roquet.client.message import Message


class Batches(AsyncIterator[list[Message]]):
    """Lists of messages, none of them empty."""

    def __init__(self, inbox: Inbox, count_max: int, linger_s: float, auto_ack: bool) -> None:
        self._inbox = inbox
        self._count_max = count_max
        self._linger_s = linger_s
        self._auto_ack = auto_ack
        self._last: Sequence[Message] = ()

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> list[Message]:
        for message in self._last:
            await message.ack()
        self._last = ()
        try:
            messages = await self._inbox.get_many(self._count_max, self._linger_s)
        except InboxClosed:
            raise StopAsyncIteration from None
        if self._auto_ack:
            self._last = messages
        return messages


class Messages(AsyncIterator[Message]):
    """Messages one by one."""

    def __init__(self, inbox: Inbox, auto_ack: bool) -> None:
        self._inbox = inbox
        self._auto_ack = auto_ack
        self._last: Message | None = None

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Message:
        if self._last is not None:
            await self._last.ack()
            self._last = None
        try:
            _, message = await self._inbox.get()
        except InboxClosed:
            raise StopAsyncIteration from None
        if self._auto_ack:
            self._last = message
        return message
