"""The stand of a trial of kinds: one broker that dies and comes back, its wall clock, and the oracle.

A seed decides the `Plan`; the broker is the production one, without name servers. What clients do is in
`kinds_clients`, what goes wrong and in which order in `kinds`.
"""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

from roquet.broker.app import Broker
from roquet.model.message import parse_properties
from roquet.runtime.addresses import Addresses
from roquet.runtime.settings import BrokerSettings
from roquet.sim.attempts import Survives, Wrong
from roquet.sim.kinds_checkers import DEAD, HARD, MIXED, RETRY, Diary, Seen, Walls
from roquet.sim.model_broker import ModelBroker
from roquet.sim.world import World
from roquet.store.format import record
from roquet.store.settings import FlushMode, StoreSettings

HOST, NAME, ADDRESS = "127.0.0.11", "broker-a", "127.0.0.11:10911"
QUEUES = {MIXED: 2, HARD: 1, RETRY: 1, DEAD: 1}
LEVELS_MS = (300, 1_000, 1_500, 2_000, 2_500, 4_000)
TIMES_MAX = 2
LOCK_LIVE_MS = 3_000
STOP_S_MAX = 60.0


class Plan(NamedTuple):
    """What a seed has chosen."""

    flush_mode: FlushMode
    trouble: tuple[str, ...]
    senders: int
    seconds: float
    store: StoreSettings


def plan_of(seed: int) -> Plan:
    """Draw the shape of a run; even seeds flush SYNC, odd ones ASYNC."""
    rng = random.Random(f"{seed}/kinds plan")
    flush_mode = FlushMode.ASYNC if seed % 2 else FlushMode.SYNC
    trouble = tuple(kind for kind in ("kill", "power", "stop", "clock", "cut") if rng.random() < 0.6)
    store = StoreSettings(
        root_dir="/store",
        log_file_size_bytes=rng.choice((64, 256)) * 1024,
        queue_file_size_bytes=20 * rng.choice((8, 50, 400)),
        index_slot_count=100,
        index_entry_count=400,
        append_property_crc=rng.random() < 0.2,
        flush_mode=flush_mode,
        delay_levels_ms=LEVELS_MS,
        timer_log_file_size_bytes=rng.choice((2_000, 100_000)),
        timer_roll_window_slots=rng.choice((3, 20, 2 * 86_400)),
    )
    return Plan(flush_mode, trouble, rng.choice((1, 2, 4)), rng.choice((15.0, 25.0, 40.0)), store)


class Stand:
    """A broker that dies and comes back, its clock, and the oracle."""

    broker: Broker
    task: asyncio.Task[None]

    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.walls = Walls()
        self.diary = Diary(self.walls, LEVELS_MS, TIMES_MAX, is_sync=plan.flush_mode is FlushMode.SYNC)
        self.locks = ModelBroker(Survives.KILL)
        self.life = 0
        self.is_over = False

    def now(self) -> float:
        return self.world.loop.time()

    async def sleep(self, seconds: float) -> None:
        await self.world.clock("127.0.0.1").sleep_until(self.now() + seconds)

    async def start(self) -> None:
        """Start the broker and look at all that it holds."""
        self.world.power_on(HOST)
        settings = BrokerSettings(
            broker_name=NAME,
            default_topic_queue_nums=max(QUEUES.values()),
            lock_live_ms=LOCK_LIVE_MS,
            transaction_timeout_ms=1_500,
            transaction_check_interval_ms=2_000,
        )
        addresses = Addresses((HOST,), HOST, HOST, ())
        self.broker = Broker(settings, self.plan.store, addresses, self.world.ports(HOST), 4711)
        ready = asyncio.Event()
        self.life += 1
        self.task = self.world.start(HOST, _serve(self.broker, ready))
        await ready.wait()
        self.diary.audit(await self.read_all(), self.now())

    def kill(self, *, power_cut: bool) -> None:
        self._died()
        if power_cut:
            self.diary.died(self.now())
            self.world.power_cut(HOST)
        else:
            self.world.kill(HOST)

    async def stop(self) -> None:
        """Stop the broker in order."""
        self.task.cancel()
        timer = self.world.loop.create_task(self.sleep(STOP_S_MAX))
        await asyncio.wait((self.task, timer), return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        if not self.task.done():
            raise Wrong(f"the broker has not stopped within {STOP_S_MAX} s")
        self._died()
        self.world.kill(HOST)

    def _died(self) -> None:
        self.life += 1
        self.locks.locks.clear()

    def jump(self, delta_ms: int) -> None:
        self.world.trace.note("clock", delta_ms)
        self.walls.jumped(self.now(), delta_ms)
        self.world.clock(HOST).jump_ms(delta_ms)

    async def read_all(self) -> list[Seen]:
        """Return what readers can see, from the store itself."""
        found: list[Seen] = []
        store = self.broker.store
        for topic, queues in QUEUES.items():
            for queue_id in range(queues):
                at = store.min_offset(topic, queue_id)
                while at < store.max_offset(topic, queue_id):
                    got = await store.read(topic, queue_id, at, 32, 1 << 20)
                    if got.next_offset <= at:
                        raise Wrong(f"{topic}/{queue_id}: a read at {at} leads nowhere: {got.status}")
                    found += [each for data in got.records for each in decode(bytes(data))]
                    at = got.next_offset
        return found


async def _serve(broker: Broker, ready: asyncio.Event) -> None:
    await broker.start()
    ready.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await broker.close()
        raise


def decode(data: bytes) -> list[Seen]:
    """Return the messages of a pull's answer that are whole.

    A power cut may take the end of the properties of what was not synced: recovery checks the body alone and
    keeps the record. Such a one is nobody's delivery; the broker sees that, too, and delivers again.
    """
    found = []
    position = 0
    while position < len(data):
        read = record.decode(data, position)
        position += read.size_bytes
        if b"\0" in bytes(read.properties):
            continue
        properties = parse_properties(bytes(read.properties).decode())
        dequeued_ms = int(properties.get("TIMER_DEQUEUE_MS", "0"))
        place = (read.topic, read.queue_id, read.queue_offset, read.log_offset)
        found.append(Seen(*place, read.reconsume_times, dequeued_ms, bytes(read.body)))
    return found
