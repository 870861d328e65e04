"""Changes to a property text as it is stored, without taking it apart: `name 0x01 value 0x02 …` in UTF-8.

What the broker puts aside or takes back gets a few pairs more or less; the others keep their bytes.
`ROQUET_PURE=1` picks the readable twin `_properties_py` over the compiled `_properties_c`; one suite runs on
both (tests/model/test_properties.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.model._properties_py import edit_properties

    COMPILED: Final = False
else:
    try:
        from roquet.model._properties_c import edit_properties

        COMPILED = True
    except ImportError:
        from roquet.model._properties_py import edit_properties

        COMPILED = False

__all__ = ["COMPILED", "edit_properties"]
