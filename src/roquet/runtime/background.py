"""An event loop in a thread of its own, for synchronous code that calls asynchronous one.

    caller's thread ── run(coroutine) ──▶ the loop's thread ──▶ result, or the error, back to the caller

There is one such loop per process (`shared`), begun when it is first needed. A child of `fork` has no
threads but its own: there `shared` begins a new one, and the old one says so instead of hanging. At the end
of the interpreter what still runs is cancelled, for a bounded time. Ctrl-C cancels what the caller waits for.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from roquet.runtime.loop import NewLoop, loop_factory

Result = TypeVar("Result")

STOP_SECONDS_MAX: Final = 2.0
"""How long the end of the interpreter waits for what was left open."""


THREADS_MAX: Final = 64
"""Functions of users that may run, and wait, at the same time; asyncio's own limit counts processors."""


class WrongThread(RuntimeError):
    """The loop's own thread may not wait for the loop."""


class LoopLost(RuntimeError):
    """The loop is not there any more: it was stopped, or it lives in the process that forked this one."""


class Background:
    """A running event loop and its thread."""

    def __init__(self, name: str, new_loop: NewLoop | None = None) -> None:
        self._pid = os.getpid()
        self._loop = (new_loop or loop_factory(os.environ))()
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS_MAX, f"{name}-worker"))
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._stopped = False
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """False once it was stopped, and in a child process always."""
        return not self._stopped and self._pid == os.getpid()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and return its result; blocks the calling thread.

        Raises what the coroutine raises, LoopLost, or WrongThread when called from the loop itself.
        """
        return self._wait(self.start(work))

    def start(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Start a coroutine on the loop and return its future at once."""
        if not self.is_alive:
            work.close()
            where = "stopped" if self._stopped else "left behind in the parent process"
            raise LoopLost(f"the background event loop was {where}")
        if threading.current_thread() is self._thread:
            work.close()
            raise WrongThread("synchronous calls would block the event loop that they run on")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wait(self, future: concurrent.futures.Future[Result]) -> Result:
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C in the waiting thread: the work ends too
            raise

    def stop(self) -> None:
        """Cancel what still runs and end the thread; safe to call again, and in a child process."""
        if not self.is_alive:
            return
        self._stopped = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS_MAX)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_cancel_all())
        finally:
            self._loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_SECONDS_MAX / 2)


_shared: list[Background] = []
_left_behind: list[
    Background
] = []  # of parents: kept, since a loop whose thread is gone must not be collected
_lock = threading.Lock()


def shared() -> Background:
    """Return the loop of this process, beginning it when there is none yet."""
    with _lock:
        if not _shared or not _shared[0].is_alive:
            _shared[:] = [Background("roquet-sync")]
        return _shared[0]


def _stop_shared() -> None:
    for background in _shared:
        background.stop()


def _forked() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held the old one at the moment of the fork
    _left_behind.extend(_shared)
    _shared.clear()


atexit.register(_stop_shared)
os.register_at_fork(after_in_child=_forked)
