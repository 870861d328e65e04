"""Records one behind the other, as answers to pulls carry them: cut into values; pure.

    | record | record | record |          any log offsets, no blanks; each as drawn in `format.record`

Clients read every message through here. What is no whole record raises ValueError and says where; checksums
are not looked at. A compiled twin is taken when it is there and ROQUET_PURE is not 1.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

__all__ = ["COMPILED", "read_page"]

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.store.format._page_py import read_page

    COMPILED: Final = False
else:
    try:
        from roquet.store.format._page_c import read_page

        COMPILED = True
    except ImportError:
        from roquet.store.format._page_py import read_page

        COMPILED = False
