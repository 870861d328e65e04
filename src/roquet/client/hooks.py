"""Hooks around sending and consuming: tracing and metrics plug in here, and so can users.

A hook is any object with the methods it needs (subclass and override): each runs on the event loop and
must be quick. An exception in a hook is logged and never touches the message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from roquet.client.message import Message, Outgoing, Receipt

log = logging.getLogger("roquet.client.hooks")


class Sending(NamedTuple):
    """One send as hooks see it: the messages of the request, and the properties they may add to each."""

    group: str
    broker: str
    address: str
    messages: Sequence[Outgoing]
    properties: Sequence[dict[str, str]]
    kind: str
    """normal, delay, order, transaction, one-way, batch or request"""


class Consuming(NamedTuple):
    """Messages that are being handed to user code."""

    group: str
    messages: Sequence[Message]


class Hook:
    """Does nothing; override what you need. What `before_…` returns is given back to `after_…`."""

    def before_send(self, sending: Sending) -> object:
        return None

    def after_send(
        self, sending: Sending, token: object, receipts: Sequence[Receipt], error: BaseException | None
    ) -> None:
        return None

    def before_consume(self, consuming: Consuming) -> object:
        return None

    def after_consume(
        self, consuming: Consuming, token: object, outcome: str, error: BaseException | None
    ) -> None:
        """`outcome` is ok, retry, dead-letter, timeout or error."""

    def after_end_transaction(
        self, group: str, message: Outgoing, receipt: Receipt, outcome: str, is_check: bool
    ) -> None:
        """`outcome` is commit, rollback or unknown."""

    def after_recall(self, group: str, topic: str, message_id: str, error: BaseException | None) -> None:
        """A delayed message was taken back, or could not be (then the id is empty)."""

    async def close(self) -> None:
        """Send out what is still kept; called while the connections are still open."""


def told(method: Callable[..., object], *arguments: object) -> object:
    """Call a method of a hook and return what it gives back; None when it fails, which is logged."""
    try:
        return method(*arguments)
    except Exception:
        log.exception("the hook %r failed; the message goes on without it", method)
        return None
