"""Requests to a broker that clients are known to send and that are not answered yet, each with the reason.

The router answers them with code 3 and their name; a test keeps this list and the handlers complete.
"""

from __future__ import annotations

from typing import Final

from roquet.wire.requests.client import QueryAssignment
from roquet.wire.requests.names import NotifyMinBrokerId
from roquet.wire.row import Header

UNSUPPORTED: Final[dict[type[Header], str]] = {
    QueryAssignment: "shares of queues are worked out by the clients; Java's falls back to that by itself",
    NotifyMinBrokerId: "there are no slaves yet, so the smallest broker id is always ours",
}
