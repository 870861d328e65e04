"""What goes wrong in a run: programs die, links fail, disks are full or slow, clocks jump.

Three troublemakers work at the same time, so that faults overlap: one for machines, one for the network,
one for disks and clocks. A seed leaves kinds of faults out, and decides when, where and for how long the
others strike. Each fault ends by itself; `Trouble.end_all` ends what is left when the run's time is up.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Awaitable, Callable

from roquet.sim.checkers import audit
from roquet.sim.cluster import BrokerNode, Cluster, Node

START_AGAIN_S = 2.0
STARTS_MAX = 200

MACHINE = ("kill", "power", "stop")
NETWORK = ("cut", "partition", "one-way", "clog", "isolate", "slow")
DISK = ("slow sync", "full", "refused write", "sync error", "clock", "cold", "table")

# Files that single refusals aim at.
PLACES = ("/commitlog/", "/consumequeue/", "/index/", "/checkpoint", "/config/", "")
HOUR_MS = 3_600_000


class Trouble:
    """The faults of one run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = random.Random(f"{cluster.seed}/faults")
        self._kinds = [kind for kind in (*MACHINE, *NETWORK, *DISK) if self._rng.random() < 0.6]
        self._pace_s = self._rng.choice((1.0, 4.0, 12.0))

    async def machines(self, until: float) -> None:
        """Let programs and machines die and come back."""
        await self._each(MACHINE, until, self._machine)

    async def network(self, until: float) -> None:
        """Cut, hold and slow down what flows."""
        await self._each(NETWORK, until, self._net)

    async def disks(self, until: float) -> None:
        """Let disks refuse and clocks jump."""
        await self._each(DISK, until, self._disk)

    async def _each(
        self, kinds: tuple[str, ...], until: float, strike: Callable[[str], Awaitable[None]]
    ) -> None:
        allowed = [kind for kind in kinds if kind in self._kinds]
        while allowed:
            await self._cluster.sleep(self._rng.random() * 2 * self._pace_s)
            if self._cluster.now() >= until:
                return
            kind = self._rng.choice(allowed)
            self._cluster.note("fault", kind)
            await strike(kind)

    def _hold_s(self) -> float:
        return self._rng.choice((0.01, 0.3, 2.0, 10.0)) * (0.5 + self._rng.random())

    async def _machine(self, kind: str) -> None:
        await self._restart(self._rng.choice(self._cluster.nodes), kind, self._hold_s())

    async def _restart(self, node: Node, kind: str, hold_s: float) -> None:
        if node.is_handled:
            return
        node.is_handled = True
        ended = self._cluster.disturb(node)
        if kind == "stop":
            await self._cluster.stop(node)
        else:
            self._cluster.kill(node, power_cut=kind == "power")
        await self._cluster.sleep(hold_s)
        await bring_up(self._cluster, node)
        ended()
        node.is_handled = False

    async def _net(self, kind: str) -> None:
        net, rng, cluster = self._cluster.world.net, self._rng, self._cluster
        node = rng.choice(cluster.nodes)
        clients = [f"127.0.0.{21 + number}" for number in range(cluster.plan.clients)]
        others = [*clients, *(each.host for each in cluster.nodes if each is not node)]
        other = rng.choice(others)
        hold_s = self._hold_s()
        ended = cluster.disturb(node, *([cluster.hosts[other]] if other in cluster.hosts else []))
        if kind == "cut":
            net.cut(node.host, other)
        elif kind == "partition":
            net.partition(node.host, other)
        elif kind == "one-way":
            net.partition_one_way(*rng.sample((node.host, other), 2))
        elif kind == "clog":
            source, target = rng.sample((node.host, other), 2)
            net.clog(source, target, hold_s)
        elif kind == "slow":
            net.set_delay(node.host, other, 0.05, 0.5)
        else:
            for each in others:
                net.partition(node.host, each)
        await cluster.sleep(hold_s)
        for each in others if kind == "isolate" else (other,):
            net.heal(node.host, each)
        if kind == "slow":
            net.set_delay(node.host, other, *net.delay_s)
        await cluster.sleep(1.0)  # what was held arrives now
        ended()

    async def _disk(self, kind: str) -> None:
        rng, cluster = self._rng, self._cluster
        node = rng.choice(cluster.brokers)
        disk, hold_s = cluster.world.disk(node.host), self._hold_s()
        if kind == "clock":
            delta_ms = rng.choice((-1, 1)) * rng.choice((50, 5_000, HOUR_MS, 100 * HOUR_MS))
            cluster.world.clock(node.host).jump_ms(delta_ms)
            return
        if kind == "cold":
            disk.cold_probability, disk.read_delay_s = rng.random(), 0.02
            await cluster.sleep(hold_s)
            disk.cold_probability = disk.read_delay_s = 0.0
            return
        node.disk_troubles += 1
        if kind == "slow sync":
            disk.sync_delay_s = rng.choice((0.05, 1.5, 7.0))
        elif kind == "full":
            used = disk.usage("/").used_bytes - disk.other_used_bytes
            disk.other_used_bytes = max(disk.capacity_bytes - used - 4096 * rng.randrange(60), 0)
        elif kind == "refused write":
            code = rng.choice((errno.ENOSPC, errno.EIO))
            disk.fail(
                rng.choice(("write", "create", "reserve")), rng.choice(PLACES), code, rng.choice((1, 5))
            )
        elif kind == "table":
            disk.fail(rng.choice(("rename", "write")), "/config/", errno.ENOSPC, rng.choice((1, 3)))
        else:
            disk.fail("sync", rng.choice(PLACES), errno.EIO, 1)
        await cluster.sleep(hold_s)
        mend(cluster, node)
        node.disk_troubles -= 1
        node.disk_trouble_at = cluster.now()
        if kind == "sync error":
            await self._restart(node, rng.choice(MACHINE), 0.0)

    async def end_all(self) -> None:
        """End every fault and bring everybody up."""
        self._cluster.world.net.heal_all()
        for node in self._cluster.nodes:
            mend(self._cluster, node)
            if isinstance(node, BrokerNode) and "restart" in node.broker.store.refusal:
                await self._restart(node, "kill", 0.0)


def mend(cluster: Cluster, node: Node) -> None:
    """Make a disk well again."""
    disk = cluster.world.disk(node.host)
    disk.heal()
    disk.other_used_bytes = 0
    disk.sync_delay_s = disk.cold_probability = disk.read_delay_s = 0.0


async def bring_up(cluster: Cluster, node: Node) -> None:
    """Start a node until its disk lets it, then look at all that it was to keep."""
    before = cluster.now()
    for _ in range(STARTS_MAX):
        if await cluster.start(node):
            break
        await cluster.sleep(START_AGAIN_S)
    else:
        raise AssertionError(f"{node.host} could not be started")
    if isinstance(node, BrokerNode):
        await audit(cluster, node, before)
