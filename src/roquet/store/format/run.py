"""Runs of drafts: what is appended together is laid out in one pass; pure.

    drafts ─▶ share_out    those of each queue, with the largest sizes among them: what an append checks
    drafts ─▶ lay_out      records one behind the other, and the entry of each

A run may be one message, a batch, or what several clients sent at once. `record` has the layout of a record.
A compiled twin is taken when it is there and ROQUET_PURE is not 1; one suite runs on both
(tests/store/format/test_run.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from roquet.store.format._run_values import Share, Shared

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.store.format._run_py import lay_out, share_out

    COMPILED: Final = False
else:
    try:
        from roquet.store.format._run_c import lay_out, share_out

        COMPILED = True
    except ImportError:
        from roquet.store.format._run_py import lay_out, share_out

        COMPILED = False

__all__ = ["COMPILED", "Share", "Shared", "lay_out", "share_out"]
