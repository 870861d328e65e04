"""A consumer in a process of its own: SIGTERM lets handlers finish, stores positions and ends the program."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.client.producer.producer import Producer
from roquet.client.reader.reader import Reader
from roquet.wire.requests.client import GetConsumerConnections
from roquet.wire.requests.offsets import OffsetFound, QueryOffset
from tests.peers import roquet
from tests.peers.child import Child

pytestmark = pytest.mark.process

PROGRAM = """
import asyncio, os, sys
from roquet.client.consumer.consumer import Consumer

async def handle(message):
    print("began", message.body.decode(), flush=True)
    while not os.path.exists(sys.argv[3]):
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.02)  # the signal came before the file, so by now the loop has looked at it
    print("ended", message.body.decode(), flush=True)

async def loop(consumer):
    async with consumer:
        async for message in consumer:
            await handle(message)
            await message.ack()

options = dict(group="billing", subscribe="orders", start="earliest", drain_on_sigterm=True)
if sys.argv[2] == "handler":
    asyncio.run(Consumer(sys.argv[1], **options, handler=handle, concurrency=1).run())
else:
    asyncio.run(loop(Consumer(sys.argv[1], **options)))
print("good bye", flush=True)
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[roquet.RoquetNode]:
    running = roquet.start_up(tmp_path / "store")
    try:
        yield running
        running.stop()
    finally:
        running.kill()


@pytest.mark.parametrize("way", ["handler", "loop"])
def test_sigterm_drains(node: roquet.RoquetNode, tmp_path: Path, way: str) -> None:
    async def send() -> None:
        async with Producer(node.namesrv) as producer:
            for number in range(3):
                await producer.send("orders", b"m%d" % number, ordering_key="k")

    async def after() -> tuple[int, int]:
        async with Reader(node.namesrv) as reader:
            cluster = reader._cluster
            stored = [
                OffsetFound.decode(
                    (await cluster.call(node.broker, QueryOffset("billing", "orders", n))).ext
                ).offset
                for n in range(4)
            ]
            answer = await cluster.call(node.broker, GetConsumerConnections("billing"))
            return sum(stored), answer.code

    asyncio.run(send())
    signalled = tmp_path / "signalled"
    command = [sys.executable, "-c", PROGRAM, node.namesrv, way, str(signalled)]
    with Child("a consumer", command, tmp_path / "consumer.out") as child:
        child.wait_until(lambda: "began m0" in child.text(), "its first message", 120)
        child.send(signal.SIGTERM)
        signalled.touch()
        assert child.ended() == 0
    assert child.text().split("\n")[:3] == ["began m0", "ended m0", "good bye"]
    assert asyncio.run(after()) == (1, 206)  # one message is done, and the group is empty at once
