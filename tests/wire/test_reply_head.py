"""The beginning of an answer: both twins give the bytes that a joined frame would have."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.wire.codes import FLAG_REPLY
from roquet.wire.frame import BINARY, JSON, Frame, join
from tests.wire.conftest import TWINS

Head = Callable[[int, int, dict[str, str], str, int, int], bytes]

INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.one_of(st.text("abcXYZ019_-#:./", max_size=40), st.text(max_size=20))


@pytest.fixture(scope="module", params=TWINS)
def head(request: pytest.FixtureRequest) -> Head:
    """Return one twin after the other."""
    chosen: Head = importlib.import_module(f"roquet.wire._reply_{request.param}").reply_head
    return chosen


@pytest.mark.parametrize("encoding", [JSON, BINARY])
@pytest.mark.parametrize(
    ("ext", "remark"),
    [
        ({}, ""),
        ({"queueOffset": "7", "msgId": "7F00"}, "FOUND"),
        ({"a": 'quote " and \\ and \n'}, "tab\t"),
        ({"ü": "€"}, "grün"),
        ({"long": "x" * 10_000}, "y" * 10_000),
    ],
)
def test_head_and_body_are_the_joined_frame(
    head: Head, ext: dict[str, str], remark: str, encoding: int
) -> None:
    frame = Frame(3, -5, FLAG_REPLY, ext, b"body", remark, encoding=encoding)
    assert head(3, -5, ext, remark, 4, encoding) + b"body" == join(frame)


@given(INT32, INT32, st.dictionaries(TEXT, TEXT, max_size=6), TEXT, st.integers(0, 2**24))
def test_the_twins_agree(code: int, opaque: int, ext: dict[str, str], remark: str, body_size: int) -> None:
    answers = []
    for twin in TWINS:
        module = importlib.import_module(f"roquet.wire._reply_{twin}")
        try:
            answers.append(module.reply_head(code, opaque, ext, remark, body_size, JSON))
        except UnicodeEncodeError as error:  # lone surrogates: neither twin can write them
            answers.append(type(error))
    assert len(set(answers)) == 1
