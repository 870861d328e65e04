"""A stored record as a draft again, for what goes back into the log: retries, deliveries, commits.

`ROQUET_PURE=1` picks the readable twin `_redraft_py` over the compiled `_redraft_c`; one suite runs on both
(tests/broker/core/test_redraft.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from roquet.broker.core._redraft_py import draft_of
from roquet.broker.core._redraft_values import Stored, keys_of, tag_code_of

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.broker.core._redraft_py import reopen

    COMPILED: Final = False
else:
    try:
        from roquet.broker.core._redraft_c import reopen

        COMPILED = True
    except ImportError:
        from roquet.broker.core._redraft_py import reopen

        COMPILED = False

__all__ = ["COMPILED", "Stored", "draft_of", "keys_of", "reopen", "tag_code_of"]
