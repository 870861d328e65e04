"""The bytes of an index file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.message import java_hash
from roquet.store.format.index_page import (
    ENTRY,
    HEADER,
    SECONDS_MAX,
    Geometry,
    Header,
    key_hash,
    parse_header,
    seconds_since,
)

APACHE = Geometry(5_000_000, 20_000_000)


def test_apaches_default_file_has_420_million_bytes() -> None:
    assert APACHE.file_size_bytes == 420_000_040
    assert APACHE.slot_position(0) == 40
    assert APACHE.entry_position(0) == 20_000_040
    assert APACHE.entry_position(1) == 20_000_060


def test_the_words_of_an_entry() -> None:
    assert ENTRY.pack(0x18B4E5C0, 0xABC, 7, 2).hex() == "18b4e5c00000000000000abc0000000700000002"


def test_the_header_comes_back() -> None:
    header = Header(1, 2, 3, 4, 5, 6)
    assert parse_header(HEADER.pack(*header), APACHE) == header
    assert HEADER.pack(*header).hex() == "".join(
        [
            "0000000000000001",
            "0000000000000002",
            "0000000000000003",
            "0000000000000004",
            "00000005",
            "00000006",
        ]
    )


def test_a_file_of_zeros_is_empty() -> None:
    header = parse_header(bytes(40), APACHE)
    assert isinstance(header, Header) and header.is_empty and header.next_number == 1


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (Header(0, 0, 0, 0, 0, 20_000_001), "entries"),
        (Header(0, 0, 0, 0, 0, -1), "entries"),
        (Header(0, 0, 0, 0, 5_000_001, 1), "slots"),
        (Header(0, 0, 0, 0, -1, 1), "slots"),
        (Header(0, 0, 9, 8, 0, 1), "log offsets"),
        (Header(0, 0, -9, 8, 0, 1), "log offsets"),
    ],
)
def test_a_header_that_cannot_be(header: Header, message: str) -> None:
    assert message in str(parse_header(HEADER.pack(*header), APACHE))


def test_a_short_header() -> None:
    assert "only 39" in str(parse_header(bytes(39), APACHE))


def test_slots_follow_javas_abs() -> None:
    assert APACHE.slot_of(-5) == 5
    assert APACHE.slot_of(-0x80000000) == 0
    assert APACHE.slot_of(-0x7FFFFFFF) == 0x7FFFFFFF % 5_000_000


@pytest.mark.parametrize(
    ("begin_ms", "store_ms", "seconds"),
    [
        (1000, 1999, 0),
        (1000, 2000, 1),
        (1000, 500, 0),
        (0, 5000, 0),
        (-1, 5000, 0),
        (1, 1 << 60, SECONDS_MAX),
    ],
)
def test_seconds(begin_ms: int, store_ms: int, seconds: int) -> None:
    assert seconds_since(begin_ms, store_ms) == seconds


@given(st.text(max_size=40), st.text(max_size=60))
def test_the_folded_hash_is_javas(topic: str, key: str) -> None:
    assert key_hash(topic, key) == abs(java_hash(f"{topic}#{key}")) & 0x7FFFFFFF


@given(
    st.text(st.characters(max_codepoint=127), max_size=30),
    st.text(st.characters(max_codepoint=127), max_size=33),
)
def test_the_folded_hash_is_javas_for_ascii(topic: str, key: str) -> None:
    assert key_hash(topic, key) == abs(java_hash(f"{topic}#{key}")) & 0x7FFFFFFF


def test_the_largest_lanes_do_not_overflow() -> None:
    assert key_hash("\x7f" * 30, "\x7f" * 33) == abs(java_hash("\x7f" * 30 + "#" + "\x7f" * 33))
