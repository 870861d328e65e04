"""A name server in the simulation and somebody who asks it, for the tests here and of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from roquet.model.route import Route
from roquet.model.topic import DataVersion, Topic
from roquet.names.app import NameServer
from roquet.ports import Ports
from roquet.runtime.settings import NamesSettings
from roquet.transport.dialer import Dialer
from roquet.transport.router import Router
from roquet.transport.tasks import Tasks
from roquet.wire.bodies import registration, route
from roquet.wire.codes import VERSION
from roquet.wire.header import Frame
from roquet.wire.requests import names as rows
from roquet.wire.row import Header, row_of

PORT = 9876
SETTINGS = NamesSettings(bind_address="0.0.0.0", listen_port=PORT, kv_config_path="/namesrv/kvConfig.json")
TOPICS = {name: Topic(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in ("t", "u")}


async def serve(ports: Ports, settings: NamesSettings = SETTINGS) -> None:
    """Run a name server until its host is killed or switched off."""
    server = NameServer(settings, ports)
    await server.start()
    await asyncio.Event().wait()


class Asker:
    """Somebody on a host who asks a name server over one connection."""

    def __init__(self, ports: Ports, name_server: str = "127.0.0.1") -> None:
        self.address = f"{name_server}:{PORT}"
        self.dialer = Dialer(ports.net, ports.clock, Router({}, lambda _: False, Tasks()).serve)
        self.clock = ports.clock

    async def ask(self, request: Header, body: bytes = b"", version: int = VERSION) -> Frame:
        link = await self.dialer.link(self.address)
        frame = Frame(row_of(type(request)).code, ext=request.encode(), body=body, version=version)
        return await link.call_frame(frame, 5.0)

    async def register(
        self,
        broker_name: str = "broker-a",
        address: str = "10.0.0.1:10911",
        broker_id: int = 0,
        topics: Mapping[str, Topic] = TOPICS,
        counter: int = 1,
        **more: object,
    ) -> Frame:
        body = registration.encode(registration.Registration(DataVersion(counter), topics))
        request = rows.RegisterBroker(
            broker_name, address, "DefaultCluster", "10.0.0.1:10912", broker_id, enable_acting_master=False
        )
        for field, value in more.items():
            setattr(request, field, value)
        return await self.ask(request, body)

    async def route(self, topic: str) -> Route | None:
        """Return the route of a topic, None when the name server has none."""
        answer = await self.ask(rows.GetRoute(topic))
        assert answer.code in (0, 17)
        return route.decode(answer.body) if answer.code == 0 else None

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + seconds)
