"""One seed from beginning to end: a cluster, clients, trouble, and then the checks.

    start everything ─▶ clients and troublemakers for some time ─▶ end all faults ─▶ heals?
        ─▶ audit ─▶ equal to a rebuild from the log? ─▶ stop in order ─▶ start again ─▶ audit

`run_seed` says how it went; it never raises for what a run found.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from roquet.sim import visits
from roquet.sim.checkers import audit, heals, same_as_log
from roquet.sim.cluster import Cluster, first_error, plan_of
from roquet.sim.faults import Trouble, bring_up
from roquet.sim.workload import Client
from roquet.sim.world import World

LIMIT_S = 3_600.0
TAIL_LINES = 40
SETTLE_S = 10.0  # a slow sync that began before the faults ended ends within


class Outcome(NamedTuple):
    """How a run ended; `reason` is empty when nothing was wrong."""

    seed: int
    trace_hash: str
    virtual_s: float
    messages: int
    reason: str
    tail: tuple[str, ...]


class _Mistakes(logging.Handler):
    """Collects what the programs log with a traceback: errors that nobody expected."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("the index cannot be rebuilt"):
            self._cluster.has_index_gap = True
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError):
            self.found.append(f"{record.getMessage()}: {error!r}")


async def _play(cluster: Cluster) -> None:
    for node in cluster.nodes:
        await bring_up(cluster, node)
    clients = [Client(cluster, number) for number in range(cluster.plan.clients)]
    trouble = Trouble(cluster)
    until = cluster.now() + cluster.plan.seconds
    await first_error(
        *(visits.drive(client, until) for client in clients),
        trouble.machines(until),
        trouble.network(until),
        trouble.disks(until),
    )
    await trouble.end_all()
    await heals(cluster, clients[0])
    await cluster.sleep(SETTLE_S)
    for broker in cluster.brokers:
        await audit(cluster, broker, cluster.now())
        await same_as_log(cluster, broker)
    for client in clients:
        client.close()
    for node in cluster.nodes:
        await cluster.stop(node)
    for node in cluster.nodes:
        await bring_up(cluster, node)


def run_seed(seed: int) -> Outcome:
    """Run one seed and say how it went."""
    plan = plan_of(seed)
    world = World(seed)
    cluster = Cluster(world, plan, seed)
    mistakes = _Mistakes(cluster)
    root = logging.getLogger("roquet")
    propagate, root.propagate = root.propagate, False
    root.addHandler(mistakes)
    reason = ""
    try:
        world.run(_play(cluster), LIMIT_S)
        world.close()
        reason = "; ".join(world.failures)
    except (AssertionError, ExceptionGroup, RuntimeError) as error:
        reason = explain(error)
        world.close()
    finally:
        root.removeHandler(mistakes)
        root.propagate = propagate
    messages = sum(len(queue) for broker in cluster.brokers for queue in broker.model.queues.values())
    reason = reason or "; ".join(mistakes.found)
    return Outcome(seed, world.trace_hash(), world.loop.time(), messages, reason, tuple(world.trace.tail))


def explain(error: BaseException) -> str:
    """Return what went wrong and where, of each error of a group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(explain, error.exceptions))
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({frame.tb_frame.f_code.co_qualname}:{frame.tb_lineno})" if frame is not None else ""
    return f"{type(error).__name__}: {error}{where}"
