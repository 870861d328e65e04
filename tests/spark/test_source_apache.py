"""The source against Apache RocketMQ 5.5.0: the same rows, short answers, a slave instead of its master."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import RoquetError
from roquet.spark.options import OptionError
from roquet.spark.plan import from_json
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound
from roquet.wire.requests.topics import GetTopic
from tests.peers import apache
from tests.peers.ports import free_port
from tests.spark.shop import BROKER, Shop, between, places, queue, wait_for
from tests.spark.test_session import places_of, run_stream
from tests.spark.test_stream import ALL, drain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("apache")
    names = apache.start_namesrv(folder / "namesrv")
    try:
        broker = apache.start_broker(
            folder / "broker", names.address, settings={"enablePropertyFilter": "true"}
        )
        try:
            yield names.address
        finally:
            broker.kill()  # Apache's orderly stop takes about 20 s
    finally:
        names.kill()


@pytest.fixture
def shop(namesrv: str) -> Iterator[Shop]:
    with Shop(namesrv) as shop:
        yield shop


def test_batch(shop: Shop) -> None:
    shop.topic("batch", 2)
    before = datetime.now(UTC) - timedelta(seconds=1)
    shop.send("batch", 100, 0, tag="A", keys=("k",), properties={"amount": "5"})
    shop.send("batch", 30, 1, tag="B", body=b"long " * 5000)
    rows = shop.read(subscribe="batch", minPartitions="3")
    assert places(rows) == shop.sent
    assert {len(body) for body in rows["body"].to_pylist()[100:]} == {25_000}
    assert dict(rows["properties"][0].as_py())["amount"] == "5"
    assert len(places(shop.read(subscribe="batch", tags="B"))) == 30
    assert len(places(shop.read(subscribe="batch", sql="amount = 5", pullMessages="7"))) == 100
    assert places(shop.read(subscribe="batch", startingTimestamp=before.isoformat())) == shop.sent
    late = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert places(shop.read(subscribe="batch", endingTimestamp=late)) == shop.sent
    with pytest.raises(OptionError, match="topic batch has no message"):
        shop.read(subscribe="batch", startingTimestamp=late)
    starts = json.dumps({"batch": {BROKER: {"0": 95, "1": -1}}})
    assert len(places(shop.read(subscribe="batch", startingOffsets=starts))) == 5


def test_stream_and_group(shop: Shop) -> None:
    shop.topic("stream")
    shop.send("stream", 50)
    reader = shop.stream(
        subscribe="stream", startingOffsets="earliest", maxOffsetsPerTrigger="20", group="spark_stream"
    )
    start = reader.initialOffset()
    batches = drain(reader, start, reader.getDefaultReadLimit())
    assert [len(batch) for batch in batches] == [20, 20, 10]
    end = reader.latestOffset(start, ALL)
    assert from_json(end) == {queue("stream"): 50}
    reader.commit(end)
    reader.stop()
    progress = shop.admin.offsets.progress("spark_stream", "stream")
    assert [each.consumer_offset for each in progress.queues] == [50]


@pytest.mark.process
def test_in_a_session(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("session", 2)
    shop.send("session", 40, 1)
    given = {"subscribe": "session", "startingOffsets": "earliest"}
    table = spark.read.format("roquet").options(**shop.options(subscribe="session")).load()
    assert places_of(table) == shop.sent
    run_stream(spark, shop, tmp_path, **given)
    shop.send("session", 5, 0)
    run_stream(spark, shop, tmp_path, **given)
    assert places_of(spark.read.parquet(str(tmp_path / "rows"))) == sorted(shop.sent)


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
