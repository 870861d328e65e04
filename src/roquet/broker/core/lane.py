"""The lane for sends: runs of regular messages become drafts, and their answers one piece of bytes.

    frames ─▶ drafts ─┬─ ordinary ───────────────────────────┬─▶ one append ─▶ replies
                      └─ marked ─▶ features rewrite (park) ──┘

Clients that share a connection send many small messages at once, and nearly all of them are regular: one
message, a topic that exists, a queue that it has, properties without surprises. For these the lane does in
one pass over the frames what `handlers.send` does step by step for any message: the same draft, the same
answer. Those with a property that a feature acts on are named, so that the features can be asked. Whatever
is not regular ends the run and goes the long way. `ROQUET_PURE=1` picks the readable twin `_lane_py` over the
compiled `_lane_c`; one suite runs on both (tests/broker/core/test_lane.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from roquet.broker.core._lane_values import Run, Terms

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.broker.core._lane_py import drafts, replies

    COMPILED: Final = False
else:
    try:
        from roquet.broker.core._lane_c import drafts, replies

        COMPILED = True
    except ImportError:
        from roquet.broker.core._lane_py import drafts, replies

        COMPILED = False

__all__ = ["COMPILED", "Run", "Terms", "drafts", "replies"]
