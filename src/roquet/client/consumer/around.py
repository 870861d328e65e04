"""Hooks around consuming, called so that an error in one of them never touches a message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from roquet.client.hooks import Consuming, Hook, told
from roquet.client.message import Message

log = logging.getLogger("roquet.client")


class ConsumeHooks:
    """The hooks of one consumer."""

    def __init__(self, group: str, hooks: Sequence[Hook]) -> None:
        self._group = group
        self._hooks = tuple(hooks)

    def before(self, message: Message) -> Sequence[object]:
        """A message goes to user code; returns what `after` needs."""
        if not self._hooks:
            return ()
        consuming = Consuming(self._group, (message,))
        return [told(hook.before_consume, consuming) for hook in self._hooks]

    def after(
        self, message: Message, tokens: Sequence[object], outcome: str, error: BaseException | None = None
    ) -> None:
        """User code is done with a message."""
        if not tokens:
            return
        consuming = Consuming(self._group, (message,))
        for hook, token in zip(self._hooks, tokens, strict=True):
            told(hook.after_consume, consuming, token, outcome, error)

    async def close(self) -> None:
        """Let the hooks send what they keep."""
        failures = await asyncio.gather(*[hook.close() for hook in self._hooks], return_exceptions=True)
        for hook, failure in zip(self._hooks, failures, strict=True):
            if isinstance(failure, Exception):
                log.error("%r failed to close", hook, exc_info=failure)
