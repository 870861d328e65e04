"""Which compiled kernels are loaded, for `roquet version`."""

from __future__ import annotations

import importlib

_CHOICES = {
    "entries": "roquet.store.format.entries",
    "frame": "roquet.wire.frame",
    "lane": "roquet.broker.core.lane",
    "page": "roquet.store.format.page",
    "record": "roquet.store.format.record",
}


def kernels() -> dict[str, bool]:
    """Return each kernel's name and whether its compiled form is in use."""
    return {
        name: bool(getattr(importlib.import_module(module), "COMPILED", False))
        for name, module in _CHOICES.items()
    }
