"""How a feature says which file under config/ is its own; `feature_tables` loads and saves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class TableHook(NamedTuple):
    """A file under config/ that a feature owns: loaded before the store opens, saved when `is_changed`."""

    file_name: str
    load: Callable[[object], None]
    dump: Callable[[], dict[str, Any]]
    is_changed: Callable[[], bool]
    saved: Callable[[], None]
    """Called once what `dump` returned is on disk."""
    period_s: float
