"""Flush modes: when an append is answered, what waits for a sync, and what a failed sync means."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from roquet.model.status import Appended, PutStatus
from roquet.store.flush import is_no_wait
from roquet.store.settings import FlushMode

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench


async def wait(bench: StoreBench, seconds: float) -> None:
    await bench.clock.sleep_until(bench.clock.monotonic() + seconds)


def test_sync_answers_and_shows_only_what_is_synced(bench: StoreBench) -> None:
    bench.change(flush_mode=FlushMode.SYNC)
    bench.disk.sync_delay_s = 1.0

    async def main() -> None:
        store = bench.store()
        answers: list[Appended] = []
        store.append([bench.draft(b"0")], answers.append)
        await wait(bench, 0.5)
        assert not answers and store.max_offset("orders", 0) == 0
        assert store.log_max_offset > store.flushed_offset == 0 and store.dispatch_behind_bytes > 0
        await wait(bench, 0.6)
        assert [answer.status for answer in answers] == [PutStatus.PUT_OK]
        assert store.max_offset("orders", 0) == 1 and store.flushed_offset == store.log_max_offset

    bench.run(main())


def test_one_sync_covers_everything_written_meanwhile(bench: StoreBench) -> None:
    bench.change(flush_mode=FlushMode.SYNC)
    bench.disk.sync_delay_s = 1.0

    async def main() -> None:
        store = bench.store()
        times: list[float] = []
        for _ in range(5):
            store.append([bench.draft()], lambda _: times.append(bench.clock.monotonic()))
            await wait(bench, 0.1)
        await wait(bench, 5)
        start = times[0] - 1.0
        assert [round(when - start, 1) for when in times] == [1.0, 2.0, 2.0, 2.0, 2.0]

    bench.run(main())


def test_wait_false_is_answered_at_once_and_still_shown_after_the_sync(bench: StoreBench) -> None:
    bench.change(flush_mode=FlushMode.SYNC)
    bench.disk.sync_delay_s = 1.0

    async def main() -> None:
        store = bench.store()
        start = bench.clock.monotonic()
        answer = await bench.append(store, bench.draft(extra=b"WAIT\x01false\x02"))
        assert answer.status is PutStatus.PUT_OK and bench.clock.monotonic() == start
        assert store.max_offset("orders", 0) == 0
        await wait(bench, 1.1)
        assert store.max_offset("orders", 0) == 1

    bench.run(main())


def test_a_slow_sync_answers_with_a_timeout_but_stores(bench: StoreBench) -> None:
    bench.change(flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=300)
    bench.disk.sync_delay_s = 1.0

    async def main() -> None:
        store = bench.store()
        late = asyncio.create_task(bench.append(store, bench.draft(b"0")))
        await wait(bench, 0.2)
        later = asyncio.create_task(bench.append(store, bench.draft(b"1")))
        await wait(bench, 0.2)
        assert (await late).status is PutStatus.FLUSH_DISK_TIMEOUT and not later.done()
        assert (await later).status is PutStatus.FLUSH_DISK_TIMEOUT
        await wait(bench, 3)
        assert await bench.bodies(store) == [b"0", b"1"]

    bench.run(main())


@pytest.mark.parametrize("mode", FlushMode)
def test_a_failed_sync_is_final(bench: StoreBench, mode: FlushMode) -> None:
    bench.change(flush_mode=mode)

    async def main() -> None:
        store = bench.store()
        await store.start()
        first = await bench.append(store, bench.draft(b"0"))
        assert first.status is PutStatus.PUT_OK
        await wait(bench, 20)
        bench.disk.fail("sync", "commitlog", times=1)
        second = await bench.append(store, bench.draft(b"1"))
        await wait(bench, 20)
        # The disk works again, but what it lost cannot be known: nothing is acknowledged any more.
        third = await bench.append(store, bench.draft(b"2"))
        assert third.status is PutStatus.SERVICE_NOT_AVAILABLE and "restart" in third.reason
        expected = PutStatus.PUT_OK if mode is FlushMode.ASYNC else PutStatus.SERVICE_NOT_AVAILABLE
        assert second.status is expected
        assert store.flushed_offset == second.log_offsets[0] if mode is FlushMode.ASYNC else first.size_bytes
        assert (await bench.bodies(store))[0] == b"0"
        await store.close()
        assert bench.disk.exists("/store/abort")

    bench.run(main())


def test_what_is_written_while_a_sync_fails_is_refused_too(bench: StoreBench) -> None:
    bench.change(flush_mode=FlushMode.SYNC)
    bench.disk.sync_delay_s = 1.0

    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 1)
        bench.disk.fail("sync", "commitlog/", times=1)
        first = asyncio.create_task(bench.append(store, bench.draft(b"0")))
        await wait(bench, 0.5)
        second = asyncio.create_task(bench.append(store, bench.draft(b"1")))
        answers = [await first, await second]
        assert {answer.status for answer in answers} == {PutStatus.SERVICE_NOT_AVAILABLE}
        assert store.max_offset("orders", 0) == 1

    bench.run(main())


def test_async_syncs_in_the_background(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await store.start()
        await bench.fill(store, 1)
        await wait(bench, 5)
        assert store.flushed_offset == 0, "too little to be worth a sync"
        await wait(bench, 6)
        assert store.flushed_offset == store.log_max_offset
        for _ in range(3):
            await bench.append(store, bench.draft(b"x" * 8_000))
        assert store.flushed_offset < store.log_max_offset
        await wait(bench, 0.6)
        assert store.flushed_offset == store.log_max_offset

    bench.run(main())


def test_the_mode_can_change_and_order_is_kept(bench: StoreBench) -> None:
    bench.change(flush_mode=FlushMode.SYNC)
    bench.disk.sync_delay_s = 1.0

    async def main() -> None:
        store = bench.store()
        answers: list[int] = []
        store.append([bench.draft(b"0")], lambda answer: answers.append(answer.queue_offset))
        await wait(bench, 0.1)
        store.configure(replace(bench.settings, flush_mode=FlushMode.ASYNC))
        store.append([bench.draft(b"1")], lambda answer: answers.append(answer.queue_offset))
        await wait(bench, 3)
        assert answers == [0, 1] and await bench.bodies(store) == [b"0", b"1"]

    bench.run(main())


def test_the_wait_property_is_found_only_as_a_property() -> None:
    assert is_no_wait(b"WAIT\x01false\x02") and is_no_wait(b"a\x01b\x02WAIT\x01false")
    assert not is_no_wait(b"WAIT\x01true\x02") and not is_no_wait(b"")
    assert not is_no_wait(b"MYWAIT\x01false\x02") and not is_no_wait(b"WAIT\x01falsely\x02")
