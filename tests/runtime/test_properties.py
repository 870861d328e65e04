"""Java properties text: the forms that Java reads, and text that it reads back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.runtime.properties import BadProperties, read, replace, write

CASES = {
    "a=1": [("a", "1", 1)],
    "a = 1 ": [("a", "1 ", 1)],
    "a:1\r\nb 2\rc\t=\t3": [("a", "1", 1), ("b", "2", 2), ("c", "3", 3)],
    "# no\n  ! no\n\n \t\n  a=#x!": [("a", "#x!", 5)],
    "a=one,\\\n   two\\\n\tthree\nb=1": [("a", "one,twothree", 1), ("b", "1", 4)],
    "a=1\\\\\nb=2": [("a", "1\\", 1), ("b", "2", 2)],
    "a\\=b\\ c\\:=1": [("a=b c:", "1", 1)],
    "a==1": [("a", "=1", 1)],
    "a= = 1": [("a", "= 1", 1)],
    "a": [("a", "", 1)],
    "=1": [("", "1", 1)],
    "a=\\u4e2d\\t\\n\\r\\f\\z\\u00E9": [("a", "中\t\n\r\fzé", 1)],
    "a=\\uD83D\\uDE00": [("a", "😀", 1)],
    "a=\\": [("a", "", 1)],
    "a=1\n# c \\\nb=2": [("a", "1", 1), ("b", "2", 3)],
    "a=1\\\n# not a comment": [("a", "1# not a comment", 1)],
    "a=1\na=2": [("a", "1", 1), ("a", "2", 2)],
    "\\\n# still a comment\n\\\na=1": [("a", "1", 4)],
    "": [],
}


@pytest.mark.parametrize("text", list(CASES))
def test_reading(text: str) -> None:
    assert [tuple(pair) for pair in read(text)] == CASES[text]


def test_a_broken_escape_is_refused_with_its_line() -> None:
    with pytest.raises(BadProperties, match="line 2"):
        read("a=1\nb=\\u12x4")


TEXT = st.text(max_size=20)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_what_is_written_reads_back(pairs: list[tuple[str, str]]) -> None:
    text = write(pairs)
    assert text.isascii()
    assert [(key, value) for key, value, _ in read(text)] == pairs


def test_replacing_keeps_comments_places_and_other_keys() -> None:
    text = "# mine\na = 1\nb=x,\\\n  y\n\n# last\nc=3\na=9\n"
    changed = replace(text, {"a": "2", "d": "/x y"})
    assert changed == "# mine\na=2\nb=x,\\\n  y\n\n# last\nc=3\nd=/x y\n"
    assert replace("", {"k": "v"}) == "k=v\n"
    assert replace("a=1", {}) == "a=1\n"
