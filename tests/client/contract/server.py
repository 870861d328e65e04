"""One of the three servers that a contract test runs against, with what a test may ask of it.

    memory    name server and broker in the test's own event loop, on a clock that the test moves
    sockets   `roquet up` as a process of its own
    apache    Apache's own name server and broker, 5.5.0

All three have the SETTINGS here: short delay levels and short check intervals, so that a wait which the
clock cannot skip lasts seconds. A test is a plain function that ends in `server.run(scenario())`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any, Final, TypeVar

from roquet.ports import Ports
from roquet.runtime.real import real_ports
from roquet.testing.clock import ManualClock
from roquet.testing.local import broker
from tests.client.contract.differences import DIFFERENCES

Result = TypeVar("Result")

SETTINGS: Final = {
    "brokerName": "broker-a",
    "messageDelayLevel": "1s 1s 1s 2s 2s 2s 3s 3s 3s 4s 4s 4s 5s 5s 5s 6s 6s 6s",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "traceTopicEnable": "true",
    "timerWheelEnable": "true",
}
"""Keys of broker.conf that all three servers get."""

REAL_WAIT_S_MAX: Final = 15.0
EVENTUALLY_S: Final = 120.0
LOOK_AGAIN_S: Final = 0.02


class Server:
    """The server under test; `kind` says which of the three it is."""

    def __init__(self, kind: str, namesrv: str) -> None:
        self.kind = kind
        self.namesrv = namesrv
        self._ports: Ports | None = None
        self._numbers = itertools.count(1)
        self._run_id = f"{os.getpid():x}-{time.monotonic_ns() & 0xFFFFFF:x}"

    # --- what a test uses

    def run(self, scenario: Coroutine[Any, Any, Result]) -> Result:
        """Run a scenario on an event loop; afterwards no task of the client may be left."""
        return asyncio.run(self._in_memory(scenario) if self.kind == "memory" else self._outside(scenario))

    @property
    def ports(self) -> Ports:
        """What clients take as `ports`; only inside of `run`."""
        assert self._ports is not None, "ports are there while a scenario runs"
        return self._ports

    def fresh(self, name: str) -> str:
        """Return a name for a topic or group that nobody else uses."""
        return f"{name}-{self._run_id}-{next(self._numbers)}"

    def now(self) -> datetime:
        """Return the time as clients and server have it, in UTC."""
        return datetime.fromtimestamp(self.ports.clock.now_ms() / 1000, UTC)

    async def advance(self, by: timedelta) -> None:
        """Let time pass: at once in memory, really elsewhere (so keep it short)."""
        clock = self.ports.clock
        if isinstance(clock, ManualClock):
            await clock.advance(by)
            return
        assert by.total_seconds() <= REAL_WAIT_S_MAX, "the other two servers really wait for this"
        await clock.sleep_until(clock.monotonic() + by.total_seconds())

    async def eventually(
        self, condition: Callable[[], bool | Awaitable[bool]], limit_s: float = EVENTUALLY_S
    ) -> None:
        """Return once the condition holds; fails when it does not within `limit_s` of real time."""
        deadline = time.monotonic() + limit_s
        while True:
            holds = condition()
            if isinstance(holds, Awaitable):
                holds = await holds
            if holds:
                return
            assert time.monotonic() < deadline, f"still not true after {limit_s} s"
            await asyncio.sleep(LOOK_AGAIN_S)

    def differs(self, about: str) -> bool:
        """Say whether this server differs in what DIFFERENCES lists; the test then asserts what it does."""
        return self.kind in DIFFERENCES[about].kinds

    # --- inside

    async def _in_memory(self, scenario: Coroutine[Any, Any, Result]) -> Result:
        try:
            async with broker(settings=SETTINGS) as local:
                self.namesrv, self._ports = local.namesrv, local.ports
                result = await scenario
                _check_nothing_left()
                return result
        finally:
            scenario.close()

    async def _outside(self, scenario: Coroutine[Any, Any, Result]) -> Result:
        self._ports = real_ports()
        result = await scenario
        _check_nothing_left()
        return result


def _check_nothing_left() -> None:
    """Fail when the client has left a task behind: everything of it was closed by now."""
    left = [task for task in asyncio.all_tasks() if _home(task).parent.match("roquet/client")]
    assert not left, f"the client left tasks behind: {left}"


def _home(task: asyncio.Task[Any]) -> PurePath:
    code = getattr(task.get_coro(), "cr_code", None)
    return PurePath("" if code is None else code.co_filename)
