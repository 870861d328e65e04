"""A cluster in a simulated world: name servers and brokers as programs that can die and come back.

One seed decides how many there are and how they are set up (`Plan`). Each host keeps a `Node`: which life
its program is in, whether it is up, and when something was last done to it, so that a checker can tell a
request that was disturbed from one that hangs. The programs are the production ones.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from roquet.broker.app import Broker
from roquet.names.app import NameServer
from roquet.ports import Clock
from roquet.runtime.addresses import Addresses
from roquet.runtime.settings import BrokerSettings, Endpoint, NamesSettings
from roquet.sim.attempts import Survives, Wrong
from roquet.sim.model_broker import SAVE_WINDOW_S, ModelBroker
from roquet.sim.world import World
from roquet.store.settings import FlushMode, StoreSettings

ROOT_DIR = "/store"
NAMES_PORT, BROKER_PORT = 9876, 10911
STOP_LIMIT_S = 60.0
DURABLE_AFTER_S = 12.0  # ASYNC flush syncs everything after 10 s, looking every 0.5 s
STEADY_TOPICS = ("orders", "clicks", "audit", "bills", "mails", "jobs")
PASSING_TOPICS = ("passing-0", "passing-1")  # these are deleted and made again
QUEUES = 3


class Plan(NamedTuple):
    """What a seed has chosen."""

    names: int
    brokers: int
    clients: int
    seconds: float
    flush_mode: FlushMode
    store: StoreSettings
    lock_live_ms: int


def plan_of(seed: int) -> Plan:
    """Draw the shape of a run."""
    rng = random.Random(f"{seed}/plan")
    flush_mode = rng.choice((FlushMode.SYNC, FlushMode.ASYNC))
    store = StoreSettings(
        root_dir=ROOT_DIR,
        log_file_size_bytes=rng.choice((32, 64, 256)) * 1024,
        queue_file_size_bytes=20 * rng.choice((8, 50, 400)),
        index_slot_count=rng.choice((7, 100)),
        index_entry_count=rng.choice((40, 400)),
        message_index_safe=rng.random() < 0.3,
        append_property_crc=rng.random() < 0.2,
        flush_mode=flush_mode,
        sync_flush_timeout_ms=rng.choice((1_000, 5_000)),
        queue_flush_thorough_interval_ms=rng.choice((1_000, 5_000, 60_000)),
        message_size_bytes_max=8_192,
        filter_message_size_bytes=rng.choice((400, 16_000)),
        transfer_count_in_memory_max=rng.choice((4, 32)),
        transfer_bytes_in_memory_max=rng.choice((2_000, 256 * 1024)),
        open_queue_files_max=rng.choice((2, 16)),
        clean_first_delay_ms=rng.choice((1_000, 60_000)),
        file_reserved_hours=rng.choice((1, 72)),
        delete_when_hours=tuple(range(24)) if rng.random() < 0.5 else (4,),
    )
    return Plan(
        rng.choice((1, 2)), rng.choice((1, 1, 2)), rng.choice((2, 3, 4)), rng.choice((15.0, 30.0, 60.0)),
        flush_mode, store, rng.choice((5_000, 60_000)),
    )  # fmt: skip


class Node:
    """One host and the program on it."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.life = 0  # goes up at each start and at each end
        self.power_cuts = 0
        self.is_up = False
        self.is_handled = False  # somebody stops or starts it now
        self.task: asyncio.Task[None] | None = None
        self.disturbing = 0  # faults at work now
        self.disturbed_at = -1.0
        self.disk_troubles = 0
        self.disk_trouble_at = -100.0

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class BrokerNode(Node):
    """A host with a broker, and the oracle for it."""

    broker: Broker

    def __init__(self, host: str, name: str, store: StoreSettings) -> None:
        super().__init__(host, BROKER_PORT)
        self.name = name
        sees = Survives.POWER_CUT if store.flush_mode is FlushMode.SYNC else Survives.KILL
        # Recovery checks the body alone, as Apache's does: properties of an unsynced record may tear.
        self.model = ModelBroker(sees, checks_properties=False)

    @property
    def fast_address(self) -> str:
        return f"{self.host}:{self.port - 2}"


class Cluster:
    """All nodes of one run."""

    def __init__(self, world: World, plan: Plan, seed: int) -> None:
        self.world = world
        self.plan = plan
        self.seed = seed
        self.names = [Node(f"127.0.0.{2 + n}", NAMES_PORT) for n in range(plan.names)]
        self.brokers = [
            BrokerNode(f"127.0.0.{11 + n}", f"broker-{'ab'[n]}", plan.store) for n in range(plan.brokers)
        ]
        self.nodes: list[Node] = [*self.names, *self.brokers]
        self.has_index_gap = False  # a full disk kept a start from rebuilding an index, and the log said so
        self.hosts = {node.host: node for node in self.nodes}

    @property
    def clock(self) -> Clock:
        return self.world.clock("127.0.0.1")

    def now(self) -> float:
        return self.world.loop.time()

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep_until(self.now() + seconds)

    def note(self, what: str, *details: object) -> None:
        self.world.trace.note(what, *details)

    # --- who was disturbed when

    def disturb(self, *nodes: Node) -> Callable[[], None]:
        """Note that a fault begins at these nodes; call what is returned at its end."""
        for node in nodes:
            node.disturbing += 1

        def end() -> None:
            for node in nodes:
                node.disturbing -= 1
                node.disturbed_at = self.now()

        return end

    def was_disturbed(self, node: Node, since: float) -> bool:
        return bool(node.disturbing) or not node.is_up or node.disturbed_at >= since

    # --- lives

    async def start(self, node: Node) -> bool:
        """Start the node's program and wait until it serves; False when its disk refused that."""
        self.world.power_on(node.host)
        ended = self.disturb(node)
        ready: asyncio.Future[bool] = self.world.loop.create_future()
        program: Broker | NameServer
        if isinstance(node, BrokerNode):
            program = node.broker = self._make_broker(node)
        else:
            program = self._make_names(node)
        node.life += 1
        self.note("life", node.host, node.life)
        node.task = self.world.start(node.host, _serve(program, ready))
        node.is_up = await ready
        ended()
        if not node.is_up:
            self.note("refused to start", node.host)
            self.world.kill(node.host)
        return node.is_up

    def _make_broker(self, node: BrokerNode) -> Broker:
        settings = BrokerSettings(
            broker_name=node.name,
            namesrv_addresses=tuple(Endpoint(names.host, names.port) for names in self.names),
            default_topic_queue_nums=QUEUES,
            lock_live_ms=self.plan.lock_live_ms,
        )
        addresses = Addresses((node.host,), node.host, node.host, ())
        return Broker(settings, self.plan.store, addresses, self.world.ports(node.host), 4711)

    def _make_names(self, node: Node) -> NameServer:
        settings = NamesSettings(bind_address=node.host, kv_config_path="/kv.json")
        return NameServer(settings, self.world.ports(node.host))

    def kill(self, node: Node, *, power_cut: bool) -> None:
        """Let a program die, with or without its machine."""
        self.note("dies", node.host, power_cut)
        self._died(node, power_cut)
        if power_cut:
            self.world.power_cut(node.host)
        else:
            self.world.kill(node.host)

    async def stop(self, node: Node) -> None:
        """Stop a program in order, as SIGTERM does; it must end in time and leave a clean store."""
        assert node.task is not None
        self.note("stops", node.host)
        began, task = self.now(), node.task
        task.cancel()
        timer = self.world.loop.create_task(self.sleep(STOP_LIMIT_S))
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        if not task.done():
            raise Wrong(f"{node.host} has not stopped within {STOP_LIMIT_S} s")
        if isinstance(node, BrokerNode) and not node.disk_troubles and node.disk_trouble_at < began - 10:
            problem = node.broker.store.refusal.removeprefix("the store is closing")
            if self.world.disk(node.host).exists(f"{ROOT_DIR}/abort"):
                raise Wrong(f"{node.host} was stopped in order and left an unclean store {problem}")
        self._died(node, False)
        self.world.kill(node.host)

    def _died(self, node: Node, power_cut: bool) -> None:
        node.is_up = False
        node.life += 1
        node.power_cuts += power_cut
        node.disturbed_at = now = self.now()
        if not isinstance(node, BrokerNode):
            return
        node.model.expires(node.broker.store.log_min_offset)
        calm = now if not node.disk_troubles else -1.0
        is_durable_known = not node.disk_troubles and node.disk_trouble_at < now - 2 * DURABLE_AFTER_S
        durable_before = now - DURABLE_AFTER_S if is_durable_known else -1.0
        saved_before = calm - SAVE_WINDOW_S if node.disk_trouble_at < now - 2 * SAVE_WINDOW_S else -1.0
        node.model.died(now, power_cut, durable_before, saved_before)


async def _serve(program: Broker | NameServer, ready: asyncio.Future[bool]) -> None:
    try:
        await program.start()
    except OSError:
        ready.set_result(False)
        return
    ready.set_result(True)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await program.close()
        raise


async def first_error(*work: Coroutine[Any, Any, None]) -> None:
    """Run all together; the first that fails ends the others."""
    async with asyncio.TaskGroup() as group:
        for each in work:
            group.create_task(each)
