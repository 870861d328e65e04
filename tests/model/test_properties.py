"""Changes to a property text: pairs come and go, the rest keeps its bytes, in both twins."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.message import parse_properties

TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]


@pytest.fixture(scope="module", params=TWINS)
def properties(request: pytest.FixtureRequest) -> ModuleType:
    """Return one twin after the other."""
    return importlib.import_module(f"roquet.model._properties_{request.param}")


@pytest.mark.parametrize(
    ("before", "put", "drop", "after"),
    [
        (b"", {}, (), b""),
        (b"", {"A": "1"}, ("B",), b"A\x011\x02"),
        (b"A\x011\x02", {"B": "2", "C": ""}, (), b"A\x011\x02B\x012\x02"),
        (b"A\x011\x02B\x012\x02", {"A": "3"}, (), b"B\x012\x02A\x013\x02"),
        (b"A\x011\x02BA\x012\x02AB\x013\x02", {}, ("A",), b"BA\x012\x02AB\x013\x02"),
        (b"A\x011\x02A\x012", {}, ("B",), b"A\x011\x02A\x012\x02"),
        (b"A\x011\x02A\x012", {}, ("A",), b""),
        (b"\x02\x02A\x01\xff\x01x\x02lonely", {}, (), b"A\x01\xff\x01x\x02lonely\x02"),
        ("né\x01à\x02".encode(), {"ü": "ö"}, ("né",), "ü\x01ö\x02".encode()),
    ],
)
def test_pairs_come_and_go(
    properties: ModuleType, before: bytes, put: dict[str, str], drop: tuple[str, ...], after: bytes
) -> None:
    assert properties.edit_properties(before, put, drop) == after


NAMES = st.sampled_from(["A", "AB", "B", "é", ""])
VALUES = st.sampled_from(["1", "", "x y", "à"])


@given(st.lists(st.tuples(NAMES, VALUES)), st.booleans(), st.dictionaries(NAMES, VALUES), st.lists(NAMES))
def test_the_twins_agree_and_a_reader_sees_the_change(
    pairs: list[tuple[str, str]], is_ended: bool, put: dict[str, str], drop: list[str]
) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs) + ("\x02" if is_ended else "")
    texts = {
        importlib.import_module(f"roquet.model._properties_{twin}").edit_properties(text.encode(), put, drop)
        for twin in TWINS
    }
    assert len(texts) == 1
    kept = {name: value for name, value in parse_properties(text).items() if name not in (*put, *drop)}
    wanted = kept | {name: value for name, value in put.items() if name and value}
    assert parse_properties(texts.pop().decode()) == wanted
