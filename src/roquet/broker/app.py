"""The broker: the one file here that knows everyone.

    Server ─▶ Router ─▶ handlers ─▶ features ─▶ Store ─▶ parking (wakes long polls)
                           │                      ▲
                           ▼                      │ listeners
               topics · groups · offsets · sessions · stats ──▶ config/*.json, name servers

Builds the parts, gives each exactly what it uses, starts and stops them in order, and runs the periodic
work. Reference for the order of things: BrokerController of Apache 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Final

from roquet.broker import features
from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.parking import Parking
from roquet.broker.core.pipeline import Pipeline
from roquet.broker.core.runtime_info import RuntimeInfo
from roquet.broker.core.sessions import Sessions
from roquet.broker.core.stats import Stats
from roquet.broker.core.topics import Identity, TopicRules, Topics
from roquet.broker.feature_tables import FeatureTables
from roquet.broker.handlers.clients import ClientHandlers
from roquet.broker.handlers.connections import ConnectionHandlers
from roquet.broker.handlers.groups import GroupHandlers
from roquet.broker.handlers.moving import MovingHandlers
from roquet.broker.handlers.offsets import OffsetHandlers
from roquet.broker.handlers.progress import ProgressHandlers
from roquet.broker.handlers.pull import PullHandlers, PullRules
from roquet.broker.handlers.query import QueryHandlers
from roquet.broker.handlers.send import SendHandlers
from roquet.broker.handlers.settings import SettingsHandlers
from roquet.broker.handlers.stats import StatsHandlers
from roquet.broker.handlers.topics import TopicHandlers
from roquet.broker.handlers.upkeep import UpkeepHandlers
from roquet.broker.registration import Identity as Registrant
from roquet.broker.registration import Registration, Terms, TopicTable
from roquet.model.ids import UniqueIds
from roquet.model.message import Host
from roquet.model.topic import Topic
from roquet.ports import Ports
from roquet.runtime.addresses import Addresses, is_loopback
from roquet.runtime.settings import BrokerSettings, Endpoint
from roquet.store.settings import StoreSettings
from roquet.store.store import Store
from roquet.store.tables import Table
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call, Link
from roquet.transport.router import Handler, Router
from roquet.transport.server import Server
from roquet.transport.tasks import Tasks
from roquet.wire.codes import Code
from roquet.wire.reply import Refusal
from roquet.wire.requests.pull import LitePull, Pull
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker")

TICK_SECONDS: Final = 1.0


class Broker:
    """One broker. `start()` serves, `close()` leaves a clean store."""

    def __init__(
        self,
        settings: BrokerSettings,
        store_settings: StoreSettings,
        addresses: Addresses,
        ports: Ports,
        process_id: int,
    ) -> None:
        self.settings = settings
        self.store_settings = store_settings
        self._addresses = addresses
        self._clock, self._disk = ports.clock, ports.disk
        identity = Identity(settings.cluster_name, settings.broker_name, settings.broker_id)
        now_ms = ports.clock.now_ms
        config_dir = f"{store_settings.root_dir}/config"
        self._topics_file = Table(ports.disk, f"{config_dir}/topics.json")
        self._groups_file = Table(ports.disk, f"{config_dir}/subscriptionGroup.json")
        self._offsets_file = Table(ports.disk, f"{config_dir}/consumerOffset.json")

        self.topics = Topics(identity, _topic_rules(settings), now_ms, self._topics_changed)
        self.groups = Groups(settings.auto_create_group, now_ms, self._groups_changed)
        self.offsets = Offsets(now_ms, settings.offsets_version_step)
        self.sessions = Sessions()
        self.stats = Stats(settings.cluster_name, now_ms())
        self.parking = Parking(ports.clock)
        store_host = Host(ip_address(addresses.advertise).packed, settings.listen_port)
        self.store = Store(ports.disk, ports.clock, store_settings, store_host, self._call_soon, process_id)
        self.store.listeners.append(self.parking.arrived)
        self._tasks = Tasks(settings.requests_in_flight_max)
        unique_ids = UniqueIds(store_host.ip, process_id, ports.rng.randrange(2**32))
        pipeline = Pipeline(self.store)
        parts = features.Parts(
            ports,
            self.store,
            pipeline,
            self.topics,
            self.groups,
            self.offsets,
            self.sessions,
            self.stats,
            store_host,
            unique_ids,
            lambda: self.settings,
            lambda: self.store_settings,
        )
        self._hooks = features.collect(features.all_features(parts))
        pipeline.hooks = self._hooks.before_append
        self.store.listeners.extend(self._hooks.on_entries)
        self._tables = FeatureTables(ports.disk, config_dir, self._hooks.tables)
        self._send = SendHandlers(
            self.topics,
            self.groups,
            pipeline,
            self.stats,
            store_host,
            unique_ids,
            ports.clock,
            ports.rng,
            settings.region_id,
            settings.trace_on,
        )
        self._runtime = RuntimeInfo(self.stats, _local_time, now_ms())
        self._settings = SettingsHandlers(
            settings,
            store_settings,
            settings.config_path or f"{config_dir}/broker.properties",
            ports.disk,
            ports.clock,
            self.apply,
        )
        self._pull = PullHandlers(
            self.topics,
            self.groups,
            self.offsets,
            self.sessions,
            self.store,
            self.parking,
            self.stats,
            _pull_rules(settings),
            self._tasks.run,
            self._hooks.expressions,
        )
        tables = (self.topics, self.groups, self.offsets, self.sessions)
        self._moving = MovingHandlers(*tables, self.store)
        self._topic_handlers = TopicHandlers(
            self.topics,
            self.offsets,
            self.sessions,
            self.stats,
            self.store,
            lambda: self._registration.told(),
        )
        self._clients = ClientHandlers(
            self.topics,
            self.groups,
            self.sessions,
            ports.clock,
            self._call_soon,
            self._hooks.expressions,
        )
        runs = {**self._send.runs(), **self._hooks.runs}
        self.router = Router(self._routes(), self._may_administer, self._tasks, runs)
        limits = (self._link_closed, settings.connections_max, settings.server_idle_s)
        fast = self.router.without(Pull, LitePull)
        self._server = Server(
            ports.net, ports.clock, self.router.serve, *limits, serve_run=self.router.serve_run
        )
        self._fast_server = Server(ports.net, ports.clock, fast.serve, *limits, serve_run=fast.serve_run)
        self._dialer = Dialer(ports.net, ports.clock, self.router.serve)
        self._registration = Registration(
            self._dialer,
            ports.clock,
            Registrant(
                *identity,
                str(Endpoint(addresses.advertise, settings.listen_port)),
                str(Endpoint(addresses.ha_advertise, settings.ha_port)),
            ),
            [str(address) for address in settings.namesrv_addresses],
            lambda: TopicTable(self.topics.version, self.topics.table),
            self._terms,
            self.topics.mark_ordered,
        )
        self._is_registering = False
        self._ticker: asyncio.Task[None] | None = None
        self._working: list[asyncio.Task[None]] = []

    def _routes(self) -> dict[type[Header], Handler]:
        """Return what every handler answers; two that claim one request are a mistake of ours."""
        topics, groups, offsets, sessions = self.topics, self.groups, self.offsets, self.sessions
        stats, store, clock = self.stats, self.store, self._clock
        address = str(Endpoint(self._addresses.advertise, self.settings.listen_port))
        handlers: list[Any] = [
            self._send,
            self._pull,
            self._clients,
            self._settings,
            OffsetHandlers(topics, groups, offsets, store),
            QueryHandlers(store, sessions, self._hooks.expressions),
            self._topic_handlers,
            GroupHandlers(groups, offsets, stats),
            ConnectionHandlers(sessions, topics, groups, store, clock),
            ProgressHandlers(topics, groups, offsets, sessions, stats, store, clock, _local_time, address),
            self._moving,
            StatsHandlers(stats, self._runtime, store, self._disk, clock, self._hooks.runtime_texts),
            UpkeepHandlers(topics, store),
        ]
        routes: dict[type[Header], Handler] = dict(self._hooks.routes)
        for handler in handlers:
            more = handler.routes()
            assert not routes.keys() & more.keys(), f"{handler} answers what another answers too"
            routes |= more
        return routes

    async def start(self) -> None:
        """Load, recover, listen, register; raises StoreDamaged or OSError with what to do."""
        for file, load in (
            (self._topics_file, self.topics.load),
            (self._groups_file, self.groups.load),
            (self._offsets_file, self.offsets.load),
        ):
            stored = file.load()
            if stored is not None:
                load(stored)
        self._tables.load()
        self._disk.make_dirs(f"{self.store_settings.root_dir}/config")
        self._apply(self.settings)
        self.store.open()
        await self.store.start()
        try:
            port = self.settings.listen_port
            await self._server.start([(host, port) for host in self._addresses.bind])
            if port > 2:
                await self._fast_server.start([(host, port - 2) for host in self._addresses.bind])
        except OSError:
            self._server.stop_accepting()
            await self.store.close()
            raise
        self.become_master()
        self._is_registering = True
        await self._registration.start()
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens, the main port first."""
        return self._server.addresses + self._fast_server.addresses

    async def close(self) -> None:
        """Stop accepting, unregister, finish what is under way, flush, leave a clean store."""
        self._server.stop_accepting()
        self._fast_server.stop_accepting()
        self._is_registering = False
        await self._registration.close()
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        await self.resign()
        self.parking.wake_all()
        await self.store.close()
        await self._tasks.close()
        self._save_all()
        await self._server.close()
        await self._fast_server.close()
        self._dialer.close()

    # the role

    def become_master(self) -> None:
        """Begin the background work that only a master does: deliver what is due, ask about transactions."""
        if not self._working:
            loop = asyncio.get_running_loop()
            self._working = [loop.create_task(run()) for run in self._hooks.run]
            for task in self._working:
                task.add_done_callback(_say_if_failed)

    async def resign(self) -> None:
        """Stop the work of a master, at a point where each piece of it is done or not begun."""
        working, self._working = self._working, []
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)

    # what changes tells

    def _topics_changed(self, changed: list[Topic]) -> None:
        _save(self._topics_file, self.topics.dump(), "topic")
        if changed and self._is_registering:
            self._registration.changed(topic.topic_name for topic in changed)

    def _groups_changed(self) -> None:
        _save(self._groups_file, self.groups.dump(), "group")

    def _link_closed(self, link: Link) -> None:
        self._clients.link_closed(link)

    def _may_administer(self, call: Call) -> bool:
        return self.settings.admin_from_anywhere or is_loopback(call.link.peer[0])

    def apply(self, settings: BrokerSettings, store_settings: StoreSettings) -> None:
        """Take settings that changed while running."""
        permission_changed = settings.permission != self.settings.permission
        self.settings = settings
        self.store_settings = store_settings
        self.store.configure(store_settings)
        self._apply(settings)
        if permission_changed:
            # Name servers take over topics only with a version that they have not seen.
            self.topics.touch()
            self._registration.register_all()

    def _apply(self, settings: BrokerSettings) -> None:
        self.topics.rules = _topic_rules(settings)
        self.groups.auto_create = settings.auto_create_group
        self._pull.rules = _pull_rules(settings)
        self._send.set_terms(self._hooks.marks, self.store_settings.message_size_bytes_max)
        self._send.broker_perm = settings.permission
        self._send.accept_after_ms = settings.start_accept_send_ms
        self._send.checks_message_type = settings.message_type_check
        self._topic_handlers.allows_mixed = settings.mixed_message_type
        self._moving.is_server_side = settings.use_server_side_reset
        self._clients.notify_enabled = settings.notify_group_changes

    def _terms(self) -> Terms:
        settings = self.settings
        terms = Terms(
            settings.register_period_ms / 1000, settings.register_timeout_ms / 1000, settings.permission
        )
        if settings.split_registration:
            return terms._replace(topics_per_request=settings.split_registration_size)
        return terms

    # periodic work

    async def _tick(self) -> None:
        """Once a second: features and counters; less often: silent clients and offsets."""
        next_scan = next_save = 0.0
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + TICK_SECONDS)
            now = self._clock.monotonic()
            for on_tick in self._hooks.on_tick:
                on_tick(now)
            now_ms = self._clock.now_ms()
            self.stats.sample(now_ms)
            self._runtime.tick(now_ms)
            if now >= next_scan:
                next_scan = now + self.settings.client_scan_interval_ms / 1000
                self._clients.drop_silent(self.settings.channel_expired_ms / 1000)
            self._tables.save_due(now)
            if now >= next_save:
                next_save = now + self.settings.offsets_flush_interval_ms / 1000
                self._save_offsets()

    def _save_offsets(self) -> None:
        """Save the offsets when they changed; a disk that refuses is tried again at the next round."""
        if not self.offsets.changed:
            return
        try:
            self._offsets_file.save(self.offsets.dump())
        except OSError as error:
            log.error("the offsets could not be saved: %s; they are kept in memory and tried again", error)
            return
        self.offsets.changed = False

    def _save_all(self) -> None:
        """Save at the stop; topics and groups were saved with each change, so a refusal loses nothing."""
        self._save_offsets()
        self._tables.save_all()
        for file, dump in ((self._topics_file, self.topics.dump), (self._groups_file, self.groups.dump)):
            try:
                file.save(dump())
            except OSError as error:
                log.error(
                    "a table could not be saved at the stop: %s; it is as its last change left it", error
                )

    def _call_soon(self, callback: Callable[[], None]) -> object:
        return asyncio.get_running_loop().call_soon(callback)


def _save(file: Table, table: dict[str, Any], what: str) -> None:
    """Save a table before its change is acknowledged; raises Refusal, and then nothing has changed."""
    try:
        file.save(table)
    except OSError as error:
        remark = f"the {what} cannot be saved, nothing was changed: {error}; free space or mend the disk"
        log.error("%s", remark)
        raise Refusal(Code.SERVICE_NOT_AVAILABLE, remark) from None


def _say_if_failed(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("background work ended; restart the broker to begin it again", exc_info=error)


def _local_time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000)


def _topic_rules(settings: BrokerSettings) -> TopicRules:
    return TopicRules(
        settings.auto_create_topic,
        settings.default_topic_queue_nums,
        settings.cluster_topic,
        settings.broker_topic,
        settings.trace_topic_name if settings.trace_topic else None,
    )


def _pull_rules(settings: BrokerSettings) -> PullRules:
    return PullRules(
        settings.permission,
        settings.lite_pull,
        settings.long_polling,
        settings.short_polling_ms,
        notes_lags=settings.disable_slow_groups,
    )
