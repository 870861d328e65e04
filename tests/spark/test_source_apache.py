"""The source against a cluster of Apache RocketMQ 5.5.0: a slave instead of its master.

What holds for one broker of either kind is in `tests/spark/any_broker`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import RoquetError
from roquet.spark.plan import from_json
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound
from roquet.wire.requests.topics import GetTopic
from tests.peers import apache
from tests.peers.ports import free_port
from tests.spark.any_broker.test_stream import ALL
from tests.spark.shop import Shop, between, queue, wait_for

pytestmark = pytest.mark.java


def test_a_dead_master_is_read_from_its_slave(tmp_path: Path) -> None:
    names = apache.start_namesrv(tmp_path / "namesrv")
    nodes = [names]
    try:
        ha_port = str(free_port())
        settings = {"haListenPort": ha_port}
        master = apache.start_broker(tmp_path / "master", names.address, settings=settings)
        nodes.append(master)
        slave_settings = {
            "brokerId": "1",
            "brokerRole": "SLAVE",
            "haListenPort": str(free_port()),
            "slaveReadEnable": "true",
        }
        slave = apache.start_broker(tmp_path / "slave", names.address, settings=slave_settings)
        nodes.append(slave)
        with Shop(names.address) as shop:
            shop.topic("orders")
            shop.send("orders", 60)
            reader = shop.stream(
                subscribe="orders", startingOffsets="earliest", retries="8", retryInterval="200ms"
            )
            start = reader.initialOffset()
            wait_for(lambda: _has_all(slave.address, 60), "the slave has topic and messages")
            master.kill()
            end = reader.latestOffset(start, ALL)
            assert from_json(end) == {queue("orders"): 60}
            assert between(reader, start, end) == shop.sent
            reader.stop()
    finally:
        for node in reversed(nodes):
            node.kill()


def _has_all(address: str, count: int) -> bool:
    """Ask a slave itself whether it knows the topic and has its messages."""

    async def ask() -> bool:
        async with Cluster(address, timeout=20.0) as cluster:
            await cluster.ask(address, GetTopic("orders"))
            found = await cluster.ask(address, GetMaxOffset("orders", 0))
            return OffsetFound.decode(found.ext).offset == count

    try:
        return asyncio.run(ask())
    except RoquetError:
        return False
