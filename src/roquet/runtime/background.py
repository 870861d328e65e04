"""An event loop in a thread of its own, for synchronous code that calls asynchronous one.

    caller's thread ── run(coroutine) ──▶ waiting line ──▶ the loop's thread ──▶ result, or the error, back

Callers that come while the loop is busy wake it once, and each waits at a lock of its own: futures that
two threads share cost several times as much.

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
from collections import deque
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


class _Errand:
    """A coroutine on its way through the loop, and the caller that waits for it."""

    __slots__ = ("_done", "_error", "_result", "_task", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._done = threading.Lock()
        self._done.acquire()
        self._result: Any = None
        self._error: BaseException | None = None
        self._task: asyncio.Task[Any] | None = None

    def wait(self) -> None:
        """Wait for the end, in the caller's thread."""
        self._done.acquire()

    def outcome(self) -> Any:
        """Return the result, or raise the error."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # the error knows this frame, and this frame should not know the error
        return self._result

    # --- on the loop

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self._work)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # it has not even come into the line
            self._work.close()

    def give_up(self) -> None:
        """Tell the caller that the loop has ended before it could begin."""
        self._work.close()
        self._error = LoopLost("the background event loop was stopped")
        self._done.release()

    def _end(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self._error = concurrent.futures.CancelledError()
        else:
            self._error = task.exception()
            if self._error is None:
                self._result = task.result()
        self._done.release()


class Background:
    """A running event loop and its thread."""

    def __init__(self, name: str, new_loop: NewLoop | None = None) -> None:
        self._pid = os.getpid()
        self._loop = (new_loop or loop_factory(os.environ))()
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS_MAX, f"{name}-worker"))
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._stopped = False
        self._line: deque[_Errand] = deque()
        self._is_woken = False
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """False once it was stopped, and in a child process always."""
        return not self._stopped and self._pid == os.getpid()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and return its result; blocks the calling thread.

        Raises what the coroutine raises, LoopLost, or WrongThread when called from the loop itself.
        """
        self._check(work)
        errand = _Errand(work)
        try:
            self._line.append(errand)
            # The loop says "not woken" before it looks at the line, so nobody in it is overlooked.
            if not self._is_woken:
                self._is_woken = True
                self._loop.call_soon_threadsafe(self._begin)
            errand.wait()
        except BaseException:  # Ctrl-C in the calling thread, maybe before the loop was woken: the work ends
            self._loop.call_soon_threadsafe(self._abandon, errand)
            raise
        result: Result = errand.outcome()
        return result

    def start(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Start a coroutine on the loop and return its future at once."""
        self._check(work)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _check(self, work: Coroutine[Any, Any, Result]) -> None:
        """Raise LoopLost or WrongThread, and drop the work, where the loop cannot be waited for."""
        if not self.is_alive:
            work.close()
            where = "stopped" if self._stopped else "left behind in the parent process"
            raise LoopLost(f"the background event loop was {where}")
        if threading.current_thread() is self._thread:
            work.close()
            raise WrongThread("synchronous calls would block the event loop that they run on")

    def _begin(self) -> None:
        """Begin what waits in the line; on the loop."""
        self._is_woken = False
        while self._line:
            self._line.popleft().begin(self._loop)

    def _abandon(self, errand: _Errand) -> None:
        """End one errand, wherever it is; on the loop."""
        self._begin()
        errand.cancel()

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
            while self._line:
                self._line.popleft().give_up()


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
