"""The producer against each server: whatever is sent is there, as it was sent, where the receipt says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.compression import Compression
from roquet.client.core.choose import by_key
from roquet.client.errors import BadMessage, Busy, Closed, Misuse, NotAllowed, Refused
from roquet.client.hooks import Hook, Sending
from roquet.client.message import Message, Outgoing, Receipt
from roquet.client.producer.producer import Producer
from roquet.model.message import SysFlag
from roquet.model.route import QueueName
from tests.client.contract.server import Server
from tests.client.reading import bodies_of, messages_of


@asynccontextmanager
async def opened(server: Server, **settings: Any) -> AsyncIterator[tuple[Producer, Cluster]]:
    """Give a producer and a cluster of its own to look at what it has sent."""
    async with (
        Cluster(server.namesrv, ports=server.ports) as cluster,
        Producer(server.namesrv, ports=server.ports, **settings) as producer,
    ):
        yield producer, cluster


async def stored(server: Server, cluster: Cluster, topic: str, count: int) -> list[Message]:
    """Return the messages of a topic, which the name server may hear of a moment after the first."""
    found: list[Message] = []

    async def came() -> bool:
        found[:] = await messages_of(cluster, topic)
        return len(found) >= count

    await server.eventually(came)
    assert len(found) == count
    return found


def test_a_message_is_stored_as_it_was_sent(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("orders")
        async with opened(server) as (producer, cluster):
            receipt = await producer.send(
                topic, "käse", tag="paid", keys=["42", "x7"], properties={"shop": "Zürich"}
            )
            (message,) = await stored(server, cluster, topic, 1)
        assert message.body == "käse".encode()
        assert (message.tag, message.keys, message.properties["shop"]) == ("paid", ["42", "x7"], "Zürich")
        assert receipt.message_id == message.message_id
        assert receipt.offset_id == message.offset_id
        assert (receipt.queue_id, receipt.queue_offset) == (message.queue_id, message.queue_offset)
        assert (receipt.topic, receipt.broker, receipt.status) == (topic, "broker-a", "ok")

    server.run(scenario())


def test_queues_take_turns(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("turns")
        async with opened(server) as (producer, _):
            receipts = [await producer.send(topic, b"x") for _ in range(8)]
        assert sorted(receipt.queue_id for receipt in receipts) == [0, 0, 1, 1, 2, 2, 3, 3]

    server.run(scenario())


def test_equal_keys_share_a_queue_and_keep_their_order(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("ordered")
        async with opened(server) as (producer, cluster):
            for number in range(12):
                await producer.send(topic, str(number), ordering_key=f"customer-{number % 3}")
            queues = (await cluster.publish_route(topic)).write_queues()
            found = await stored(server, cluster, topic, 12)
        for customer in range(3):
            key = f"customer-{customer}"
            mine = [message for message in found if message.properties["__SHARDINGKEY"] == key]
            assert {message.queue_id for message in mine} == {by_key(queues, key).queue_id}
            assert [message.body for message in mine] == [b"%d" % n for n in range(customer, 12, 3)]

    server.run(scenario())


def test_a_queue_may_be_named_or_chosen(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("chosen")

        def last(queues: Sequence[QueueName]) -> QueueName:
            return queues[-1]

        async with opened(server) as (producer, _):
            named = await producer.send(topic, b"x", queue=QueueName("broker-a", 2, topic))
            chosen = await producer.send(topic, b"x", queue=last)
        assert (named.queue_id, chosen.queue_id) == (2, 3)

    server.run(scenario())


@pytest.mark.parametrize("compression", ["zlib", "lz4", "zstd"])
def test_long_bodies_travel_compressed(server: Server, compression: Compression) -> None:
    async def scenario() -> None:
        topic = server.fresh("long")
        body = b"abcdefgh" * 2_000
        async with opened(server, compression=compression) as (producer, cluster):
            await producer.send(topic, body)
            (message,) = await stored(server, cluster, topic, 1)
        assert message.record.sys_flag & SysFlag.COMPRESSED
        assert len(message.record.body) < 1_000
        assert message.body == body

    server.run(scenario())


def test_a_batch_lies_in_one_queue_in_its_order(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("batch")
        batch = [Outgoing(topic=topic, body=b"%d" % n, tag="t", keys=[f"k{n}"]) for n in range(10)]
        async with opened(server) as (producer, cluster):
            await producer.send(topic, b"first")
            receipts = await producer.send_batch(topic, [*batch, b"bare", "text"])
            found = {each.message_id: each for each in await stored(server, cluster, topic, 13)}
        assert len({receipt.queue_id for receipt in receipts}) == 1
        bodies = [found[receipt.message_id].body for receipt in receipts]
        assert bodies == [*(b"%d" % n for n in range(10)), b"bare", b"text"]
        for receipt in receipts:
            message = found[receipt.message_id]
            assert (message.offset_id, message.queue_offset) == (receipt.offset_id, receipt.queue_offset)

    server.run(scenario())


def test_a_large_batch_is_split_at_the_limit(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("split")
        async with opened(server, timeout=10.0) as (producer, cluster):
            receipts = await producer.send_batch(topic, [b"x" * 100_000] * 60)
            await stored(server, cluster, topic, 60)
        assert len({receipt.queue_id for receipt in receipts}) == 2

    server.run(scenario())


def test_many_messages_of_many_topics(server: Server) -> None:
    async def scenario() -> None:
        topics = [server.fresh("many") for _ in range(3)]
        messages = [
            Outgoing(
                topic=topics[n % 3],
                body=b"%d" % n if n % 50 else b"%d" % n + bytes(5_000),
                ordering_key=f"key-{n % 4}" if n % 3 == 0 else None,
            )
            for n in range(1_500)
        ]

        async def stream() -> AsyncIterator[Outgoing]:
            for message in messages:
                yield message

        async with opened(server, timeout=10.0) as (producer, cluster):
            receipts = await producer.send_many(messages) + await producer.send_many(stream())
            found = {m.message_id: m for topic in topics for m in await stored(server, cluster, topic, 1_000)}
        assert len(receipts) == 3_000
        for message, receipt in zip(messages * 2, receipts, strict=True):
            there = found[receipt.message_id]
            assert (there.topic, there.body) == (message.topic, message.body)
        for key in range(4):
            places = [
                receipt.queue_offset
                for message, receipt in zip(messages, receipts, strict=False)
                if message.ordering_key == f"key-{key}"
            ]
            assert places == sorted(places)

    server.run(scenario())


def test_under_load_messages_travel_together(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("load")
        requests = Requests()
        async with opened(server, batching=True, hooks=[requests]) as (producer, cluster):
            await producer.send(topic, b"alone")
            receipts = await asyncio.gather(*(producer.send(topic, b"%d" % n) for n in range(300)))
            found = {each.message_id: each.body for each in await stored(server, cluster, topic, 301)}
        assert [found[receipt.message_id] for receipt in receipts] == [b"%d" % n for n in range(300)]
        assert len(requests.seen) < 30

    server.run(scenario())


def test_a_delayed_message_comes_in_its_time(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("later")
        async with opened(server) as (producer, cluster):
            await producer.send(topic, b"now")
            await producer.send(topic, b"soon", delay=timedelta(seconds=2))
            due = server.now() + timedelta(seconds=3)
            await producer.send(topic, b"then", deliver_at=due)
            await server.advance(timedelta(seconds=4))

            async def came() -> bool:
                return sorted(await bodies_of(cluster, topic)) == [b"now", b"soon", b"then"]

            await server.eventually(came)
            found = {message.body: message for message in await messages_of(cluster, topic)}
            assert found[b"soon"].store_time - found[b"soon"].born_time >= timedelta(seconds=2)
            assert found[b"then"].store_time >= due - timedelta(milliseconds=1)  # times travel as such

    server.run(scenario())


def test_a_delayed_message_can_be_taken_back(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("recall")
        async with opened(server) as (producer, cluster):
            gone = await producer.send(topic, b"gone", delay=timedelta(seconds=3))
            await producer.send(topic, b"kept", delay=timedelta(seconds=3))
            assert await producer.recall(topic, gone.recall_handle) == gone.message_id
            await server.advance(timedelta(seconds=5))

            async def came() -> bool:
                return bool(await bodies_of(cluster, topic))

            await server.eventually(came)
            assert await bodies_of(cluster, topic) == [b"kept"]
            with pytest.raises(Refused):
                await producer.recall(topic, gone.recall_handle)
            with pytest.raises(Misuse):
                await producer.recall(topic, "nonsense")

    server.run(scenario())


def test_one_way_and_in_the_background(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("quick")
        async with opened(server, max_pending=3) as (producer, cluster):
            await producer.send(topic, b"first")
            await producer.send_one_way(topic, b"one way", tag="t")
            futures = [producer.send_nowait(topic, b"%d" % n) for n in range(3)]
            with pytest.raises(Busy, match="await send"):
                producer.send_nowait(topic, b"too many")
            late = asyncio.create_task(producer.send(topic, b"waits"))
            receipts = [*await asyncio.gather(*futures), await late]
            assert len({receipt.message_id for receipt in receipts}) == 4

            async def came() -> bool:
                return sorted(await bodies_of(cluster, topic)) == [
                    b"0", b"1", b"2", b"first", b"one way", b"waits",
                ]  # fmt: skip

            await server.eventually(came)

    server.run(scenario())


def test_closing_waits_for_what_is_under_way(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("closing")
        async with Cluster(server.namesrv, ports=server.ports) as cluster:
            producer = Producer(server.namesrv, ports=server.ports)
            with pytest.raises(Closed):
                await producer.send(topic, b"too early")
            async with producer:
                sent = producer.send_nowait(topic, b"x")
            assert sent.done() and (await sent).status == "ok"
            with pytest.raises(Closed):
                await producer.send(topic, b"too late")
            assert [message.body for message in await stored(server, cluster, topic, 1)] == [b"x"]

    server.run(scenario())


def test_namespaces_are_not_seen(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("spaced")
        async with opened(server, namespace="shop") as (producer, cluster):
            receipt = await producer.send(topic, b"x")
            (message,) = await stored(server, cluster, f"shop%{topic}", 1)
        assert receipt.topic == topic
        assert message.properties["INSTANCE_ID"] == "shop"

    server.run(scenario())


def test_rules_are_checked_before_anything_is_sent(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("rules")
        async with opened(server, max_message_bytes=1_000, compress_above=None) as (producer, cluster):
            with pytest.raises(BadMessage, match="allowed are 1000"):
                await producer.send(topic, b"x" * 1_001)
            with pytest.raises(BadMessage, match="illegal characters"):
                await producer.send("no/slash", b"x")
            with pytest.raises(BadMessage, match="give tag="):
                await producer.send_batch(topic, [Outgoing(topic=topic, body=b"x", properties={"TAGS": "t"})])
            with pytest.raises(Misuse, match="use send_many"):
                await producer.send_batch(topic, [Outgoing(topic="another", body=b"x")])
            assert await messages_of(cluster, topic) == []

    server.run(scenario())


def test_a_server_that_says_no_is_quoted(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("refused")
        async with opened(server) as (producer, _):
            await producer.send(topic, b"x")
            with pytest.raises(Refused, match="queueId") as refused:
                await producer.send(topic, b"x", queue=QueueName("broker-a", 99, topic))
        assert refused.value.code == 29
        assert not isinstance(refused.value, NotAllowed)

    server.run(scenario())


class Requests(Hook):
    """Keeps what hooks are told, and adds a property."""

    def __init__(self) -> None:
        self.seen: list[Sending] = []
        self.receipts: list[Receipt] = []
        self.errors: list[BaseException | None] = []

    def before_send(self, sending: Sending) -> object:
        self.seen.append(sending)
        for properties in sending.properties:
            properties["seen-by"] = "hook"
        return len(self.seen)

    def after_send(
        self, sending: Sending, token: object, receipts: Sequence[Receipt], error: BaseException | None
    ) -> None:
        assert token is not None
        self.receipts += receipts
        self.errors.append(error)


class Broken(Hook):
    """A hook that fails."""

    def before_send(self, sending: Sending) -> object:
        raise RuntimeError("before")

    def after_send(
        self, sending: Sending, token: object, receipts: Sequence[Receipt], error: BaseException | None
    ) -> None:
        raise RuntimeError("after")


def test_hooks_see_and_add(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("hooks")
        hook = Requests()
        async with opened(server, group="hooked", hooks=[Broken(), hook]) as (producer, cluster):
            one = await producer.send(topic, b"one", ordering_key="k")
            two = await producer.send_batch(topic, [b"two", b"three"])
            with pytest.raises(Refused):
                await producer.send(topic, b"x", queue=QueueName("broker-a", 99, topic))
            found = await stored(server, cluster, topic, 3)
        assert [(seen.kind, len(seen.messages), seen.group) for seen in hook.seen] == [
            ("order", 1, "hooked"),
            ("batch", 2, "hooked"),
            ("normal", 1, "hooked"),
        ]
        assert hook.receipts == [one, *two]
        assert [type(error) for error in hook.errors] == [type(None), type(None), Refused]
        assert {message.properties["seen-by"] for message in found} == {"hook"}

    server.run(scenario())
