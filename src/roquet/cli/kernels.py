"""Which compiled kernels are loaded, for `roquet version`."""

from __future__ import annotations

import importlib
from typing import Final

CHOICES: Final = {
    "batch": "roquet.broker.core.batch",
    "columns": "roquet.store.format.columns",
    "entries": "roquet.store.format.entries",
    "frame": "roquet.wire.frame",
    "lane": "roquet.broker.core.lane",
    "page": "roquet.store.format.page",
    "parked": "roquet.broker.features.timer.parked",
    "properties": "roquet.model.properties",
    "record": "roquet.store.format.record",
    "redraft": "roquet.broker.core.redraft",
    "run": "roquet.store.format.run",
}
"""The modules that choose between a kernel and its twin in Python."""


def kernels() -> dict[str, bool]:
    """Return each kernel's name and whether its compiled form is in use."""
    return {
        name: bool(getattr(importlib.import_module(module), "COMPILED", False))
        for name, module in CHOICES.items()
    }
