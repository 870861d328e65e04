"""Reads with a selector: the same messages, statuses and offsets as a plain reading of the rules gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.model.message import Host
from roquet.model.status import GetStatus
from roquet.store import sifting
from roquet.store.format import record

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench


def wants_x(properties: bytes) -> bool:
    return b"want\x01x\x02" in properties


@settings(max_examples=25, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=150), st.integers(1, 40), st.integers(200, 3_000))
def test_reads_go_through_a_queue_and_give_what_is_wanted(
    bench_type: type[StoreBench], wanted: list[bool], max_count: int, max_bytes: int
) -> None:
    bench = bench_type()

    async def main() -> None:
        store = bench.store()
        for number, is_wanted in enumerate(wanted):
            extra = b"want\x01x\x02" if is_wanted else b"want\x01y\x02"
            await bench.append(store, bench.draft(b"%d" % number, extra=extra))
        for is_hot in (True, False):
            found: list[int] = []
            at = 0
            while at < len(wanted):
                ask = ("orders", 0, at, max_count, max_bytes, wants_x)
                got = store.read_hot(*ask) if is_hot else await store.read(*ask)
                assert got is not None and got.next_offset > at
                assert (got.status is GetStatus.FOUND) == bool(got.records)
                assert got.records or got.status is GetStatus.NO_MATCHED_MESSAGE
                assert len(got.records) <= max_count
                assert got.size_bytes == sum(map(len, got.records))
                assert len(got.records) == 1 or got.size_bytes <= max_bytes
                opened = [record.decode(data) for data in got.records]
                assert [int(one.body) for one in opened] == [one.queue_offset for one in opened]
                found += [one.queue_offset for one in opened]
                at = got.next_offset
            assert found == [number for number, is_wanted in enumerate(wanted) if is_wanted]
        await store.close()

    bench.run(main())


def test_a_read_that_fills_up_ends_right_behind_its_last_message(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        for number in range(10):
            extra = b"want\x01x\x02" if number in (2, 4, 8) else b""
            await bench.append(store, bench.draft(extra=extra))
        got = store.read_hot("orders", 0, 0, 2, 1 << 20, wants_x)
        assert got is not None and (len(got.records), got.next_offset) == (2, 5)
        got = store.read_hot("orders", 0, 5, 2, 1 << 20, wants_x)
        assert got is not None and (len(got.records), got.next_offset) == (1, 10)
        got = store.read_hot("orders", 0, 9, 2, 1 << 20, wants_x)
        assert got is not None and (got.status, got.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)

    bench.run(main())


def test_only_so_much_is_looked_at(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roquet.store.lookup.HOT_BYTES_MAX", 1_000)
    monkeypatch.setattr(sifting, "TOTAL_BYTES_MAX", 3_000)
    monkeypatch.setattr(sifting, "LOOK_COUNT", 4)

    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 100)
        assert store.read_hot("orders", 0, 0, 32, 1 << 20, wants_x) is None, "too much for the event loop"
        got = await store.read("orders", 0, 0, 32, 1 << 20, wants_x)
        assert got.status is GetStatus.NO_MATCHED_MESSAGE
        assert 20 <= got.next_offset < 40, "the next read goes on where this one gave up"

    bench.run(main())


@pytest.mark.parametrize("topic", ["t", "x" * 200])
@pytest.mark.parametrize("born", [bytes(4), bytes(16)])
@pytest.mark.parametrize("stored", [bytes(4), bytes(16)])
def test_properties_are_found_in_every_layout(
    bench: StoreBench, topic: str, born: bytes, stored: bytes
) -> None:
    draft = bench.draft(b"a body", topic=topic, extra=b"k\x01v\x02")._replace(born_host=Host(born, 1))
    flag = (16 if len(born) == 16 else 0) | (32 if len(stored) == 16 else 0)
    data = record.encode(draft._replace(sys_flag=flag), 1, 2, 3, Host(stored, 2))
    assert record.properties_of(data) == record.properties_of(memoryview(data)) == b"k\x01v\x02"


@given(st.binary(min_size=40, max_size=200))
def test_properties_of_damaged_bytes_are_bytes(data: bytes) -> None:
    assert isinstance(record.properties_of(data), bytes)
