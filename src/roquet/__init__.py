"""Roquet: a message queue compatible with Apache RocketMQ, and the client for it.

    async with roquet.Producer("127.0.0.1:9876", group="shop") as producer:
        await producer.send("orders", b"...", tag="created", keys=["42"])

The names below are the public ones; everything else may move. They are imported when first used, so that
`import roquet` costs nothing and brings no broker with it. `roquet.sync` is the client for synchronous code,
`roquet.testing` a broker for tests, `roquet.assign` the ways in which groups share queues.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roquet import sync, testing
    from roquet.client.admin import Admin
    from roquet.client.cluster.cluster import Cluster
    from roquet.client.consumer.consumer import Consumer, Sql
    from roquet.client.core import assign
    from roquet.client.core.accumulate import Batching
    from roquet.client.errors import (
        BadExpression,
        BadMessage,
        Busy,
        Closed,
        Forked,
        Misuse,
        NamesUnreachable,
        NoRoute,
        NotAllowed,
        NotFound,
        Refused,
        ReplyLost,
        RoquetError,
        SendFailed,
        TimedOut,
        TransactionUnsettled,
        Unreachable,
    )
    from roquet.client.hooks import Hook
    from roquet.client.message import Message, Outgoing, Receipt
    from roquet.client.producer.producer import Producer
    from roquet.client.reader.reader import Page, RawPage, Reader
    from roquet.model.route import QueueName

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "BadExpression",
    "BadMessage",
    "Batching",
    "Busy",
    "Closed",
    "Cluster",
    "Consumer",
    "Forked",
    "Hook",
    "Message",
    "Misuse",
    "NamesUnreachable",
    "NoRoute",
    "NotAllowed",
    "NotFound",
    "Outgoing",
    "Page",
    "Producer",
    "QueueName",
    "RawPage",
    "Reader",
    "Receipt",
    "Refused",
    "ReplyLost",
    "RoquetError",
    "SendFailed",
    "Sql",
    "TimedOut",
    "TransactionUnsettled",
    "Unreachable",
    "assign",
    "sync",
    "testing",
]

_HOMES: Final = {
    "Admin": "client.admin",
    "Batching": "client.core.accumulate",
    "Cluster": "client.cluster.cluster",
    "Consumer": "client.consumer.consumer",
    "Hook": "client.hooks",
    "Message": "client.message",
    "Outgoing": "client.message",
    "Page": "client.reader.reader",
    "Producer": "client.producer.producer",
    "QueueName": "model.route",
    "RawPage": "client.reader.reader",
    "Reader": "client.reader.reader",
    "Receipt": "client.message",
    "Sql": "client.consumer.consumer",
}
"""Where the public names live; those that are not listed are errors."""

_MODULES: Final = {"assign": "client.core.assign", "sync": "sync", "testing": "testing"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'roquet' has no attribute {name!r}")
    if name in _MODULES:
        return importlib.import_module(f"roquet.{_MODULES[name]}")
    found = getattr(importlib.import_module(f"roquet.{_HOMES.get(name, 'client.errors')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
