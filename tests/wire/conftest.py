"""Both twins of the frame kernel, for every test that takes `split`."""

from __future__ import annotations

import importlib
import os

import pytest

from tests.wire.frames import Split

TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]


@pytest.fixture(scope="session", params=TWINS)
def split(request: pytest.FixtureRequest) -> Split:
    """Return one twin of `split` after the other."""
    chosen: Split = importlib.import_module(f"roquet.wire._frame_{request.param}").split
    return chosen
