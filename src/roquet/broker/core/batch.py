"""Batches: the body of a batch send becomes drafts, many at a time.

    body ─▶ drafts ─┬─ ordinary ───────────────────┬─▶ one append, all or none
                    └─ marked ─▶ features ─────────┘

The messages of a batch share all but flag, body and properties. Those with a property that a feature acts on
are named, with their properties parsed, so that nothing is asked about the others. `ROQUET_PURE=1` picks the
readable twin `_batch_py` over the compiled `_batch_c`; one suite runs on both
(tests/broker/core/test_batch.py).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.broker.core._batch_py import drafts

    COMPILED: Final = False
else:
    try:
        from roquet.broker.core._batch_c import drafts

        COMPILED = True
    except ImportError:
        from roquet.broker.core._batch_py import drafts

        COMPILED = False

__all__ = ["COMPILED", "drafts", "message_ids"]


def message_ids(prefix: str, log_offsets: Sequence[int]) -> str:
    """Return the ids of stored messages (at least one) as the answer to a batch has them, with commas."""
    packed = struct.pack(f">{len(log_offsets)}q", *log_offsets)
    return prefix + packed.hex(",", 8).upper().replace(",", f",{prefix}")
