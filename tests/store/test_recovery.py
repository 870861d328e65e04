"""Recovery: clean and unclean restarts, damage on disk, queues that are missing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from roquet.model.message import Entry, Host
from roquet.model.status import GetStatus, PutStatus
from roquet.store.format import record
from roquet.store.settings import FlushMode
from roquet.store.store import Store

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench

LOG = "/store/commitlog/00000000000000000000"


def restarted(bench: StoreBench, count: int, queue_id: int = 0) -> None:
    """Leave a store of `count` messages that was closed in order."""

    async def main() -> None:
        store = bench.store()
        await bench.fill(store, count, queue_id=queue_id)
        await store.close()

    bench.run(main())


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def read_all(bench: StoreBench, count: int) -> None:
    store = bench.store()
    assert await bench.bodies(store) == numbers(count)
    await bench.check_queues_equal_log(store)
    answer = await bench.append(store, bench.draft(b"next"))
    assert (answer.status, answer.queue_offset) == (PutStatus.PUT_OK, count)
    await bench.check_queues_equal_log(store)


def test_a_clean_restart_reads_no_records(bench: StoreBench) -> None:
    restarted(bench, 200)
    assert not bench.disk.exists("/store/abort")
    seen: list[Entry] = []
    here = Host(bytes([127, 0, 0, 2]), 10_911)
    store = Store(bench.disk, bench.clock, bench.settings, here, bench.world.loop.call_soon, 4711)
    store.listeners.append(seen.extend)
    store.open()
    assert not seen and store.max_offset("orders", 0) == 200
    assert bench.disk.read_file("/store/abort") == b"4711"
    assert not bench.disk.exists("/store/queues.json")
    assert bench.run(bench.bodies(store)) == numbers(200)


def test_without_its_table_a_clean_stop_is_read_again(bench: StoreBench) -> None:
    restarted(bench, 200)
    bench.disk.remove("/store/queues.json")
    bench.run(read_all(bench, 200))


def test_a_table_of_another_log_is_not_believed(bench: StoreBench) -> None:
    restarted(bench, 20)
    old = bench.disk.read_file("/store/queues.json")

    async def more() -> None:
        store = bench.store()
        await bench.append(store, bench.draft(b"20"))
        await store.close()

    bench.run(more())
    bench.disk.write_file("/store/queues.json", old)
    bench.run(read_all(bench, 21))


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("folder", ["/store/consumequeue", "/store/consumequeue/orders/1"])
def test_missing_queues_are_rebuilt_from_the_whole_log(
    bench: StoreBench, folder: str, is_clean: bool
) -> None:
    async def main() -> None:
        store = bench.store()
        await store.start()
        for number in range(300):
            await bench.append(
                store, bench.draft(b"%d" % (number // 2), queue_id=number % 2, key=f"k{number}")
            )
            if number % 10 == 0:
                # Many log files, so that the scan after a crash begins near the end.
                await bench.clock.sleep_until(bench.clock.monotonic() + 5)
        if is_clean:
            await store.close()
        else:
            bench.world.kill("broker")
        bench.disk.remove_tree(folder)
        again = bench.store()
        for queue_id in (0, 1):
            assert await bench.bodies(again, queue_id=queue_id) == numbers(150)
        await bench.check_queues_equal_log(again)
        found = await again.query("orders", "k7", 32, 0, 1 << 60)
        assert len(found.records) == 1

    bench.run(main())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("is_clean", [True, False])
def test_rebuilt_queues_survive_a_power_cut_soon_after(
    bench_type: type[StoreBench], seed: int, is_clean: bool
) -> None:
    """They are not synced yet: the checkpoint must no longer vouch for them, also for idle ones."""
    bench = bench_type(seed)

    async def main() -> None:
        store = bench.store()
        await store.start()
        await bench.fill(store, 150, queue_id=1, key="early")
        for _ in range(10):
            await bench.clock.sleep_until(bench.clock.monotonic() + 20)
            await bench.fill(store, 60, topic="bills")
        await bench.clock.sleep_until(bench.clock.monotonic() + 100)
        if is_clean:
            await store.close()
        else:
            bench.world.kill("broker")
        bench.disk.remove_tree("/store/consumequeue")
        bench.disk.sync_dir("/store")
        busy = bench.store()._queues.get("bills", 0)
        busy.files.sync_now()  # of all that was rebuilt this alone is sure to be there
        bench.disk.crash()
        again = bench.store()
        assert await bench.bodies(again, queue_id=1) == numbers(150)
        await bench.check_queues_equal_log(again)
        assert len((await again.query("orders", "early", 64, 0, 1 << 60)).records) == 64

    bench.run(main())


def test_an_index_longer_than_the_log_is_rebuilt(bench: StoreBench) -> None:
    """A power cut may keep the index and take the end of the log: its places are given anew."""

    async def main() -> None:
        store = bench.store()
        places = [answer.log_offsets[0] for answer in await bench.fill(store, 20, key="old")]
        await store.close()
        bench.disk.write_file("/store/abort", b"1")
        bench.disk.remove("/store/checkpoint")
        bench.disk.flip(LOG, places[12] + 4)
        again = bench.store()
        assert again.log_max_offset == places[12]
        await bench.fill(again, 8, key="new")
        assert len((await again.query("orders", "old", 64, 0, 1 << 60)).records) == 12
        assert len((await again.query("orders", "new", 64, 0, 1 << 60)).records) == 8

    bench.run(main())


def test_an_index_that_cannot_be_written_stops_nobody(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await store.start()
        bench.disk.fail("write", "/store/index")
        await bench.fill(store, 20, key="k")
        await bench.clock.sleep_until(bench.clock.monotonic() + 100)
        assert not store.refusal
        await bench.fill(store, 20, key="k")
        assert len((await store.query("orders", "k", 64, 0, 1 << 60)).records) == 40
        await store.close()
        assert bench.disk.exists("/store/abort")
        bench.disk.heal()
        again = bench.store()
        assert len((await again.query("orders", "k", 64, 0, 1 << 60)).records) == 40

    bench.run(main())


def test_a_deleted_index_is_rebuilt(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        for number in range(50):
            await bench.append(store, bench.draft(b"%d" % number, key=f"k{number}"))
        await store.close()
        bench.disk.remove_tree("/store/index")
        again = bench.store()
        found = await again.query("orders", "k3", 32, 0, 1 << 60)
        assert [record.decode(data).body for data in found.records] == [b"3"]

    bench.run(main())


def flushed(bench: StoreBench, count: int) -> list[int]:
    """Leave a store that was killed long after its last message was synced; return places of records."""
    places: list[int] = []

    async def main() -> None:
        store = bench.store()
        await store.start()
        places.extend(answer.log_offsets[0] for answer in await bench.fill(store, count))
        await bench.clock.sleep_until(bench.clock.monotonic() + 100)
        bench.world.kill("broker")

    bench.run(main())
    return places


@pytest.mark.parametrize(("position", "kept"), [(88, True), (0, False), (4, False), (31, False), (87, False)])
def test_a_flipped_bit_takes_at_most_its_own_message(
    bench: StoreBench, caplog: pytest.LogCaptureFixture, position: int, kept: bool
) -> None:
    places = flushed(bench, 20)
    bench.disk.flip(LOG, places[7] + position)

    async def main() -> None:
        store = bench.store()
        got = await store.read("orders", 0, 0, 32, 1 << 20)
        bodies = [record.decode(data).body for data in got.records]
        assert bodies[:7] == numbers(20)[:7] and bodies[8:] == numbers(20)[8:]
        # The queue stays dense: the place of the lost message leads to the one behind it.
        assert bodies[7] == (b"6" if kept else b"8")
        assert store.max_offset("orders", 0) == 20
        answer = await bench.append(store, bench.draft(b"next"))
        assert answer.queue_offset == 20

    with caplog.at_level(logging.ERROR, "roquet.store"):
        bench.run(main())
    assert f"at {places[7]} in {LOG}" in caplog.text


def test_a_flipped_bit_in_a_blank_does_not_lose_the_next_file(bench: StoreBench) -> None:
    places = flushed(bench, 200)
    last_in_first = max(place for place in places if place < 16_384)
    head = bench.disk.read_file(LOG)[last_in_first : last_in_first + 4]
    bench.disk.flip(LOG, last_in_first + int.from_bytes(head, "big") + 6)
    bench.run(read_all(bench, 200))


def test_a_torn_last_record_is_dropped_and_cleared(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 5)
        answer = await bench.append(store, bench.draft(b"torn"))
        bench.world.kill("broker")
        bench.disk.flip(LOG, answer.log_offsets[0] + 88)
        again = bench.store()
        assert await bench.bodies(again) == numbers(5)
        assert again.log_max_offset == answer.log_offsets[0]
        assert not bench.disk.read_file(LOG)[again.log_max_offset :].strip(b"\0")

    bench.run(main())


def test_stale_records_behind_the_end_are_never_read(bench: StoreBench) -> None:
    """A torn record in front of good ones of the same size: new records must not connect to the old."""

    async def main() -> None:
        store = bench.store()
        places = [answer.log_offsets[0] for answer in await bench.fill(store, 9)]
        bench.world.kill("broker")
        bench.disk.flip(LOG, places[3] + 5)  # nothing was synced: the log ends here
        again = bench.store()
        assert await bench.bodies(again) == numbers(3)
        await bench.append(again, bench.draft(b"n"))
        bench.world.kill("broker")
        third = bench.store()
        assert await bench.bodies(third) == [b"0", b"1", b"2", b"n"]
        await bench.check_queues_equal_log(third)

    bench.run(main())


def test_files_behind_the_end_of_the_log_are_deleted(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        places = [answer.log_offsets[0] for answer in await bench.fill(store, 400)]
        bench.world.kill("broker")
        bench.disk.flip(LOG, places[100] + 5)
        again = bench.store()
        assert await bench.bodies(again) == numbers(100)
        assert [file.name for file in bench.disk.list_dir("/store/commitlog")] == ["0" * 20]
        await bench.fill(again, 300)
        await bench.check_queues_equal_log(again)
        bench.world.kill("broker")
        third = bench.store()
        assert third.max_offset("orders", 0) == 400
        await bench.check_queues_equal_log(third)

    bench.run(main())


def test_queues_without_a_log_are_deleted(bench: StoreBench) -> None:
    restarted(bench, 20)
    bench.disk.remove_tree("/store/commitlog")
    store = bench.store()
    got = bench.run(store.read("orders", 0, 0, 32, 1 << 20))
    assert got.status is GetStatus.NO_MESSAGE_IN_QUEUE and store.log_max_offset == 0


def test_a_queue_that_starts_late_is_prefilled(bench: StoreBench) -> None:
    """After the log's beginning is gone a rebuilt queue starts at its first message, as Apache writes it."""

    async def main() -> None:
        store = bench.store()
        places = [answer.log_offsets[0] for answer in await bench.fill(store, 400)]
        await store.close()
        bench.disk.remove(LOG)
        bench.disk.remove_tree("/store/consumequeue")
        again = bench.store()
        first = next(number for number, place in enumerate(places) if place >= 16_384)
        assert again.min_offset("orders", 0) == first and again.max_offset("orders", 0) == 400
        assert await bench.bodies(again) == numbers(400)[first:]
        got = await again.read("orders", 0, first - 1, 32, 1 << 20)
        assert (got.status, got.next_offset) == (GetStatus.OFFSET_TOO_SMALL, first)
        await again.close()
        start = first // 50 * 50
        data = bench.disk.read_file(f"/store/consumequeue/orders/0/{start * 20:020d}")
        filler = bytes(8) + (2**31 - 1).to_bytes(4, "big") + bytes(8)
        assert data.startswith(filler * (first - start)) and data[(first - start) * 20 :][:20] != filler
        bench.disk.remove("/store/queues.json")
        third = bench.store()
        assert third.min_offset("orders", 0) == first
        await bench.check_queues_equal_log(third)

    bench.run(main())


def test_folders_that_are_no_queues_are_left_alone(bench: StoreBench) -> None:
    restarted(bench, 3)
    bench.disk.make_dirs("/store/consumequeue/bad name/0")
    bench.disk.make_dirs("/store/consumequeue/orders/x1")
    bench.disk.make_dirs("/store/consumequeue/orders/007")
    store = bench.store()
    assert store.topics() == ["orders"] and store.queues_of("orders") == [0]
    assert bench.disk.exists("/store/consumequeue/bad name/0")


def test_a_sync_store_shows_nothing_that_was_not_synced(bench: StoreBench) -> None:
    bench.change(flush_mode=FlushMode.SYNC)
    bench.disk.sync_delay_s = 1.0

    async def main() -> None:
        store = bench.store()
        store.append([bench.draft()], lambda _: None)
        await bench.clock.sleep_until(bench.clock.monotonic() + 0.1)
        bench.world.kill("broker")
        # The record is in the page cache: recovery syncs it before it shows it.
        again = bench.store()
        assert again.max_offset("orders", 0) == 1
        bench.disk.crash()
        assert bench.store().max_offset("orders", 0) == 1

    bench.run(main())
