"""Runs the tests of features on brokers that lack some: `ROQUET_TEST_WITHOUT=delay,retry` takes them out.

The names are those of the modules under `roquet.broker.features`. `test_removal.py` runs pytest so; without
the variable nothing here does anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from roquet.broker import features


def name_of(feature: object) -> str:
    """Return what a feature is called: the module under `features` that it comes from."""
    return type(feature).__module__.removeprefix(f"{features.__name__}.").partition(".")[0]


def needed_by(feature: object) -> frozenset[str]:
    """Return the features without which this one cannot be."""
    return frozenset(getattr(feature, "needs", ()))


def without(
    missing: frozenset[str], build: Callable[[features.Parts], tuple[object, ...]] = features.all_features
) -> Callable[[features.Parts], tuple[object, ...]]:
    """Return an `all_features` that leaves some out, and those that need them."""

    def build_rest(parts: features.Parts) -> tuple[object, ...]:
        gone, rest = set(missing), build(parts)
        while cut := [each for each in rest if name_of(each) in gone or needed_by(each) & gone]:
            gone |= {name_of(each) for each in cut}
            rest = tuple(each for each in rest if each not in cut)
        return rest

    return build_rest


_missing = frozenset(filter(None, os.environ.get("ROQUET_TEST_WITHOUT", "").split(",")))
if _missing:
    features.all_features = without(_missing)
