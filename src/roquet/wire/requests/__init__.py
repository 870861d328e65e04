"""THE TABLE: every request that Roquet knows, one small class each, by domain.

Importing this package fills `row.TABLE`. A request that no program answers yet still has its row here
when clients are known to send it: the router then says "not supported" with its name.
"""

from roquet.wire.requests import (
    client,
    groups,
    names,
    offsets,
    order,
    pull,
    query,
    replica,
    reply,
    retry,
    send,
    settings,
    timer,
    topics,
    transaction,
)

__all__ = [
    "client",
    "groups",
    "names",
    "offsets",
    "order",
    "pull",
    "query",
    "replica",
    "reply",
    "retry",
    "send",
    "settings",
    "timer",
    "topics",
    "transaction",
]
