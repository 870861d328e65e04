"""Runs of 20-byte entries: rows of keys, index entries and slot words, queue entries; both twins."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.message import Entry
from roquet.store.format.entries import ROW
from roquet.store.format.index_page import ENTRY, SECONDS_MAX, SLOT, Geometry, key_hash
from roquet.store.format.queue_entry import FILLER, pack

TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]


class Kernel(Protocol):
    """What both twins can do."""

    def key_rows(self, entries: Sequence[Entry]) -> bytes: ...
    def queue_rows(
        self, entries: Sequence[Entry], owners: Sequence[int], counts: Sequence[int]
    ) -> list[bytes]: ...
    def file_rows(
        self,
        rows: bytes,
        position: int,
        table: bytearray,
        dirty: bytearray,
        slots: int,
        max_entries: int,
        begin_ms: int,
        number: int,
    ) -> tuple[bytes, int, int]: ...
    def link(
        self, entries: bytes, number: int, newest_log_offset: int, table: bytearray, slots: int
    ) -> tuple[int, int]: ...
    def count_valid(self, data: bytes) -> int: ...


def twins() -> list[Kernel]:
    return [importlib.import_module(f"roquet.store.format._entries_{name}") for name in TWINS]


@pytest.fixture(scope="session", params=TWINS)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """Return one twin after the other."""
    twin: Kernel = importlib.import_module(f"roquet.store.format._entries_{request.param}")
    return twin


def entry(log_offset: int, topic: str, *keys: str, store_ms: int = 5, sys_flag: int = 0) -> Entry:
    return Entry(log_offset, 100, topic, 0, 0, 0, store_ms, sys_flag, 0, keys, b"")


def rows_of(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(ROW.pack(*row) for row in rows)


def test_a_row_for_each_key(kernel: Kernel) -> None:
    entries = [
        entry(1, "t", "a", "ä𐍈"), entry(2, "t"), entry(3, "t", "b", sys_flag=12),
        entry(4, "ü", "", sys_flag=4),
    ]  # fmt: skip
    assert kernel.key_rows(entries) == rows_of(
        (key_hash("t", "a"), 1, 5), (key_hash("t", "ä𐍈"), 1, 5), (key_hash("ü", ""), 4, 5)
    )
    assert kernel.key_rows([]) == b""


def test_each_queue_gets_its_entries(kernel: Kernel) -> None:
    entries = [entry(offset, "t")._replace(tag_code=-offset) for offset in range(4)]
    first, second, none = kernel.queue_rows(entries, [1, 0, 1, 1], [1, 3, 0])
    assert first == pack(1, 100, -1)
    assert second == pack(0, 100, 0) + pack(2, 100, -2) + pack(3, 100, -3)
    assert none == b""


@pytest.mark.parametrize(
    ("owners", "counts"), [([0], [2]), ([0, 0], [1]), ([0, 0], [1, 1]), ([0, 2], [1, 1]), ([0, 1], [2])]
)
def test_entries_that_were_counted_wrongly_are_refused(
    kernel: Kernel, owners: list[int], counts: list[int]
) -> None:
    with pytest.raises((ValueError, IndexError)):
        kernel.queue_rows([entry(1, "t"), entry(2, "t")], owners, counts)


def test_rows_become_entries_and_slot_words(kernel: Kernel) -> None:
    geometry = Geometry(2_000, 10)
    table, dirty = bytearray(geometry.table_size_bytes), bytearray(2)
    rows = rows_of((5, 100, 1_000), (2_005, 100, 1_000), (1_500, 200, 4_999), (5, 300, 1 << 50))
    packed, stop, used = kernel.file_rows(rows, 0, table, dirty, *geometry, 1_000, 1)
    assert [*ENTRY.iter_unpack(packed)] == [
        (5, 100, 0, 0), (2_005, 100, 0, 1), (1_500, 200, 3, 0), (5, 300, SECONDS_MAX, 2)
    ]  # fmt: skip
    assert (stop, used, bytes(dirty)) == (80, 2, b"\1\1")
    assert SLOT.unpack_from(table, geometry.slot_position(5)) == (4,)
    assert SLOT.unpack_from(table, geometry.slot_position(1_500)) == (3,)
    again, word = bytearray(geometry.table_size_bytes), geometry.slot_position(5)
    assert kernel.link(packed, 1, 0, again, geometry.slots) == (4, 300)
    assert again == table
    SLOT.pack_into(table, word, 9)
    packed, _, used = kernel.file_rows(rows_of((5, 400, 0)), 0, table, dirty, *geometry, 1_000, 5)
    assert ENTRY.unpack(packed) == (5, 400, 0, 0) and used == 1


def test_a_record_is_filed_whole_or_waits(kernel: Kernel) -> None:
    geometry = Geometry(7, 4)
    table, dirty = bytearray(geometry.table_size_bytes), bytearray(1)
    rows = rows_of((1, 100, 9), (2, 100, 9), (3, 200, 9), (4, 200, 9))
    packed, stop, _ = kernel.file_rows(rows, 0, table, dirty, *geometry, 9, 1)
    assert (len(packed), stop) == (40, 40)
    packed, stop, _ = kernel.file_rows(rows, stop, table, dirty, *geometry, 9, 3)
    assert (packed, stop) == (b"", 40)
    many = rows_of(*((n, 300, 9) for n in range(6)))
    packed, stop, _ = kernel.file_rows(many, 0, bytearray(len(table)), dirty, *geometry, 9, 1)
    assert (len(packed), stop) == (60, 120)


@pytest.mark.parametrize(
    "wrong", [(-1, 300, 0, 0), (5, 99, 0, 1), (5, 300, -1, 1), (5, 300, 0, 0), (5, 300, 0, 2)]
)
def test_an_entry_that_does_not_follow_ends_the_links(kernel: Kernel, wrong: tuple[int, ...]) -> None:
    right = ENTRY.pack(5, 100, 0, 0)
    assert kernel.link(right + ENTRY.pack(*wrong) + right, 1, 0, bytearray(68), 7) == (1, 100)


def test_valid_queue_entries(kernel: Kernel) -> None:
    good = pack(0, 100, 0) + FILLER + pack(1 << 40, 1, -5)
    for bad in (bytes(20), pack(-1, 5, 0), pack(5, 0, 7), pack(5, -1, 7), b"", good[:19]):
        assert kernel.count_valid(good + bad) == 3


rows = st.lists(
    st.tuples(st.integers(0, (1 << 31) - 1), st.integers(0, 5), st.integers(-(1 << 62), 1 << 62)), max_size=20
)


@given(rows, st.integers(1, 9), st.integers(2, 12), st.integers(-5, 1 << 50), st.integers(1, 12), st.binary())
def test_twins_agree(
    values: list[tuple[int, int, int]], slots: int, max_entries: int, begin_ms: int, number: int, noise: bytes
) -> None:
    given_rows = rows_of(*sorted(values, key=lambda row: row[1]))
    filed = []
    for twin in twins():
        table, dirty = bytearray(40 + 4 * slots), bytearray(1)
        table[40 : 40 + min(len(noise), 4 * slots)] = noise[: 4 * slots]
        found = twin.file_rows(given_rows, 0, table, dirty, slots, max_entries, begin_ms, number)
        linked = bytearray(40 + 4 * slots)
        links = twin.link(found[0], number, 0, linked, slots)
        filed.append((found, table, dirty, links, linked, twin.count_valid(noise)))
    assert filed[0] == filed[-1]


@given(
    st.lists(st.tuples(st.text(max_size=70), st.lists(st.text(max_size=70)), st.sampled_from([0, 4, 8, 0xC])))
)
def test_twins_agree_on_rows(values: list[tuple[str, list[str], int]]) -> None:
    entries = [entry(n, topic, *keys, sys_flag=flag) for n, (topic, keys, flag) in enumerate(values)]
    made = [twin.key_rows(entries) for twin in twins()]
    assert made[0] == made[-1]
