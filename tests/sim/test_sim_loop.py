"""The virtual-time event loop: it jumps, it never waits, and it says who is stuck."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from roquet.sim.loop import PROGRAM, Deadlock, Livelock, OutOfTime, Program, SimLoop


def run(main: Coroutine[Any, Any, Any], limit_s: float = 1e9) -> Any:
    loop = SimLoop()
    loop.limit_s = limit_s
    try:
        return loop.run_until_complete(main)
    finally:
        for task in loop.tasks():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()


def test_sleeping_a_year_takes_no_time_and_wakes_at_the_exact_moment() -> None:
    async def main() -> float:
        await asyncio.sleep(365 * 86_400)
        return asyncio.get_running_loop().time()

    assert run(main()) == 365 * 86_400


def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    async def main() -> None:
        await asyncio.gather(*(sleeper(seconds) for seconds in (3, 0.5, 2, 0.25)))

    run(main())
    assert woken == [0.25, 0.5, 2, 3]


def test_a_timeout_fires_in_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main()) == 7


def test_deadlock_names_the_tasks_and_where_they_wait() -> None:
    async def waits_for_nobody() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(waits_for_nobody(), name="the lonely one")

    with pytest.raises(Deadlock) as caught:
        run(main())
    assert any(line.startswith("the lonely one waits in Event.wait") for line in caught.value.waiting)
    assert len(caught.value.waiting) == 2
    assert "the lonely one" in str(caught.value)


def test_a_run_beyond_its_limit_ends() -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(OutOfTime, match="limit of 60 s"):
        run(main(), limit_s=60)


def test_spinning_without_time_passing_ends() -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        run(main())


def test_executor_work_runs_in_line_and_its_errors_reach_the_caller() -> None:
    async def main() -> int:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(lambda: 42)

    assert run(main()) == 42


def test_there_is_no_real_network() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="Net port"):
            await asyncio.open_connection("127.0.0.1", 9)

    run(main())


def test_a_dead_program_runs_neither_its_tasks_nor_their_finally() -> None:
    seen: list[str] = []
    kept: list[asyncio.Task[None]] = []

    async def victim() -> None:
        try:
            seen.append("started")
            await asyncio.sleep(5)
            seen.append("woke")
        finally:
            seen.append("cleaned up")

    async def main() -> list[str]:
        program = Program("victim")

        def start() -> None:
            PROGRAM.set(program)
            kept.append(asyncio.get_running_loop().create_task(victim()))

        import contextvars

        contextvars.copy_context().run(start)
        await asyncio.sleep(1)
        program.alive = False
        kept[0].cancel()
        await asyncio.sleep(10)
        return list(seen)

    assert run(main()) == ["started"]


SETS_OF_TASKS = """
import asyncio
from roquet.sim.loop import SimLoop

async def nothing():
    await asyncio.sleep(1)

async def main():
    pad = [object() for _ in range(hash("x") % 999)]
    tasks = {asyncio.create_task(nothing()) for _ in range(50)}
    print([task.get_name() for task in tasks], [task.get_name() for task in asyncio.all_tasks()])
    await asyncio.gather(*tasks)

SimLoop().run_until_complete(main())
"""


def test_sets_of_tasks_iterate_alike_in_every_process() -> None:
    def once(hash_seed: str) -> str:
        env = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", SETS_OF_TASKS], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert once("1") == once("2") != ""
