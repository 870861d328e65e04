"""A ground for client tests: name servers and brokers as real programs in a simulated world.

Each program has a host of its own, so that it can be killed, cut off or moved while clients go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from roquet.broker.app import Broker
from roquet.client.cluster.cluster import Cluster
from roquet.model.group import Subscription
from roquet.names.app import NameServer
from roquet.runtime.addresses import Addresses
from roquet.runtime.settings import BrokerSettings, Endpoint, NamesSettings
from roquet.sim.world import World
from roquet.store.settings import StoreSettings
from roquet.wire.bodies.heartbeat import ConsumerBeat, ProducerBeat
from tests.broker.stage import SMALL

NAMES = ("127.0.0.2", "127.0.0.12")
NAMESRV = ";".join(f"{host}:9876" for host in NAMES)
BROKERS = ("127.0.0.3", "127.0.0.13")
BROKER = f"{BROKERS[0]}:10911"
CLIENT = "127.0.0.4"


class Ground:
    """One world with up to two name servers and two brokers."""

    def __init__(self, seed: int = 1, **broker: Any) -> None:
        self.world = World(seed)
        self.broker_settings = broker
        self.brokers: dict[str, Broker] = {}
        self.clock = self.world.ports(CLIENT).clock
        for host in (*NAMES, *BROKERS):
            self.world.ports(host)  # a machine is there before a program runs on it

    def play(self, scenario: Callable[[Ground], Coroutine[Any, Any, None]], limit_s: float = 3_600) -> None:
        """Run the scenario in a world where nothing has been started yet."""
        with self.world as world:
            world.run(scenario(self), limit_s)

    def cluster(self, namesrv: str = NAMESRV, **options: Any) -> Cluster:
        return Cluster(namesrv, ports=self.world.ports(CLIENT), **options)

    async def start(self, names: int = 2, brokers: int = 1) -> None:
        """Start name servers and brokers, and wait until every name server knows every broker."""
        for host in NAMES[:names]:
            await self.start_names(host)
        for number in range(brokers):
            await self.start_broker(number)

    async def start_names(self, host: str = NAMES[0]) -> None:
        settings = NamesSettings(bind_address=host, kv_config_path="/kv.json")
        await self._start(host, NameServer(settings, self.world.ports(host)))

    async def start_broker(self, number: int = 0, port: int = 10911) -> Broker:
        """Start a broker on its host, at a port of its host."""
        host = BROKERS[number]
        settings = BrokerSettings(
            broker_name=f"broker-{'ab'[number]}",
            namesrv_addresses=tuple(Endpoint(name, 9876) for name in NAMES),
            listen_port=port,
            **self.broker_settings,
        )
        store = StoreSettings(**SMALL)
        broker = Broker(settings, store, Addresses((host,), host, host, ()), self.world.ports(host), 4711)
        self.brokers[host] = broker
        await self._start(host, broker)
        return broker

    async def _start(self, host: str, program: Broker | NameServer) -> None:
        ready = asyncio.Event()

        async def serve() -> None:
            await program.start()
            ready.set()
            await asyncio.Event().wait()

        self.world.start(host, serve())
        await ready.wait()

    async def pass_time(self, seconds: float) -> None:
        """Let virtual time pass."""
        await self.clock.sleep_until(self.clock.monotonic() + seconds)


class Someone:
    """A member that writes down what it is told."""

    def __init__(self, group: str, *topics: str, is_consumer: bool = True) -> None:
        self.group = group
        self.is_consumer = is_consumer
        self.changes: list[str] = []
        self._topics = topics

    def beat(self) -> ProducerBeat | ConsumerBeat:
        if not self.is_consumer:
            return ProducerBeat(self.group)
        subscriptions = [Subscription(topic=topic, sub_version=1) for topic in self._topics]
        return ConsumerBeat(self.group, subscription_data_set=subscriptions)

    def topics(self) -> Collection[str]:
        return self._topics

    def route_changed(self, topic: str) -> None:
        self.changes.append(topic)
