"""All configuration keys that a program knows, acted on or not, looked up by their Java name.

Joins the table of `keys` with the lists of `apache_keys`, once for the broker and once for the name
server. Loading and changing of settings both ask here what a key is.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from roquet.runtime.apache_keys import (
    ACCEPTED_WITHOUT_EFFECT,
    BROKER_REFUSED,
    NAMES_ACCEPTED_WITHOUT_EFFECT,
    NAMES_REFUSED,
    Passive,
    Refused,
)
from roquet.runtime.keys import BROKER_ROWS, NAMES_ROWS, STORE_ROWS, Key


class Vocabulary(NamedTuple):
    """All keys that one program knows."""

    rows: dict[str, Key]
    passive: dict[str, Passive]
    refused: dict[str, Refused]

    def names(self) -> list[str]:
        """Return every key, sorted."""
        return sorted([*self.rows, *self.passive, *self.refused])

    def nearest(self, key: str) -> str:
        """Return words that point to a similar key, or none."""
        close = get_close_matches(key, self.names(), 1)
        return f"; did you mean {close[0]}?" if close else ""


BROKER = Vocabulary(
    {row.java: row for row in (*BROKER_ROWS, *STORE_ROWS)}, ACCEPTED_WITHOUT_EFFECT, BROKER_REFUSED
)
NAMES = Vocabulary({row.java: row for row in NAMES_ROWS}, NAMES_ACCEPTED_WITHOUT_EFFECT, NAMES_REFUSED)
