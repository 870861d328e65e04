"""Random mixes of the kinds of messages through crashes and set clocks: one seed from beginning to end.

    senders ─▶ broker: plain, delayed, timed, halves, and delayed and timed halves
    reader ─▶ each message as it comes; those of one topic it hands back, again and again
    producers ─▶ decide, or wait to be asked      holders ─▶ lock queues      trouble ─▶ crashes, clocks
      ─▶ peace ─▶ everything has come out? ─▶ stop in order ─▶ start again ─▶ nothing has changed

`kinds_checkers` says what is wrong. The trial of whole clusters is `trial`, with seeds of its own.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Coroutine
from typing import Any

from roquet.sim.attempts import Wrong
from roquet.sim.cluster import first_error
from roquet.sim.kinds_clients import Client, Holder, Reader, Sender
from roquet.sim.kinds_stand import HOST, Stand, plan_of
from roquet.sim.trial import LIMIT_S, Outcome, explain
from roquet.sim.world import World

PEACE_S_MAX = 400.0  # questions about halves come further and further apart
QUIET_S = 20.0  # enough for a delivery that should not happen
JUMPS_MS = (-60_000, -5_000, -700, 700, 5_000, 60_000)


class _Mistakes(logging.Handler):
    """Collects what the broker logs with a traceback: errors that nobody expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError):
            self.found.append(f"{record.getMessage()}: {error!r}")


async def _trouble(stand: Stand, seed: int, hosts: list[str]) -> None:
    """Let the broker die and its clock jump for the time of the plan."""
    rng = random.Random(f"{seed}/kinds trouble")
    until = stand.now() + stand.plan.seconds
    pace_s = rng.choice((1.0, 3.0, 8.0))
    while True:
        await stand.sleep(rng.random() * 2 * pace_s)
        if stand.now() >= until:
            return
        if not stand.plan.trouble:
            continue
        kind = rng.choice(stand.plan.trouble)
        stand.world.trace.note("fault", kind)
        if kind == "clock":
            stand.jump(rng.choice(JUMPS_MS))
        elif kind == "cut":
            stand.world.net.cut(HOST, rng.choice(hosts))
        else:
            if kind == "stop":
                await stand.stop()
            else:
                stand.kill(power_cut=kind == "power")
            await stand.sleep(rng.choice((0.0, 0.2, 2.0, 8.0)) * rng.random())
            await stand.start()


async def _peace(stand: Stand) -> None:
    """Wait until all is out, and a while for what should not come; then restart and compare."""
    low_ms, high_ms = stand.walls.range(0.0, stand.now())
    stand.jump(high_ms - low_ms)  # whatever waits for a moment of this run has it soon
    until = stand.now() + PEACE_S_MAX
    while missing := stand.diary.missing(await stand.read_all()):
        if stand.now() > until:
            raise Wrong(f"{len(missing)} are lost after {PEACE_S_MAX} s of peace: {missing[0]}")
        await stand.sleep(1.0)
    await stand.sleep(QUIET_S)
    stand.is_over = True
    before = await stand.read_all()
    stand.diary.audit(before, stand.now())
    await stand.stop()
    await stand.start()
    await stand.sleep(QUIET_S)
    after = await stand.read_all()
    stand.diary.audit(after, stand.now())
    if missing := stand.diary.missing(after):
        raise Wrong(f"a restart has lost {len(missing)}: {missing[0]}")


async def _play(stand: Stand, seed: int) -> None:
    await stand.start()
    senders = [Sender(stand, seed, number) for number in range(stand.plan.senders)]
    reader = Reader(stand, seed, 10)
    holders = [Holder(stand, seed, 11 + number) for number in range(2)]
    clients: list[Client] = [*senders, reader, *holders]
    until = stand.now() + stand.plan.seconds

    async def story() -> None:
        await _trouble(stand, seed, [client.host for client in clients])
        await _peace(stand)

    work: list[Coroutine[Any, Any, None]] = [story(), reader.drive(reader.look, 0.25)]
    for sender in senders:
        work += [sender.drive(sender.send, 0.3, until), sender.drive(sender.heartbeat, 2.0)]
    work += [holder.drive(holder.lock, 1.0, until) for holder in holders]
    await first_error(*work)
    for client in clients:
        client.close()


def run_kinds_seed(seed: int) -> Outcome:
    """Run one seed and say how it went; it never raises for what a run found."""
    world = World(seed)
    stand = Stand(world, plan_of(seed))
    mistakes = _Mistakes()
    root = logging.getLogger("roquet")
    propagate, root.propagate = root.propagate, False
    root.addHandler(mistakes)
    reason = ""
    try:
        world.run(_play(stand, seed), LIMIT_S)
        world.close()
        reason = "; ".join(world.failures)
    except (AssertionError, ExceptionGroup, RuntimeError) as error:
        reason = explain(error)
        world.close()
    finally:
        root.removeHandler(mistakes)
        root.propagate = propagate
    reason = reason or "; ".join(mistakes.found)
    messages = len(stand.diary.letters)
    return Outcome(seed, world.trace_hash(), world.loop.time(), messages, reason, tuple(world.trace.tail))
