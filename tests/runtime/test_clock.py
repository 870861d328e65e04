"""The real clock, on both event loops: never early, and cancellable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
import uvloop

from roquet.runtime.clock import RealClock

NewLoop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


@LOOPS
def test_timers_and_sleeps_never_come_early(new_loop: NewLoop) -> None:
    clock = RealClock()

    async def main() -> None:
        late: list[float] = []
        for tenth_ms in range(20):
            when = clock.monotonic() + tenth_ms / 10_000
            await clock.sleep_until(when)
            late.append(clock.monotonic() - when)
            fired = asyncio.Event()
            when = clock.monotonic() + tenth_ms / 10_000
            clock.call_at(when, fired.set)
            await fired.wait()
            late.append(clock.monotonic() - when)
        assert min(late) >= 0

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@LOOPS
def test_a_cancelled_timer_does_not_run_and_a_past_one_runs_at_once(new_loop: NewLoop) -> None:
    clock = RealClock()

    async def main() -> list[str]:
        seen: list[str] = []
        clock.call_at(clock.monotonic() + 0.001, seen.append, "cancelled").cancel()
        clock.call_at(clock.monotonic() - 5, seen.append, "past")
        await clock.sleep_until(clock.monotonic() + 0.005)
        return seen

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == ["past"]


def test_a_cancelled_sleep_leaves_no_timer_behind() -> None:
    clock = RealClock()

    async def main() -> None:
        sleeper = asyncio.ensure_future(clock.sleep_until(clock.monotonic() + 1000))
        await asyncio.sleep(0)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper

    asyncio.run(main())


def test_the_wall_clock_is_the_systems() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= RealClock().now_ms() <= time.time_ns() // 1_000_000
