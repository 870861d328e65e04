"""What one read of a queue takes, against a plain reading of the rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.status import GetStatus
from roquet.store.format.queue_entry import FILLER, pack
from roquet.store.reading import Ask, LogRange, cut, select, spans
from roquet.store.settings import StoreSettings

SETTINGS = StoreSettings("/store", physical_memory_bytes=100_000)
LOG = LogRange(0, 1_000_000, 1_000)


def entries(*places: tuple[int, int, int]) -> bytes:
    return b"".join(pack(*place) for place in places)


def recent(count: int, size: int = 100) -> bytes:
    """Return entries of messages that count as recent: the last of the log."""
    return entries(*[(1_000_000 - (count - n) * size, size, n % 3) for n in range(count)])


@pytest.mark.parametrize(
    ("ask", "size", "count"),
    [
        (Ask(0, 5, 1 << 20, None), 100, 5),
        (Ask(0, 100, 1 << 20, None), 100, 32),
        (Ask(0, 100, 950, None), 100, 9),
        (Ask(0, 100, 1, None), 100, 1),
        (Ask(0, 100, 1, None), 60, 1),
        (Ask(0, 100, 1, None), 50, 2),
        (Ask(0, 0, 1 << 20, None), 100, 1),
    ],
)
def test_a_read_is_full(ask: Ask, size: int, count: int) -> None:
    found = select(recent(50, size), ask, LOG, SETTINGS)
    assert (found.status, len(found.places), found.next_offset) == (GetStatus.FOUND, count, count)


def test_old_messages_have_smaller_limits() -> None:
    old = entries(*[(n * 100, 100, 0) for n in range(50)])
    assert len(select(old, Ask(0, 100, 1 << 20, None), LOG, SETTINGS).places) == 8
    few_bytes = replace(SETTINGS, transfer_bytes_on_disk_max=300)
    assert len(select(old, Ask(0, 100, 1 << 20, None), LOG, few_bytes).places) == 3


def test_the_first_message_is_taken_whatever_its_size() -> None:
    big = entries((999_000, 900_000, 0))
    log = LogRange(0, 2_000_000, 1 << 30)
    assert len(select(big, Ask(0, 1, 1, None), log, SETTINGS).places) == 1


def test_the_scan_goes_on_behind_what_does_not_match() -> None:
    found = select(recent(30), Ask(70, 4, 1 << 20, frozenset([2])), LOG, SETTINGS)
    assert (len(found.places), found.next_offset) == (4, 70 + 12)


def test_fillers_and_deleted_places_are_passed() -> None:
    log = LogRange(2_000, 10_000, 1_000)
    data = FILLER + entries((1_000, 100, 0), (1_100, 100, 0), (1_900, 100, 0), (2_000, 100, 0))
    found = select(data, Ask(0, 10, 1 << 20, None), log, SETTINGS)
    assert (found.status, found.places, found.next_offset) == (GetStatus.FOUND, [(2_000, 100)], 5)
    gone = select(data[:80], Ask(0, 10, 1 << 20, None), log, SETTINGS)
    assert (gone.status, gone.places, gone.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, [], 4)


def test_what_is_not_in_the_log_yet_is_not_read() -> None:
    found = select(entries((999_950, 100, 0)), Ask(0, 10, 1 << 20, None), LOG, SETTINGS)
    assert found.status is GetStatus.MESSAGE_WAS_REMOVING


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20)), max_size=30))
def test_joined_reads_give_the_same_records(steps: list[tuple[int, int]]) -> None:
    log = bytes(range(256)) * 4
    places, at = [], 0
    for gap, size in steps:
        places.append((at + gap, size))
        at += gap + size
    joined = spans(places)
    assert [bytes(data) for data in cut(places, [log[at : at + size] for at, size in joined])] == [
        log[at : at + size] for at, size in places
    ]
    assert all(one[0] + one[1] < two[0] for one, two in zip(joined, joined[1:], strict=False))


def test_records_of_a_file_that_went_away_are_left_out() -> None:
    places = [(0, 2), (2, 2), (10, 3)]
    assert cut(places, [b"", b"abc"]) == [b"abc"]
    assert [bytes(data) for data in cut(places, [b"xy", b"abc"])] == [b"xy", b"abc"]
