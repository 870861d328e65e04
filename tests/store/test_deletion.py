"""Deletion: expired log files go, queues and index follow, a full disk refuses and recovers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roquet.model.status import GetStatus, PutStatus
from roquet.store.store import Store

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench

TWO_HOURS_MS = 2 * 3_600_000


async def wait(bench: StoreBench, seconds: float) -> None:
    await bench.clock.sleep_until(bench.clock.monotonic() + seconds)


async def filled(bench: StoreBench) -> Store:
    """Return a store of 600 messages in one queue: several log, queue and index files."""
    store = bench.store()
    await store.start()
    for number in range(600):
        await bench.append(store, bench.draft(b"%03d" % number, key=f"k{number}"))
    return store


def test_expired_files_go_at_any_hour_when_asked_and_everything_follows(bench: StoreBench) -> None:
    bench.change(file_reserved_hours=1, delete_when_hours=())

    async def main() -> None:
        store = await filled(bench)
        for number in range(300):
            await bench.append(store, bench.draft(topic="idle", queue_id=number % 2))
        bench.clock.jump_ms(TWO_HOURS_MS)
        await wait(bench, 70)
        assert store.log_min_offset == 0, "not its hour"
        await bench.append(store, bench.draft(b"new"))
        assert await store.delete_expired_log() > 3
        first = store.min_offset("orders", 0)
        assert store.log_min_offset > 0 and first > 0
        assert store.min_offset("idle", 0) == store.max_offset("idle", 0) - len(
            await bench.bodies(store, "idle", 0)
        )
        await bench.check_queues_equal_log(store)
        starts = [int(file.name) for file in bench.disk.list_dir("/store/consumequeue/orders/0")]
        assert 0 < starts[0] <= first * 20 <= starts[0] + 1_000
        got = await store.read("orders", 0, 0, 32, 1 << 20)
        assert (got.status, got.next_offset) == (GetStatus.OFFSET_TOO_SMALL, first)
        assert not (await store.query("orders", "k0", 32, 0, 1 << 60)).records
        await store.close()
        again = bench.store()
        assert (again.min_offset("orders", 0), again.max_offset("orders", 0)) == (first, 601)
        bench.world.kill("broker")
        bench.disk.remove_tree("/store/consumequeue")
        rebuilt = bench.store()
        assert rebuilt.min_offset("orders", 0) == first
        await bench.check_queues_equal_log(rebuilt)

    bench.run(main())


def test_the_deletion_hour_deletes_by_itself(bench: StoreBench) -> None:
    bench.change(file_reserved_hours=1, delete_when_hours=tuple(range(24)))

    async def main() -> None:
        store = await filled(bench)
        bench.clock.jump_ms(TWO_HOURS_MS)
        await wait(bench, 70)
        assert store.log_min_offset > 0

    bench.run(main())


def test_a_read_of_what_was_just_deleted_moves_on(bench: StoreBench) -> None:
    async def main() -> None:
        store = await filled(bench)
        before = store.min_offset("orders", 0)
        # The log is shorter already, the queues do not know it yet.
        store._segments.remove_first()
        got = await store.read("orders", 0, 0, 8, 1 << 20)
        assert got.status is GetStatus.FOUND and got.next_offset > 8
        assert before == store.min_offset("orders", 0) == 0

    bench.run(main())


def test_a_full_disk_refuses_deletes_and_accepts_again(bench: StoreBench) -> None:
    async def main() -> None:
        store = await filled(bench)
        await wait(bench, 2)
        bench.disk.capacity_bytes = bench.disk.usage("/store").used_bytes * 100 // 95
        assert store.log_disk_ratio > 0.9 and store.queue_disk_ratio == store.log_disk_ratio
        await wait(bench, 61)
        assert not store.is_writable and "refused until there is space" in store.refusal
        answer = await bench.append(store, bench.draft())
        assert answer.status is PutStatus.SERVICE_NOT_AVAILABLE and "disk" in answer.reason
        assert store.log_min_offset > 0, "files of any age are deleted"
        await wait(bench, 60)
        assert store.is_writable
        assert (await bench.append(store, bench.draft())).status is PutStatus.PUT_OK

    bench.run(main())


def test_unused_queues_can_be_cleaned(bench: StoreBench) -> None:
    bench.change(file_reserved_hours=1, delete_file_batch_max=100)

    async def main() -> None:
        store = bench.store()
        await bench.append(store, bench.draft(topic="old"))
        await bench.append(store, bench.draft(topic="system"))
        for _ in range(200):
            await bench.append(store, bench.draft())
        bench.clock.jump_ms(TWO_HOURS_MS)
        await wait(bench, 70)
        await store.delete_expired_log()
        assert await store.clean_expired_queues(lambda topic: topic == "system") == 1
        assert store.topics() == ["orders", "system"]
        assert not bench.disk.exists("/store/consumequeue/old/0")
        assert (await bench.append(store, bench.draft(topic="old"))).queue_offset == 0

    bench.run(main())


def test_a_topic_can_hide_its_older_messages(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 3)
        await bench.append(store, bench.draft(b"new"))
        store.hide_until("orders", 0, 3)
        assert await bench.bodies(store) == [b"new"]
        store.hide_until("orders", 0, 0)
        store.hide_until("orders", 7, 5)
        assert store.min_offset("orders", 0) == 3, "what is hidden stays so"
        store.hide_until("orders", 0, 100)
        assert store.min_offset("orders", 0) == store.max_offset("orders", 0) == 4

    bench.run(main())
