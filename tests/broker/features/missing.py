"""Brokers that lack some features: what a feature is called, and an `all_features` that leaves some out."""

from __future__ import annotations

from collections.abc import Callable

from roquet.broker import features

VARIABLE = "ROQUET_TEST_WITHOUT"
"""Names of features, joined by commas, that the brokers of a test run shall lack."""

Build = Callable[[features.Parts], tuple[object, ...]]


def name_of(feature: object) -> str:
    """Return what a feature is called: the module under `features` that it comes from."""
    return type(feature).__module__.removeprefix(f"{features.__name__}.").partition(".")[0]


def without(build: Build, missing: frozenset[str]) -> Build:
    """Return an `all_features` that leaves some out, and those that need them."""

    def build_rest(parts: features.Parts) -> tuple[object, ...]:
        built = build(parts)
        gone = gone_with(built, missing)
        return tuple(feature for feature in built if name_of(feature) not in gone)

    return build_rest


def gone_with(built: tuple[object, ...], missing: frozenset[str]) -> frozenset[str]:
    """Return the missing features and all that need them."""
    gone = missing
    while more := {name_of(each) for each in built if gone.intersection(getattr(each, "needs", ()))} - gone:
        gone |= more
    return gone
