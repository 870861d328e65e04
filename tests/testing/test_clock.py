"""The clock that tests move: order, hops, cancellation, several loops."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from roquet.runtime.background import Background
from roquet.testing import ManualClock

LONG = timedelta(hours=2)


def test_time_passes_by_itself() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        before = clock.monotonic()
        await clock.sleep_until(before + 0.01)
        assert clock.monotonic() >= before + 0.01

    asyncio.run(scenario())


def test_advance_moves_both_times_by_as_much() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        monotonic, wall_ms = clock.monotonic(), clock.now_ms()
        await clock.advance(LONG)
        assert 7_200 <= clock.monotonic() - monotonic < 7_260
        assert 7_200_000 <= clock.now_ms() - wall_ms < 7_260_000

    asyncio.run(scenario())


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        asyncio.run(ManualClock().advance(timedelta(seconds=-1)))


def test_timers_ring_in_order_and_see_the_effects_of_those_before() -> None:
    async def scenario() -> list[str]:
        clock, seen = ManualClock(), []
        now = clock.monotonic()

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep_until(now + seconds)
            seen.append(name)
            if name == "first":
                await clock.sleep_until(clock.monotonic() + 10)
                seen.append("after first")

        tasks = [
            asyncio.create_task(sleeper(name, s)) for name, s in (("third", 90), ("first", 1), ("second", 60))
        ]
        await clock.advance(timedelta(seconds=100))
        assert all(task.done() for task in tasks)
        return seen

    assert asyncio.run(scenario()) == ["first", "after first", "second", "third"]


def test_what_is_not_due_waits_and_comes_earlier_by_as_much() -> None:
    async def scenario() -> None:
        clock, rung = ManualClock(), asyncio.Event()
        clock.call_at(clock.monotonic() + 7_200.01, rung.set)
        await clock.advance(LONG - timedelta(minutes=5))  # far more than real time adds
        assert not rung.is_set()
        await clock.advance(timedelta(minutes=5))
        async with asyncio.timeout(60):
            await rung.wait()

    asyncio.run(scenario())


def test_a_cancelled_timer_never_rings() -> None:
    async def scenario() -> None:
        clock, rung = ManualClock(), asyncio.Event()
        clock.call_at(clock.monotonic() + 1, rung.set).cancel()
        await clock.advance(LONG)
        assert not rung.is_set()

    asyncio.run(scenario())


def test_a_ticker_keeps_its_pace_over_hours_and_costs_no_real_time() -> None:
    async def scenario() -> int:
        clock, ticks = ManualClock(), 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await clock.sleep_until(clock.monotonic() + 30)
                ticks += 1

        ticker = asyncio.create_task(tick())
        await clock.advance(LONG)
        ticker.cancel()
        return ticks

    assert asyncio.run(scenario()) in (239, 240)  # real time passes too


def test_a_busy_loop_does_not_hold_time_up() -> None:
    async def scenario() -> None:
        clock = ManualClock()

        async def spin() -> None:
            while True:
                await asyncio.sleep(0)

        spinner = asyncio.create_task(spin())
        await clock.advance(timedelta(seconds=1))
        spinner.cancel()

    asyncio.run(scenario())


def test_two_loops_share_a_clock() -> None:
    clock = ManualClock(lull_s=0.001)
    other = Background("other", asyncio.new_event_loop)
    try:

        async def sleep_long() -> float:
            await clock.sleep_until(clock.monotonic() + LONG.total_seconds())
            return time.monotonic()

        sleeping = other.start(sleep_long())
        other.run(asyncio.sleep(0))
        asyncio.run(clock.advance(LONG))
        sleeping.result(timeout=60)
    finally:
        other.stop()
