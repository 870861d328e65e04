"""Records one behind the other, turned into columns: for readers of many messages at once; pure.

Pull answers and log files hold the same bytes. One walk over them copies the fields that were asked
for into one buffer a column, laid out as Arrow wants them, without an object for each message:

    bytes   [rec][rec][rec] …  ─▶  sieve: topic, queue, offset, store time  ─▶  queue_offset  [0 1 2 …]
                                                                                body  [0 3 9 …] "abcdefghi…"
                                                                                tag   [0 1 1 …] "A…"

A record that does not add up stops the walk with Stop.BROKEN and what is wrong with it; a body that is
compressed goes through `inflate`. Texts that are not UTF-8 are mended with the replacement character.
A compiled twin is taken when it is there and ROQUET_PURE is not 1.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from roquet.store.format._columns_values import (
    BYTES_MAX,
    EVERY,
    KINDS,
    OFFSET_MAX,
    Buffer,
    Columns,
    Kind,
    Sieve,
)

__all__ = [
    "BYTES_MAX",
    "COMPILED",
    "EVERY",
    "KINDS",
    "OFFSET_MAX",
    "Buffer",
    "Columns",
    "Kind",
    "Sieve",
    "read_columns",
]

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.store.format._columns_py import read_columns

    COMPILED: Final = False
else:
    try:
        from roquet.store.format._columns_c import read_columns

        COMPILED = True
    except ImportError:
        from roquet.store.format._columns_py import read_columns

        COMPILED = False
