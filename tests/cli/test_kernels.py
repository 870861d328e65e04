"""`roquet version` tells of every kernel."""

from __future__ import annotations

from pathlib import Path

import roquet
from roquet.cli.kernels import CHOICES


def test_every_module_that_chooses_a_kernel_is_listed() -> None:
    root = Path(roquet.__file__).parent
    choosing = {
        ".".join(("roquet", *path.relative_to(root).with_suffix("").parts))
        for path in root.rglob("*.py")
        if "COMPILED: Final = " in path.read_text()
    }
    assert set(CHOICES.values()) == choosing
