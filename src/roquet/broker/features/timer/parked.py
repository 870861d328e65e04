"""Records of the timer's queue as filing reads them, many at a time: where they lie, when and where they go.

`ROQUET_PURE=1` picks the readable twin `_parked_py` over the compiled `_parked_c`; one suite runs on both
(tests/broker/features/test_timer_parked.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from roquet.broker.features.timer._parked_values import Parked

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.broker.features.timer._parked_py import read_parked

    COMPILED: Final = False
else:
    try:
        from roquet.broker.features.timer._parked_c import read_parked

        COMPILED = True
    except ImportError:
        from roquet.broker.features.timer._parked_py import read_parked

        COMPILED = False

__all__ = ["COMPILED", "Parked", "read_parked"]
