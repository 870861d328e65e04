"""Locks of queues, by which orderly consumers keep each other out; the bodies say which."""

from __future__ import annotations

from roquet.wire.row import Header, request


@request(41, "LOCK_BATCH_MQ", to="broker", touches=("group", "sub"))
class LockQueues(Header):
    """Lock queues for a client, or renew its locks; the answer lists those it holds."""


@request(42, "UNLOCK_BATCH_MQ", to="broker", touches=("group", "sub"))
class UnlockQueues(Header):
    """Give locks back."""
