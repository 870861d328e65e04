"""The short way of choosing records for bulk readers takes what the careful one would."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from roquet.model.status import GetStatus
from roquet.store.format.queue_entry import FILLER, pack
from roquet.store.reading import Ask, LogRange, select
from roquet.store.settings import StoreSettings

BULK = StoreSettings("unused", transfer_bytes_bulk_max=3_000)
CAREFUL = replace(
    BULK, transfer_bytes_in_memory_max=3_000, transfer_bytes_on_disk_max=3_000,
    transfer_count_in_memory_max=1_000, transfer_count_on_disk_max=1_000,
)  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(100, 4_000), st.booleans()), max_size=30),
    st.integers(0, 40),
    st.integers(1, 6_000),
    st.integers(0, 3_000),
    st.integers(0, 40_000),
)
def test_both_ways_agree(
    steps: list[tuple[int, int, bool]], max_count: int, max_bytes: int, min_offset: int, end_offset: int
) -> None:
    data, log_offset = b"", 0
    for gap, size, is_filler in steps:
        log_offset += gap
        data += FILLER if is_filler else pack(log_offset, size, 5)
        log_offset += 0 if is_filler else size
    log = LogRange(min_offset, max(end_offset, min_offset), 8_192)
    ask = Ask(7, max_count, max_bytes, None)
    assert select(data, ask._replace(bulk=True), log, BULK) == select(data, ask, log, CAREFUL)


def test_bulk_has_limits_of_its_own() -> None:
    data = b"".join(pack(number * 100, 100, 5) for number in range(100))
    log = LogRange(0, 10_000, 1 << 30)
    ask = Ask(0, 1_000, 1 << 20, None)
    assert len(select(data, ask, log, BULK).places) == 32
    assert len(select(data, ask._replace(bulk=True), log, BULK).places) == 30
    tagged = ask._replace(bulk=True, match=frozenset((5,)))
    assert len(select(data, tagged, log, BULK).places) == 30
    assert select(b"", ask._replace(bulk=True), log, BULK).status is GetStatus.NO_MATCHED_MESSAGE
