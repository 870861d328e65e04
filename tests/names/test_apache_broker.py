"""With Apache's own programs: its broker at our name server, our registration at its name server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from roquet.broker.registration import Identity, Registration, Terms, TopicTable
from roquet.model.route import Route
from roquet.model.topic import DataVersion, Topic
from roquet.names.app import NameServer
from roquet.runtime.clock import RealClock
from roquet.runtime.net import RealNet
from roquet.runtime.real import real_ports
from roquet.runtime.settings import NamesSettings
from roquet.transport.dialer import Dialer
from roquet.wire.bodies import route
from roquet.wire.requests.names import GetClusters, GetRoute
from roquet.wire.requests.topics import UpdateTopic
from tests.peers import apache
from tests.peers.ports import free_port

pytestmark = pytest.mark.java

PATIENCE_S = 120.0


def new_dialer() -> Dialer:
    return Dialer(RealNet(), RealClock(), lambda _: None)


async def route_of(dialer: Dialer, names: str, topic: str) -> Route | None:
    answer = await dialer.call(names, GetRoute(topic), 5.0)
    assert answer.code in (0, 17)
    return route.decode(answer.body) if answer.code == 0 else None


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_S} s"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("settings", [{}, {"compressedRegister": "true"}], ids=["plain", "deflated"])
def test_an_apache_broker_registers_with_our_name_server(tmp_path: Path, settings: dict[str, str]) -> None:
    async def main() -> None:
        port = free_port()
        server = NameServer(NamesSettings(listen_port=port), real_ports())
        await server.start()
        names, dialer = f"127.0.0.1:{port}", new_dialer()
        node = await asyncio.to_thread(apache.start_broker, tmp_path, names, settings=settings)
        try:
            clusters = route.decode_clusters((await dialer.call(names, GetClusters(), 5.0)).body)
            assert clusters.cluster_addr_table == {"DefaultCluster": ["broker-a"]}
            assert clusters.broker_addr_table["broker-a"].broker_addrs == {0: node.address}
            found = await route_of(dialer, names, "TBW102")
            assert found is not None
            assert (found.queues[0].perm, found.queues[0].read_queue_nums) == (7, 8)
            created = await dialer.call(node.address, UpdateTopic("later", 3, 3, 6), 5.0)
            assert created.code == 0

            async def is_there() -> bool:
                return await route_of(dialer, names, "later") is not None

            await until(is_there, "the route of a new topic")
            found = await route_of(dialer, names, "later")
            assert found is not None
            assert (found.queues[0].read_queue_nums, found.brokers[0].broker_addrs) == (3, {0: node.address})
        finally:
            await asyncio.to_thread(node.kill)

        async def is_gone() -> bool:
            return await route_of(dialer, names, "TBW102") is None

        await until(is_gone, "the end of a killed broker's routes")
        dialer.close()
        await server.close()

    asyncio.run(main())


def test_our_registration_at_an_apache_name_server(tmp_path: Path) -> None:
    async def main() -> None:
        node = await asyncio.to_thread(apache.start_namesrv, tmp_path)
        try:
            dialer = new_dialer()
            topics = {name: Topic(topic_name=name, read_queue_nums=3) for name in ("t", "u", "v")}
            table = TopicTable(DataVersion(1, 0, 5), topics)
            registration = Registration(
                dialer,
                RealClock(),
                Identity("DefaultCluster", "broker-z", 0, "127.0.0.1:10911", "127.0.0.1:10912"),
                [node.address, f"127.0.0.1:{free_port()}"],
                lambda: table,
                lambda: Terms(topics_per_request=2),
                lambda _: None,
            )
            await registration.start()
            assert registration.registered_with == (node.address,)
            asker = new_dialer()
            for name in topics:
                found = await route_of(asker, node.address, name)
                assert found is not None
                assert found.brokers[0].broker_addrs == {0: "127.0.0.1:10911"}
                assert (found.queues[0].broker_name, found.queues[0].read_queue_nums) == ("broker-z", 3)
            table = TopicTable(table.version.next(6), {**topics, "new": Topic(topic_name="new", perm=4)})
            registration.changed(["new"])

            async def is_there() -> bool:
                return await route_of(asker, node.address, "new") is not None

            await until(is_there, "the route of a changed topic")
            await registration.close()

            async def is_gone() -> bool:
                return await route_of(asker, node.address, "t") is None

            await until(is_gone, "the end of the routes of a broker that left")
            dialer.close()
            asker.close()
        finally:
            await asyncio.to_thread(node.kill)

    asyncio.run(main())
