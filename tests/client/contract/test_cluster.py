"""What every server must understand of the client's foundation: routes, heartbeats, questions, leaving."""

from __future__ import annotations

import msgspec
import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import NoRoute
from roquet.transport.link import Link
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.reply import Reply
from roquet.wire.requests.client import GetConsumerList, NotifyConsumersChanged
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound
from roquet.wire.requests.send import SendV2
from tests.client.contract.server import Server
from tests.client.ground import Someone


def send(topic: str) -> SendV2:
    return SendV2("g", topic, "TBW102", 4, 0, 0, 0, 0, "", 0, False, None, False)


async def members(cluster: Cluster, address: str, group: str) -> list[str]:
    answer = await cluster.call(address, GetConsumerList(group))
    if answer.code != Code.SUCCESS:
        return []
    return list(msgspec.json.decode(answer.body)["consumerIdList"])


@pytest.mark.parametrize("encoding", ["json", "binary"])
def test_a_topic_is_created_by_a_first_message(server: Server, encoding: str) -> None:
    async def scenario() -> None:
        topic = server.fresh("orders")
        url = f"roquet://{server.namesrv}?encoding={encoding}"
        async with Cluster(url, ports=server.ports) as cluster:
            with pytest.raises(NoRoute, match="a first message will create it"):
                await cluster.route(topic)
            view = await cluster.publish_route(topic)
            assert len(view.write_queues()) == 4
            await cluster.ask(view.master("broker-a"), send(topic), b"first")

            async def known() -> bool:
                try:
                    return len((await cluster.route(topic)).read_queues()) == 4
                except NoRoute:
                    return False

            async def stored() -> bool:
                answer = await cluster.ask(view.master("broker-a"), GetMaxOffset(topic, 0))
                return OffsetFound.decode(answer.ext).offset == 1

            await server.eventually(known)
            await server.eventually(stored)

    server.run(scenario())


def test_members_come_and_go(server: Server) -> None:
    told: list[str] = []

    def changed(request: NotifyConsumersChanged, frame: Frame, link: Link) -> Reply:
        told.append(request.consumer_group)
        return Reply()

    async def scenario() -> None:
        group = server.fresh("billing")
        async with (
            Cluster(server.namesrv, ports=server.ports) as one,
            Cluster(server.namesrv, ports=server.ports) as other,
        ):
            address = (await one.route("TBW102")).master("broker-a")
            await other.route("TBW102")
            one.answer(NotifyConsumersChanged, changed)
            first, second = Someone(group, "TBW102"), Someone(group, "TBW102")
            one.join(first)
            await one.beat()
            assert await members(one, address, group) == [one.client_id]
            other.join(second)
            await other.beat()
            assert set(await members(one, address, group)) == {one.client_id, other.client_id}
            await server.eventually(lambda: group in told)
            await one.leave(first)
            assert await members(one, address, group) == [other.client_id]
            await other.leave(second)
            assert await members(one, address, group) == []

    server.run(scenario())
