"""A clock that a test moves: real time that passes as ever, plus what `advance` has added.

Sockets, time-outs and polls work as in production, since time never stands still; a delay of two hours is
`await clock.advance(timedelta(hours=2))`. Time moves in hops, from timer to timer, and between two hops the
event loop runs until it has nothing left to do: what is due first has its effects first.

    monotonic = the machine's + ahead        now_ms = the machine's + ahead

A hop is at least a hundredth of the way and at most HOP_SECONDS_MAX (longer only where no timer lies): a
ticker of one second ticks once in a hop, so two hours are some hundred ticks and not thousands. Within a hop
timers still ring in their order, a second's worth at a time. Several event loops, in threads of their own,
may share a clock; each runs its own timers.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from roquet.ports import Timer

HOP_SECONDS_MAX: Final = 30.0
"""Half of the shortest silence after which a peer is given up: 60 s, for locks."""

TOGETHER_SECONDS: Final = 1.0
"""Timers of one hop that ring together; what they set off ends before later ones ring."""

HOPS: Final = 100
"""Into how many hops a short way is cut at most, unless timers lie wider apart."""

ROUNDS_MAX: Final = 200
"""Turns of the event loop between two hops: a test that never stops sending must not hold up time."""

BLIND_ROUNDS: Final = 30
"""Turns on a loop that does not tell whether it is idle (uvloop)."""

IDLE_ROUNDS: Final = 3
"""Idle turns that count as silence on sockets: each of them looks at the sockets once more."""

LULL_EVERY: Final = 4
"""Hops between two real pauses, where peers live in other threads or processes."""


class ManualTimer:
    """A callback that waits for its time; see `roquet.ports.Timer`."""

    __slots__ = ("_args", "_callback", "_clock", "_context", "_handle", "_loop", "number", "when")

    def __init__(
        self,
        clock: ManualClock,
        loop: asyncio.AbstractEventLoop,
        place: tuple[float, int],
        callback: Callable[..., object],
        args: tuple[object, ...],
    ) -> None:
        self._clock = clock
        self._loop = loop
        self.when, self.number = place
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context()
        self._handle: asyncio.TimerHandle | None = None
        self.arm()

    def arm(self) -> None:
        """Set the loop's own timer to the time that is left."""
        if self._handle is not None:
            self._handle.cancel()
        # Rounded up to whole milliseconds, as uvloop counts them: late by a little, never early.
        left_ms = math.ceil((self.when - self._clock.monotonic()) * 1000)
        self._handle = self._loop.call_later(max(left_ms, 0) / 1000, self._real_time_came)

    def _real_time_came(self) -> None:
        if self._clock.monotonic() < self.when:
            self.arm()
        else:
            self.ring()

    def ring(self) -> None:
        """Run the callback in the loop's next turn."""
        self.cancel()
        self._loop.call_soon(self._callback, *self._args, context=self._context)

    def cancel(self) -> None:
        self._clock.forget(self._loop, self)
        if self._handle is not None:
            self._handle.cancel()


class ManualClock:
    """See the module, and `roquet.ports.Clock`. `lull_s` is how long silence must last on real sockets."""

    def __init__(self, lull_s: float = 0.0) -> None:
        self._ahead_s = 0.0
        self._lull_s = lull_s
        self._numbers = itertools.count()
        self._waiting: dict[asyncio.AbstractEventLoop, set[ManualTimer]] = {}

    # --- the port

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + round(self._ahead_s * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead_s

    async def sleep_until(self, when: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_at(when, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> Timer:
        loop = asyncio.get_running_loop()
        timer = ManualTimer(self, loop, (when, next(self._numbers)), callback, args)
        self._waiting.setdefault(loop, set()).add(timer)
        return timer

    # --- what tests do

    def now(self) -> datetime:
        """Return the time as this clock has it."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    async def advance(self, by: timedelta) -> None:
        """Let so much time pass; returns when everything that it set off on this loop has happened."""
        way_s = by.total_seconds()
        if way_s < 0:
            raise ValueError(f"time does not go back: advance({by!r})")
        hop_s_min = min(way_s / HOPS, HOP_SECONDS_MAX)
        goal_s = self._ahead_s + way_s
        await self.settle()
        for number in itertools.count(1):
            await self._hop(min(goal_s, self._ahead_s + max(hop_s_min, self._until_next_s())))
            if self._ahead_s >= goal_s:
                break
            if number % LULL_EVERY == 0:
                await self.settle()
        self._everywhere(self._ring_due)
        self._everywhere(self._arm_all)
        await self.settle()

    async def _hop(self, ahead_s: float) -> None:
        """Move to `ahead_s` and ring what waits now; what is set on the way waits for the next hop."""
        here = self._waiting.get(asyncio.get_running_loop(), set())
        end = time.monotonic() + ahead_s
        due = sorted((timer for timer in here if timer.when <= end), key=_place)
        for _, together in itertools.groupby(due, lambda timer: timer.when // TOGETHER_SECONDS):
            group = list(together)
            self._ahead_s = min(ahead_s, max(self._ahead_s, group[-1].when - time.monotonic()))
            for timer in group:
                if timer in here:
                    timer.ring()
            await self._quiet()
        self._ahead_s = ahead_s
        self._everywhere(self._ring_due, is_here_too=False)

    async def settle(self) -> None:
        """Return once this event loop, and on real sockets for a moment the peers too, are silent."""
        await self._quiet()
        if self._lull_s:
            await asyncio.sleep(self._lull_s)
            await self._quiet()

    async def _quiet(self) -> None:
        """Return once this event loop has nothing to do but wait."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)  # a deque, stable since Python 3.4
        idle, enough = 0, IDLE_ROUNDS if self._lull_s else 1
        for turn in range(ROUNDS_MAX):
            await asyncio.sleep(0)
            is_busy = turn < BLIND_ROUNDS if ready is None else bool(ready)
            idle = 0 if is_busy else idle + 1
            if idle == enough:
                return

    # --- inside

    def forget(self, loop: asyncio.AbstractEventLoop, timer: ManualTimer) -> None:
        """Take a timer off the list; called by the timer."""
        waiting = self._waiting.get(loop)
        if waiting is not None:
            waiting.discard(timer)

    def _until_next_s(self) -> float:
        waiting = self._waiting.get(asyncio.get_running_loop())
        return min((timer.when for timer in waiting), default=math.inf) - self.monotonic() if waiting else 0.0

    def _everywhere(
        self, act: Callable[[asyncio.AbstractEventLoop], None], *, is_here_too: bool = True
    ) -> None:
        """Act on the timers of every loop, in its own thread; a loop that was closed is forgotten."""
        here = asyncio.get_running_loop()
        for loop in list(self._waiting):
            if loop is here:
                if is_here_too:
                    act(loop)
            elif loop.is_closed():
                del self._waiting[loop]
            else:
                loop.call_soon_threadsafe(act, loop)

    def _ring_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now = self.monotonic()
        due = [timer for timer in self._waiting.get(loop, ()) if timer.when <= now]
        for timer in sorted(due, key=_place):
            timer.ring()

    def _arm_all(self, loop: asyncio.AbstractEventLoop) -> None:
        for timer in tuple(self._waiting.get(loop, ())):
            timer.arm()


def _place(timer: ManualTimer) -> tuple[float, int]:
    return timer.when, timer.number


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
