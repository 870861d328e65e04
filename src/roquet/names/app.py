"""The name server: the one file here that knows everyone.

    Server ─▶ Router ─▶ Handlers ─▶ Table ─┐
    a link closed ─▶ Table.close_link ─────┼─▶ notices (905) ─▶ Dialer ─▶ brokers
    every 5 s ─▶ Table.expire ─────────────┘

Starts and stops the parts and carries effects from the tables to the network. Reference:
NamesrvController of Apache 5.5.0.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Iterable
from typing import Final

from roquet.names.handlers import Handlers, rules_of
from roquet.names.kv import KeyValues
from roquet.names.settings import SettingsHandlers
from roquet.names.table import MinIdChange, Table, TakenOut
from roquet.ports import Ports
from roquet.runtime.settings import NamesSettings
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call, Link
from roquet.transport.router import Router
from roquet.transport.server import Server
from roquet.transport.tasks import Tasks
from roquet.wire.requests.names import NotifyMinBrokerId

log = logging.getLogger("roquet.names")

LOOPBACK: Final = "127.0.0.1"

NOTICES_MAX: Final = 1_000
"""Members that may be waited for at once to be told of a new smallest id; they also find out by asking."""


class NameServer:
    """A running name server; `start` it, and `close` it."""

    def __init__(self, settings: NamesSettings, ports: Ports) -> None:
        self._settings = settings
        self._clock = ports.clock
        self._table = Table(rules_of(settings))
        self._values = KeyValues(ports.disk, settings.kv_config_path)
        self._handlers = Handlers(self._table, self._values, settings, ports.clock, self._tell)
        routes = self._handlers.routes() | SettingsHandlers(settings, ports.disk, self._apply).routes()
        self._tasks = Tasks()
        self.router = Router(routes, self._may_administer, self._tasks)
        self._server = Server(
            ports.net,
            ports.clock,
            self.router.serve,
            self._link_closed,
            settings.connections_max,
            settings.server_idle_s,
        )
        # Brokers that we dial have nothing to ask us over those links.
        self._dialer = Dialer(ports.net, ports.clock, Router({}, self._may_administer, self._tasks).serve)
        self._telling: set[asyncio.Task[None]] = set()
        self._scanner: asyncio.Task[None] | None = None
        self._is_closing = False

    async def start(self) -> None:
        """Load the KV table and listen; raises OSError when the address cannot be had."""
        self._values.load()
        await self._server.start([(self._settings.bind_address or LOOPBACK, self._settings.listen_port)])
        self._scanner = asyncio.get_running_loop().create_task(self._scan())
        log.info("listening on %s", ", ".join(f"{host}:{port}" for host, port in self.addresses))

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens, with real ports."""
        return self._server.addresses

    async def close(self) -> None:
        """Stop: brokers and clients go on with the other name servers."""
        self._is_closing = True
        tasks = [*self._telling, *([self._scanner] if self._scanner is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._tasks.close()
        await self._server.close()
        self._dialer.close()

    async def _scan(self) -> None:
        """Take out brokers that fell silent, and close the links that they left behind."""
        while True:
            interval_s = self._handlers.settings.scan_interval_ms / 1000
            await self._clock.sleep_until(self._clock.monotonic() + interval_s)
            expired = self._table.expire(int(self._clock.monotonic() * 1000))
            self._taken_out(expired, "was silent for too long")
            for link in expired.links:
                assert isinstance(link, Link)
                link.close()

    def _link_closed(self, link: Link) -> None:
        if not self._is_closing:  # then we are the one that leaves, and the brokers are well
            self._taken_out(self._table.close_link(link), "closed its connection")

    def _taken_out(self, gone: TakenOut, why: str) -> None:
        for place in gone.places:
            log.warning("%s of %s %s: out of all routes", place.address, place.cluster, why)
        self._tell(gone.notices)

    def _tell(self, notices: Iterable[MinIdChange]) -> None:
        for notice in notices:
            request = NotifyMinBrokerId(
                notice.min_id,
                notice.broker_name,
                notice.min_address,
                notice.offline_address,
                notice.ha_address,
            )
            for address in notice.tell:
                if len(self._telling) < NOTICES_MAX:
                    task = asyncio.get_running_loop().create_task(self._tell_one(address, request))
                    self._telling.add(task)
                    task.add_done_callback(self._telling.discard)

    async def _tell_one(self, address: str, request: NotifyMinBrokerId) -> None:
        try:
            link = await self._dialer.link(address)
        except (OSError, ValueError) as error:
            log.info("could not tell %s of the new smallest broker id: %s", address, error)
            return
        link.send_one_way(request)

    def _apply(self, settings: NamesSettings) -> None:
        """Put settings into force that an administrator has changed."""
        self._handlers.settings = settings
        self._table.rules = rules_of(settings)

    def _may_administer(self, call: Call) -> bool:
        return self._settings.admin_from_anywhere or _is_loopback(call.link.peer[0])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
