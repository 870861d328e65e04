"""Crashes at any moment: what was acknowledged is there, and the queues equal the log."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.model.status import Appended, GetStatus, PutStatus
from roquet.sim.disk import PowerCut
from roquet.store.format import record
from roquet.store.settings import FlushMode
from roquet.store.store import Store

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench

TOPICS = (("orders", 0), ("orders", 1), ("bills", 0))


class Ledger:
    """What the store has acknowledged: where, and which body."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int, int], tuple[int, bytes]] = {}
        self.count = 0

    def on_answer(self, topic: str, queue_id: int, body: bytes, answer: Appended) -> None:
        if answer.status is PutStatus.PUT_OK:
            self.kept[topic, queue_id, answer.queue_offset] = (answer.log_offsets[0], body)
            self.count += 1

    async def check(self, bench: StoreBench, store: Store) -> None:
        """Find every acknowledged message at its queue offset, whole."""
        for (topic, queue_id, queue_offset), (log_offset, body) in self.kept.items():
            got = await store.read(topic, queue_id, queue_offset, 1, 1 << 20)
            assert got.status is GetStatus.FOUND, (topic, queue_id, queue_offset, got)
            opened = record.decode(got.records[0])
            assert (opened.body, opened.log_offset) == (body, log_offset)
        await bench.check_queues_equal_log(store)


async def work(bench: StoreBench, rng: random.Random, ledger: Ledger) -> None:
    """Append messages of many sizes, in bursts, for ever."""
    store = bench.store()
    await store.start()
    number = 0
    while True:
        for _ in range(rng.randrange(1, 8)):
            topic, queue_id = rng.choice(TOPICS)
            # Equal sizes are the dangerous case: stale records then lie exactly where new ones end.
            size = rng.choice((10, 10, 10, 700, 5_000))
            body = b"%d-%d-" % (ledger.count, number) + bytes(size)
            number += 1

            def done(
                answer: Appended, topic: str = topic, queue_id: int = queue_id, body: bytes = body
            ) -> None:
                ledger.on_answer(topic, queue_id, body, answer)

            store.append([bench.draft(body, topic, queue_id, key=f"k{number}")], done)
        await bench.clock.sleep_until(bench.clock.monotonic() + rng.choice((0.0, 0.001, 0.02, 0.9)))


def crash_and_check(bench: StoreBench, ledger: Ledger, rounds: int, cut_power: bool, promised: bool) -> None:
    rng = bench.world.rng
    for _ in range(rounds):
        bench.world.power_on("broker")
        bench.world.start("broker", work(bench, rng, ledger))
        life_s = rng.choice((0.0005, 0.01, 0.3, 3.0, 70.0))
        bench.run(bench.clock.sleep_until(bench.clock.monotonic() + life_s))
        if cut_power:
            bench.world.power_cut("broker")
        else:
            bench.world.kill("broker")
        store = bench.store()
        if not promised:
            ledger.kept.clear()
        bench.run(ledger.check(bench, store))
        bench.world.kill("broker")


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 32))
def test_sync_flush_survives_power_cuts(bench_type: type[StoreBench], seed: int) -> None:
    bench = bench_type(seed)
    bench.change(flush_mode=FlushMode.SYNC)
    bench.disk.sync_delay_s = 0.004
    crash_and_check(bench, Ledger(), 3, cut_power=True, promised=True)


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32), mode=st.sampled_from(FlushMode))
def test_both_modes_survive_a_killed_process(
    bench_type: type[StoreBench], seed: int, mode: FlushMode
) -> None:
    bench = bench_type(seed)
    bench.change(flush_mode=mode)
    bench.disk.sync_delay_s = 0.004
    crash_and_check(bench, Ledger(), 3, cut_power=False, promised=True)


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 32))
def test_async_flush_is_consistent_after_power_cuts(bench_type: type[StoreBench], seed: int) -> None:
    bench = bench_type(seed)
    crash_and_check(bench, Ledger(), 3, cut_power=True, promised=False)


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 32), cut=st.integers(0, 60))
def test_a_power_cut_during_recovery_changes_nothing(
    bench_type: type[StoreBench], seed: int, cut: int
) -> None:
    bench = bench_type(seed)
    bench.change(flush_mode=FlushMode.SYNC)
    ledger = Ledger()
    rng = bench.world.rng
    bench.world.start("broker", work(bench, rng, ledger))
    bench.run(bench.clock.sleep_until(bench.clock.monotonic() + rng.choice((0.05, 2.0))))
    bench.world.power_cut("broker")
    for _ in range(2):
        bench.disk.cut_at(cut)
        with contextlib.suppress(PowerCut):
            bench.store()
        bench.disk.crash()
    bench.run(ledger.check(bench, bench.store()))


def test_the_checkers_can_fail(bench: StoreBench) -> None:
    ledger = Ledger()

    async def main() -> None:
        store = bench.store()
        answer = await bench.append(store, bench.draft(b"a"))
        ledger.on_answer("orders", 0, b"b", answer)
        with pytest.raises(AssertionError):
            await ledger.check(bench, store)

    bench.run(main())
