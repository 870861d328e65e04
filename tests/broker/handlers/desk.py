"""A desk for handler tests: real tables, a real store and a real router on a simulated network.

    with Desk() as desk:
        async def scenario() -> None:
            answer = await desk.ask(GetTopic("orders"))
        desk.run(scenario())

The broker side holds every administrative handler; the client side is a link of its own, from which
`member` joins groups and answers what is relayed to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.runtime_info import RuntimeInfo
from roquet.broker.core.sessions import ConsumerData, Sessions
from roquet.broker.core.stats import Stats
from roquet.broker.core.topics import Identity, TopicRules, Topics
from roquet.broker.handlers.connections import ConnectionHandlers
from roquet.broker.handlers.groups import GroupHandlers
from roquet.broker.handlers.moving import MovingHandlers
from roquet.broker.handlers.progress import ProgressHandlers
from roquet.broker.handlers.query import QueryHandlers
from roquet.broker.handlers.settings import SettingsHandlers
from roquet.broker.handlers.stats import StatsHandlers
from roquet.broker.handlers.topics import TopicHandlers
from roquet.broker.handlers.upkeep import UpkeepHandlers
from roquet.model.group import Subscription
from roquet.model.message import Draft, Host
from roquet.model.status import Appended
from roquet.runtime.settings import BrokerSettings
from roquet.sim.world import World
from roquet.store.settings import StoreSettings
from roquet.store.store import Store
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call, Link
from roquet.transport.router import Handler, Router
from roquet.transport.server import Server
from roquet.transport.tasks import Tasks
from roquet.wire.frame import Frame
from roquet.wire.row import Header

BROKER_HOST, CLIENT_HOST = "127.0.0.3", "127.0.0.4"
ADDRESS = f"{BROKER_HOST}:10911"
CONFIG_PATH = "/store/config/broker.properties"


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


async def at_once() -> None:
    """Stand in for name servers that know everything already: there are none here."""


class Desk:
    """One broker side and one client side."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(1)
        ports = self.world.ports(BROKER_HOST)
        self.clock, self.disk = ports.clock, ports.disk
        self.changed_topics: list[str] = []
        self.applied: list[tuple[BrokerSettings, StoreSettings]] = []
        self.topics = Topics(
            Identity("DefaultCluster", "broker-a", 0), TopicRules(), self.clock.now_ms, self._topics_changed
        )
        self.groups = Groups(True, self.clock.now_ms, lambda: None)
        self.offsets = Offsets(self.clock.now_ms)
        self.sessions = Sessions()
        self.stats = Stats("DefaultCluster", self.clock.now_ms())
        self.runtime = RuntimeInfo(self.stats, utc, self.clock.now_ms())
        self.store_settings = StoreSettings(
            root_dir="/store",
            log_file_size_bytes=256 * 1024,
            queue_file_size_bytes=2_000,
            index_slot_count=500,
            index_entry_count=2_000,
        )
        loop = self.world.loop
        host = Host(bytes([127, 0, 0, 3]), 10911)
        self.store = Store(self.disk, self.clock, self.store_settings, host, loop.call_soon)
        self.settings = SettingsHandlers(
            BrokerSettings(broker_name="broker-a", **settings),
            self.store_settings,
            CONFIG_PATH,
            self.disk,
            self.clock,
            lambda broker, store: self.applied.append((broker, store)),
        )
        self.tasks = Tasks()
        router = Router(self._routes(), lambda call: call.link.peer[0].startswith("127."), self.tasks)
        self.codes = router.codes
        self._server = Server(ports.net, self.clock, router.serve)
        self.on_call: Callable[[Call], None] = lambda call: None
        client = self.world.ports(CLIENT_HOST)
        self._dialer = Dialer(client.net, client.clock, lambda call: self.on_call(call))

    def _routes(self) -> dict[type[Header], Handler]:
        tables = (self.topics, self.groups, self.offsets, self.sessions)
        handlers: list[Any] = [
            TopicHandlers(self.topics, self.offsets, self.sessions, self.stats, self.store, at_once),
            GroupHandlers(self.groups, self.offsets, self.stats),
            MovingHandlers(*tables, self.store),
            ProgressHandlers(*tables, self.stats, self.store, self.clock, utc, ADDRESS),
            QueryHandlers(self.store, self.sessions, {}),
            ConnectionHandlers(self.sessions, self.topics, self.groups, self.store, self.clock),
            StatsHandlers(self.stats, self.runtime, self.store, self.disk, self.clock),
            UpkeepHandlers(self.topics, self.store),
            self.settings,
        ]
        return {request: answer for each in handlers for request, answer in each.routes().items()}

    def _topics_changed(self, changed: list[Any]) -> None:
        self.changed_topics += [topic.topic_name for topic in changed]

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.close()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Open the desk, run a scenario, close."""

        async def main() -> None:
            self.disk.make_dirs("/store/config")
            self.store.open()
            await self._server.start([(BROKER_HOST, 10911)])
            try:
                await scenario
            finally:
                self._dialer.close()
                await self._server.close()
                await self.tasks.close()
                await self.store.close()

        self.world.run(main())

    async def ask(self, request: Header, body: bytes = b"", timeout_s: float = 60) -> Frame:
        """Ask the broker side, as a tool would."""
        return await self._dialer.call(ADDRESS, request, timeout_s, body)

    async def ask_frame(self, code: int, ext: dict[str, str], body: bytes = b"") -> Frame:
        """Ask with raw fields."""
        link = await self._dialer.link(ADDRESS)
        return await link.call_frame(Frame(code, 0, 0, ext, body), 60)

    async def append(self, topic: str, queue_id: int, body: bytes, keys: tuple[str, ...] = ()) -> Appended:
        """Store one message."""
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        properties = b"".join(b"KEYS\x01%s\x02" % key.encode() for key in keys)
        born = Host(bytes([127, 0, 0, 4]), 5)
        draft = Draft(topic, queue_id, body, properties, 0, 0, self.clock.now_ms(), born, keys=keys)
        self.store.append([draft], done.set_result)
        return await done

    async def member(self, group: str, *topics: str, client_id: str = "client", version: int = 513) -> Link:
        """Let the client side be a member of a consumer group, as its heartbeat would; returns its link."""
        await self._dialer.link(ADDRESS)
        while not self._server.links:
            await self.pass_time(0.01)
        (link,) = self._server.links
        subscriptions = tuple(Subscription(topic=topic, sub_version=7) for topic in topics)
        data = ConsumerData(
            group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", subscriptions
        )
        self.sessions.join_consumer(data, link, client_id, "JAVA", version, self.clock.monotonic())
        return link

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + seconds)
