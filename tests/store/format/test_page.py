"""Runs of records: both twins against the encoder, against each other, and everything that is no record."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.message import Draft, Host
from roquet.store.format import record
from roquet.store.format.page import COMPILED
from roquet.store.format.record import Record

HERE = Host(bytes([127, 0, 0, 2]), 10_911)
V6 = Host(bytes(range(16)), 80)
TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]
Read = Callable[[bytes], list[Record]]

hosts = st.sampled_from([HERE, V6, Host(b"\x0a\0\0\1", 1)])
drafts = st.builds(
    Draft,
    topic=st.sampled_from(["t", "orders", "主题", "x" * 200]),
    queue_id=st.integers(0, 7),
    body=st.binary(max_size=50),
    properties=st.binary(max_size=50),
    flag=st.integers(-(2**31), 2**31 - 1),
    sys_flag=st.sampled_from([0, 1, 0x8, 0x301]),
    born_ms=st.integers(0, 2**62),
    born_host=hosts,
    reconsume_times=st.integers(0, 20),
    prepared_log_offset=st.integers(0, 2**62),
)


def twins() -> list[Read]:
    return [importlib.import_module(f"roquet.store.format._page_{name}").read_page for name in TWINS]


@pytest.fixture(params=TWINS)
def read(request: pytest.FixtureRequest) -> Read:
    function: Read = importlib.import_module(f"roquet.store.format._page_{request.param}").read_page
    return function


def test_the_kernel_is_taken_when_it_is_there() -> None:
    assert ("c" in TWINS) == COMPILED


def encoded(found: list[Draft], store_host: Host = HERE) -> bytes:
    pieces = [record.encode(draft, n, 7 * n, n, store_host) for n, draft in enumerate(found)]
    return b"".join(pieces)


@given(st.lists(drafts, max_size=6), hosts)
def test_what_was_encoded_is_read(found: list[Draft], store_host: Host) -> None:
    data = encoded(found, store_host)
    for twin in twins():
        read = twin(data)
        assert [each.body for each in read] == [draft.body for draft in found]
        assert [each.queue_offset for each in read] == list(range(len(found)))
        for each, draft in zip(read, found, strict=True):
            assert (each.topic, each.properties) == (draft.topic, draft.properties)
            assert each.born_host == draft.born_host
            assert (each.flag, each.born_ms, each.store_host) == (draft.flag, draft.born_ms, store_host)
            assert (each.reconsume_times, each.prepared_log_offset) == (
                draft.reconsume_times,
                draft.prepared_log_offset,
            )
        position = 0
        for each in read:
            assert each == record.decode(data, position)
            position += each.size_bytes


def outcome(twin: Read, data: bytes) -> object:
    try:
        return twin(data)
    except ValueError as error:
        return str(error)


@given(st.lists(drafts, min_size=1, max_size=3), st.data())
def test_twins_agree_on_damaged_bytes(found: list[Draft], data: st.DataObject) -> None:
    whole = bytearray(encoded(found))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    first, *others = [outcome(twin, cut) for twin in twins()]
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("place", "byte", "words"),
    [
        (0, 0x7F, "its size would be"),
        (4, 0, "it begins with"),
        (3, 10, "its size would be 10"),
        (84, 0x7F, "do not fit"),
        (84, 0x80, "do not fit"),
        (90, 0xFF, "do not fit"),
        (92, 1, "do not fit"),
        (39, 0x30, "do not fit"),
    ],
)
def test_what_is_no_record_is_refused_with_its_place(read: Read, place: int, byte: int, words: str) -> None:
    one = encoded([Draft("t", 0, b"hi", b"", 0, 0, 0, HERE)])
    bad = bytearray(one)
    bad[place] = byte
    with pytest.raises(ValueError, match=f"no record at {len(one)}: .*{words}"):
        read(one + bytes(bad))


def test_bytes_that_are_too_few_are_refused(read: Read) -> None:
    one = encoded([Draft("t", 0, b"", b"", 0, 0, 0, HERE)])
    with pytest.raises(ValueError, match="only 50 bytes are left"):
        read(one + one[:50])
    assert read(b"") == []


def test_views_are_read_like_bytes(read: Read) -> None:
    data = encoded([Draft("t", 0, b"hi", b"", 0, 0, 0, HERE)])
    assert read(memoryview(data)) == read(data)  # type: ignore[arg-type]
