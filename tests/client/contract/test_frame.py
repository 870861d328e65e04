"""The frame of the contract suite holds: a plain message passes, and a delay, through each server."""

from __future__ import annotations

from datetime import timedelta

from roquet.client.plain import Message, connect
from tests.client.contract.server import Server

QUEUES = 4


def test_a_message_can_be_read_back(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("hello")
        async with connect(server.namesrv, server.ports) as client:
            sent = await client.send(topic, b"Hello, Roquet!", tag="greeting")
            found: list[Message] = []

            async def came() -> bool:
                found[:] = await client.read(topic, sent.queue_id, sent.queue_offset)
                return bool(found)

            await server.eventually(came)
            (message,) = found
            assert (message.body, message.tag) == (b"Hello, Roquet!", "greeting")

    server.run(scenario())


def test_a_delay_passes_when_time_does(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("later")
        async with connect(server.namesrv, server.ports) as client:
            await client.send(topic, b"first")
            before = server.now()
            await client.send(topic, b"later", properties={"DELAY": "4"})
            await server.advance(timedelta(seconds=2))

            async def came() -> bool:
                bodies = [
                    m.body for queue in range(QUEUES) for m in await client.read(topic, queue, 0, wait_ms=0)
                ]
                return b"later" in bodies

            await server.eventually(came)
            assert server.now() - before >= timedelta(seconds=2)

    server.run(scenario())
