"""Runs tests on brokers that lack some features, as `test_removal.py` asks by an environment variable.

Without the variable nothing happens here.
"""

from __future__ import annotations

import os

import pytest

from roquet.broker import features
from tests.broker.features.missing import VARIABLE, without


def pytest_configure(config: pytest.Config) -> None:
    missing = frozenset(filter(None, os.environ.get(VARIABLE, "").split(",")))
    if missing:
        pytest.MonkeyPatch().setattr(features, "all_features", without(features.all_features, missing))
