"""One simulated world: hosts with clocks and disks, a network between them, all from one seed.

    with World(seed) as world:
        world.start("broker-a", broker(world.ports("broker-a")))
        world.run(client(world.ports("client")), limit_s=60)
        world.power_cut("broker-a")           # unsynced writes are lost, peers are left half-open
        world.power_on("broker-a")
        print(world.trace_hash())             # equal for equal seeds

Each part draws from a random stream of its own, so that one more draw in the network does not change
what the disks do. Tests read `rng` for their own choices.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import random
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from roquet.ports import Ports
from roquet.sim.clock import SimClock
from roquet.sim.disk import SimDisk
from roquet.sim.loop import PROGRAM, Program, SimLoop, Stuck
from roquet.sim.net import Network
from roquet.sim.trace import Trace

Result = TypeVar("Result")

LIMIT_S = 3_600.0  # virtual time that a run may take unless told otherwise
CLOSE_LIMIT_S = 60.0


class Machine(NamedTuple):
    """What a host keeps over the life of its programs."""

    clock: SimClock
    disk: SimDisk
    rng: random.Random
    programs: list[tuple[Program, asyncio.Task[Any]]]


class Broken(AssertionError):
    """Errors that nobody handled: of programs, callbacks and tasks."""


class World:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = self._stream("workload")
        self.loop = SimLoop()
        self.trace = Trace(self.loop.time)
        self.net = Network(self.loop, self._stream("net"), self.trace)
        self.failures: list[str] = []
        self._machines: dict[str, Machine] = {}
        self._graveyard: list[asyncio.Task[Any]] = []
        self.loop.set_exception_handler(self._on_failure)

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- hosts

    def ports(self, host: str) -> Ports:
        """Return the four ports of a host; its disk and clock stay the same over crashes."""
        machine = self._machine(host)
        return Ports(machine.clock, machine.rng, machine.disk, self.net.door(host))

    def clock(self, host: str) -> SimClock:
        """Return a host's clock, to make it jump."""
        return self._machine(host).clock

    def disk(self, host: str) -> SimDisk:
        """Return a host's disk, to make it fail."""
        return self._machine(host).disk

    # --- programs

    def start(self, host: str, main: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Start a program on a host, until `kill` or `power_cut`; an error that ends it fails the run."""
        program = Program(host)
        context = contextvars.copy_context()
        context.run(PROGRAM.set, program)
        task: asyncio.Task[Result] = self.loop.create_task(main, name=f"{host} main", context=context)
        task.add_done_callback(self._on_end, context=contextvars.Context())
        self._machine(host).programs.append((program, task))
        self.trace.note("start", host)
        return task

    def kill(self, host: str) -> None:
        """Kill the host's programs (SIGKILL): what they wrote stays, peers are told by the system."""
        self._bury(host)
        self.net.kill(host)
        self._machine(host).disk.kill()

    def power_cut(self, host: str) -> None:
        """Take the power away: unsynced writes are lost as the disk chooses, peers notice nothing."""
        self._bury(host)
        self.net.power_off(host)
        self._machine(host).disk.crash()

    def power_on(self, host: str) -> None:
        """Give the power back; start programs anew with `start`."""
        self.net.power_on(host)

    # --- running

    def run(self, main: Coroutine[Any, Any, Result], limit_s: float = LIMIT_S) -> Result:
        """Run the test's own coroutine to its end and return its result.

        Raises Deadlock, OutOfTime or Livelock when it cannot end within `limit_s` of virtual time, and
        Broken when anything failed that nobody handled. Programs go on living between runs.
        """
        self.loop.limit_s = self.loop.time() + limit_s
        result = self.loop.run_until_complete(self.loop.create_task(main, name="test"))
        if self.failures:
            raise Broken(f"seed {self.seed}: " + "\n".join(self.failures))
        return result

    def trace_hash(self) -> str:
        """Return the hash of all that has happened; equal for two runs with one seed."""
        return self.trace.hexdigest()

    def close(self) -> None:
        """Cancel what is still alive and close the loop."""
        if self.loop.is_closed():
            return
        living = [task for task in self.loop.tasks() if task.program.alive]
        for task in living:
            task.cancel()
        self.loop.limit_s = self.loop.time() + CLOSE_LIMIT_S
        try:
            self.loop.run_until_complete(_all_ended(living))
        except Stuck as stuck:
            self.failures.append(f"does not end when cancelled: {stuck}")
        for task in self.loop.tasks():
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # dead on purpose
        self.loop.close()

    # --- inside

    def _stream(self, name: str) -> random.Random:
        # Seeding from text goes through SHA-512: the same everywhere, whatever PYTHONHASHSEED says.
        return random.Random(f"{self.seed}/{name}")

    def _machine(self, host: str) -> Machine:
        machine = self._machines.get(host)
        if machine is None:
            self.net.add_host(host)
            clock = SimClock(self.loop)
            disk = SimDisk(self._stream(f"disk/{host}"), clock)
            machine = self._machines[host] = Machine(clock, disk, self._stream(f"host/{host}"), [])
        return machine

    def _bury(self, host: str) -> None:
        programs = self._machine(host).programs
        for program, _ in programs:
            program.alive = False
        programs.clear()
        # Collected coroutines would run their `finally`; the dead must not, so they are kept.
        self._graveyard = [task for task in self.loop.tasks() if not task.program.alive]
        for task in self._graveyard:
            _forget_beginning(task)

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(f"{task.get_name()} ended with {error!r}")

    def _on_failure(self, loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        self.failures.append(f"{details['message']}: {details.get('exception')!r}")


def _forget_beginning(task: asyncio.Task[Any]) -> None:
    """Close a dead task that has not made its first step: Python would ask why it was never awaited."""
    coroutine = task.get_coro()
    if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()  # nothing of it has run, so nothing of it runs now


async def _all_ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


class Outcome(NamedTuple):
    """How a simulated run ended."""

    result: object
    trace_hash: str
    virtual_s: float


def simulate(
    seed: int, main: Callable[[World], Coroutine[Any, Any, object]], limit_s: float = LIMIT_S
) -> Outcome:
    """Run `main(world)` in a fresh world and say how it ended, with the hash of its trace."""
    with World(seed) as world:
        result = world.run(main(world), limit_s)
        return Outcome(result, world.trace_hash(), world.loop.time())
