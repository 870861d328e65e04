"""Large answers for readers that ask for them, small ones for all others; slaves when a master is away."""

from __future__ import annotations

import asyncio

import pytest

from roquet.client.core.route_view import RouteView
from roquet.client.errors import Unreachable
from roquet.client.message import Outgoing
from roquet.client.reader.reader import Bounds, Reader, Status
from roquet.model.route import BrokerData, QueueName
from roquet.store.format.page import read_page
from roquet.testing import LocalBroker, broker

COUNT = 1500
QUEUE = QueueName("broker-a", 0, "orders")
DEAD = "127.0.0.1:1"


async def fill(mq: LocalBroker) -> None:
    async with mq.admin() as admin:
        await admin.topics.create("orders", queues=1)
    async with mq.producer() as producer:
        for first in range(0, COUNT, 100):
            await producer.send_batch(
                "orders",
                [
                    Outgoing(topic="orders", body=b"x" * 100, tag="odd" if number % 2 else "even")
                    for number in range(first, first + 100)
                ],
            )


def count(data: bytes) -> int:
    return len(read_page(data))


def test_a_bulk_reader_gets_all_that_it_asked_for() -> None:
    async def main() -> None:
        async with broker() as mq, mq.reader() as reader:
            await fill(mq)
            page = await reader.read_raw(QUEUE, 0, max_messages=10_000)
            assert (page.status, page.next_offset, count(page.data)) == (Status.FOUND, COUNT, COUNT)
            some = await reader.read_raw(QUEUE, 100, max_messages=300)
            assert (some.next_offset, count(some.data)) == (400, 300)
            odd = await reader.read_raw(QUEUE, 0, max_messages=400, tags="odd")
            assert (odd.next_offset, count(odd.data)) == (800, 400)
            kept = await reader.read_raw(QUEUE, 0, max_messages=10_000, max_bytes=5_000)
            assert 4_000 < len(kept.data) <= 5_000

    asyncio.run(main())


def test_others_get_what_consumers_get() -> None:
    async def main() -> None:
        async with broker() as mq, mq.reader() as reader:
            await fill(mq)
            page = await reader.read(QUEUE, 0, max=10_000)
            assert len(page.messages) == 32

    asyncio.run(main())


def test_the_broker_bounds_bulk_answers() -> None:
    async def main() -> None:
        async with broker(maxTransferBytesOnBulkPull=20_000) as mq, mq.reader() as reader:
            await fill(mq)
            page = await reader.read_raw(QUEUE, 0, max_messages=10_000)
            assert 15_000 < len(page.data) <= 20_000

    asyncio.run(main())


def test_answers_go_over_the_ends_of_log_files() -> None:
    async def main() -> None:
        async with broker(mappedFileSizeCommitLog=64 * 1024) as mq, mq.reader() as reader:
            await fill(mq)
            offset, found = 0, 0
            while offset < COUNT:
                page = await reader.read_raw(QUEUE, offset, max_messages=10_000)
                found += count(page.data)
                offset = page.next_offset
            assert found == COUNT

    asyncio.run(main())


def test_queues_that_take_turns_in_the_log_are_read_in_one_stretch() -> None:
    """The same records whether they lie together, near each other or far apart."""

    async def main() -> None:
        async with broker() as mq, mq.reader() as reader, mq.producer(compress_above=None) as producer:
            async with mq.admin() as admin:
                await admin.topics.create("mixed", queues=3)
            for number in range(300):
                body = b"%d" % number + b"x" * (20_000 if 150 <= number < 160 else 0)
                await producer.send("mixed", body, queue=QueueName("broker-a", number % 3, "mixed"))
            for queue_id in range(3):
                queue = QueueName("broker-a", queue_id, "mixed")
                page = await reader.read_raw(queue, 0, max_messages=1000)
                bodies = [record.body.rstrip(b"x") for record in read_page(page.data)]
                assert bodies == [b"%d" % number for number in range(queue_id, 300, 3)]
                near = await reader.read_raw(queue, 5, max_messages=20)
                bodies = [record.body for record in read_page(near.data)]
                assert bodies == [b"%d" % number for number in range(queue_id, 300, 3)][5:25]

    asyncio.run(main())


async def with_replicas(reader: Reader, addresses: dict[int, str]) -> None:
    """Let a reader believe that these are the replicas of its only broker."""
    known = (await reader._cluster.route("orders")).route
    data = BrokerData(broker_addrs=addresses, broker_name="broker-a", cluster="c")
    view = RouteView("orders", known._replace(brokers=(data,)))
    reader._cluster._routes._known["orders"].view = view


def test_a_slave_is_read_while_the_master_is_away() -> None:
    async def main() -> None:
        async with broker() as mq, mq.reader() as reader:
            await fill(mq)
            assert await reader.bounds(QUEUE) == Bounds(0, COUNT, is_master=True)
            await with_replicas(reader, {0: DEAD, 1: mq.address})
            assert await reader.bounds(QUEUE) == Bounds(0, COUNT, is_master=False)
            page = await reader.read_raw(QUEUE, 10, max_messages=5)
            assert (page.next_offset, count(page.data)) == (15, 5)
            await with_replicas(reader, {0: DEAD})
            with pytest.raises(Unreachable):
                await reader.read_raw(QUEUE, 0)

    asyncio.run(main())
