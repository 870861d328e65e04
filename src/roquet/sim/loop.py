"""An asyncio event loop in virtual time, the same on every run.

It never waits: when nothing is ready it jumps to the next timer. There are no sockets, threads or
signals in it, so when there is no timer either, nothing can ever wake up again: that is a `Deadlock`,
and the error lists who is waiting. `run_in_executor` runs its function at once, in line. Callbacks and
tasks belong to the `Program` in whose context they were made, and are dropped once that is dead: no
`finally` runs and no file is closed, just as when a process is killed.

    ready callbacks? run them · none: jump to the next timer · no timer: Deadlock
                                beyond the limit: OutOfTime · no progress of time: Livelock
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from typing import Any, NoReturn, TypeVar

Result = TypeVar("Result")

ROUNDS_AT_ONE_TIME_MAX = 100_000  # loop iterations without time passing: somebody spins


class Stuck(RuntimeError):
    """The simulation cannot go on; the text lists the tasks that had not ended."""

    def __init__(self, why: str, waiting: list[str]) -> None:
        listing = "\n  ".join(waiting) or "none"
        super().__init__(f"{why}; unfinished tasks:\n  {listing}")
        self.waiting = waiting


class Deadlock(Stuck):
    """Nothing is ready, no timer is set: no task can ever wake up."""


class OutOfTime(Stuck):
    """The next thing to happen lies beyond the limit of virtual time."""


class Livelock(Stuck):
    """Callbacks go on and on while virtual time stands still."""


class Program:
    """A simulated process: whatever was started in its context runs only while it is alive."""

    __slots__ = ("alive", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True

    def call(self, callback: Callable[..., object], *args: object) -> None:
        """Run the callback, unless the program has died since it was scheduled."""
        if self.alive:
            callback(*args)


TEST = Program("test")  # what runs outside of any program: the test itself, the network
PROGRAM: ContextVar[Program] = ContextVar("PROGRAM", default=TEST)


class SimTask(asyncio.Task[Result]):
    """A task whose hash is its number, so that sets of tasks iterate in the same order on every run."""

    def __init__(self, coro: Coroutine[Any, Any, Result], number: int, **options: Any) -> None:
        self._number = number
        self.program = _program(options.get("context"))
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """See the module; `time()` starts at 0 and `limit_s` is where a run ends with OutOfTime."""

    _scheduled: list[asyncio.TimerHandle]  # BaseEventLoop's heap of timers, stable since Python 3.4
    _clock_resolution: float

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._rounds = 0
        self._numbers = itertools.count(1)
        self._selector = self  # BaseEventLoop asks `_selector.select(timeout)` how long to wait
        self._clock_resolution = math.ulp(0.0)
        self.limit_s = float("inf")

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[tuple[object, int]]:
        """Move virtual time on instead of waiting `timeout` seconds (None: for ever)."""
        if timeout == 0:
            self._rounds += 1
            if self._rounds > ROUNDS_AT_ONE_TIME_MAX:
                raise Livelock(f"time stands still at {self._now:.6f} s", self.unfinished())
            return []
        if not self._scheduled:
            raise Deadlock(f"nothing can wake up after {self._now:.6f} s", self.unfinished())
        when = self._scheduled[0].when()
        if when > self.limit_s:
            raise OutOfTime(f"the limit of {self.limit_s:g} s is over", self.unfinished())
        self._now = when
        self._clock_resolution = math.ulp(when)  # timers run at their time and not a nanosecond before
        self._rounds = 0
        return []

    def unfinished(self) -> list[str]:
        """Return a line for each task that has not ended: its name and where it waits."""
        return [_where(task) for task in self.tasks() if task.program.alive]

    def tasks(self) -> list[SimTask[Any]]:
        """Return the tasks that have not ended, those of dead programs too, in the order of their start."""
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)]
        return sorted(tasks, key=hash)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():  # coroutines of the dead end when they are collected: nobody listens any more
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(_program(context).call, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when, _program(context).call, callback, *args, context=context)

    def create_task(  # type: ignore[override]  # typeshed's signature differs between releases
        self,
        coro: Coroutine[Any, Any, Result] | Generator[Any, None, Result],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Result]:
        number = next(self._numbers)
        assert asyncio.iscoroutine(coro)
        return SimTask(coro, number, loop=self, name=name or f"sim-{number}", context=context, **options)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Result], *args: Any
    ) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # it belongs to whoever awaits the future
            future.set_exception(error)
        return future

    def _process_events(self, events: list[tuple[object, int]]) -> None:
        assert not events

    def _write_to_self(self) -> None:
        """Do nothing: this loop never sleeps, so it needs no waking."""

    async def getaddrinfo(self, *args: Any, **options: Any) -> NoReturn:
        _no_real_network()

    async def create_connection(self, *args: Any, **options: Any) -> NoReturn:
        _no_real_network()

    async def create_server(self, *args: Any, **options: Any) -> NoReturn:
        _no_real_network()

    async def create_datagram_endpoint(self, *args: Any, **options: Any) -> NoReturn:
        _no_real_network()


def _program(context: Context | None) -> Program:
    return PROGRAM.get() if context is None else context.get(PROGRAM, TEST)


def _no_real_network() -> NoReturn:
    raise RuntimeError("no real network in the simulation: go through the Net port")


def _where(task: asyncio.Task[Any]) -> str:
    """Return a task's name and the innermost line of it that waits."""
    coro: Any = task.get_coro()
    while (inner := getattr(coro, "cr_await", None)) is not None and hasattr(inner, "cr_frame"):
        coro = inner
    frame = getattr(coro, "cr_frame", None)
    if frame is None:
        return task.get_name()
    return f"{task.get_name()} waits in {frame.f_code.co_qualname}, line {frame.f_lineno}"
