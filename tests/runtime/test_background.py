"""The background loop: results, errors, threads, forks, Ctrl-C and the end of the interpreter."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from roquet.runtime.background import Background, LoopLost, WrongThread, shared
from tests.ctrl_c import pressed

END_S = 120.0


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background("test")
    yield made
    made.stop()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise KeyError("on purpose")


def test_results_and_errors_come_back(background: Background) -> None:
    assert background.run(double(21)) == 42
    with pytest.raises(KeyError, match="on purpose"):
        background.run(fail())


def test_many_threads_may_call_at_once(background: Background) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda n: background.run(double(n)), range(500))) == [2 * n for n in range(500)]


def test_the_loop_does_not_wait_for_itself(background: Background) -> None:
    async def inside() -> None:
        background.run(double(1))

    with pytest.raises(WrongThread):
        background.run(inside())


def test_a_stopped_loop_says_so_and_has_cancelled_what_ran(background: Background) -> None:
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    background.start(forever())
    background.run(double(1))
    background.stop()
    assert ended.is_set()
    with pytest.raises(LoopLost, match="stopped"):
        background.run(double(1))
    background.stop()


def test_ctrl_c_ends_what_the_caller_waits_for(background: Background) -> None:
    began, cancelled = threading.Event(), threading.Event()

    async def forever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pressed(began), pytest.raises(KeyboardInterrupt):
        background.run(forever())
    assert cancelled.wait(END_S)


def test_a_child_of_fork_gets_a_loop_of_its_own() -> None:
    before = shared()
    assert before.run(double(1)) == 2
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"wrong"
        try:
            try:
                before.run(double(1))
            except LoopLost:
                told = b"right" if shared() is not before and shared().run(double(4)) == 8 else b"no new loop"
        finally:
            os.write(writing, told)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        assert answer.read() == b"right"
    os.waitpid(child, 0)
    assert shared() is before


def test_the_end_of_the_interpreter_does_not_hang() -> None:
    script = """
import asyncio
from roquet.runtime.background import shared
async def forever():
    await asyncio.Event().wait()
shared().start(forever())
print("end")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=END_S)
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)


def test_whoever_waits_when_the_loop_is_stopped_is_told(background: Background) -> None:
    held, let_go = threading.Event(), threading.Event()

    async def hold() -> None:
        held.set()
        let_go.wait(END_S)

    async def forever() -> int:
        await asyncio.Event().wait()
        return 0

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(background.run, forever()) for _ in range(2)]
        background.start(hold())
        held.wait(END_S)
        waiting += [pool.submit(background.run, double(1)) for _ in range(2)]
        stopping = threading.Thread(target=background.stop)
        stopping.start()
        let_go.set()
        stopping.join(END_S)
        for each in waiting:
            # Work that was begun in time may also have ended; nobody waits for ever.
            assert isinstance(each.exception(END_S), CancelledError | LoopLost) or each.result() == 2
