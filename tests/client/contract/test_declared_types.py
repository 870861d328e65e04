"""A topic that declares what kind of messages it takes."""

from __future__ import annotations

from datetime import timedelta

import pytest

import roquet
from tests.client.contract.server import Server


def test_a_message_of_another_kind_than_declared(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("timed")
        async with (
            roquet.Admin(server.namesrv, ports=server.ports) as admin,
            roquet.Producer(server.namesrv, ports=server.ports) as producer,
        ):
            await admin.topics.create(topic, queues=1, kind="DELAY")
            assert (await producer.send(topic, b"in time", delay=timedelta(seconds=1))).status == "ok"
            if server.differs("declared message types"):
                assert (await producer.send(topic, b"at once")).status == "ok"
            else:
                with pytest.raises(roquet.BadMessage, match="DELAY"):
                    await producer.send(topic, b"at once")

    server.run(scenario())
