"""Showing a name server's settings (319), and changing those that may change while it runs (318).

Place in the flow: `names.handlers` asks; the keys, their kinds and the allow-list are the rows of
`runtime.keys`. A change lasts until the next start: nothing that comes over the wire chooses a path or is
written to a settings file. Reference: NamesrvConfig of Apache 5.5.0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

from roquet.runtime.keys import NAMES_ROWS
from roquet.runtime.settings import NamesSettings

_ROWS: Final = {row.java: row for row in NAMES_ROWS}


class SettingRefused(Exception):
    """A setting may not be changed while running, or not to this value."""


def shown(settings: NamesSettings) -> list[tuple[str, str]]:
    """Return all settings as pairs of texts, sorted by key."""
    return sorted((row.java, row.kind.write(getattr(settings, row.field))) for row in NAMES_ROWS)


def changed(settings: NamesSettings, pairs: Iterable[tuple[str, str]]) -> NamesSettings:
    """Return the settings with these changes, all of them or none; raises SettingRefused."""
    values: dict[str, Any] = {}
    for key, text in pairs:
        row = _ROWS.get(key)
        if row is None or not row.hot:
            allowed = ", ".join(sorted(row.java for row in NAMES_ROWS if row.hot))
            raise SettingRefused(f"{key[:80]!r} cannot change while running; these can: {allowed}")
        try:
            values[row.field] = row.kind.read(text.strip())
        except ValueError:
            raise SettingRefused(f"{key} is {text[:80]!r}; allowed: {row.kind.allowed}") from None
    return dataclasses.replace(settings, **values)
