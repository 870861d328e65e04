"""Traces on virtual time: when they leave, what of consumers they tell, and what happens to too many."""

from __future__ import annotations

from roquet.client.cluster.cluster import Cluster
from roquet.client.hooks import Consuming
from roquet.client.message import Message
from roquet.client.producer.producer import Producer
from roquet.client.trace import WAITING_MAX, Trace
from roquet.model.names import TRACE_TOPIC
from tests.client.ground import CLIENT, NAMESRV, Ground
from tests.client.reading import messages_of

GROUND = {"trace_topic": True}


async def records_of(cluster: Cluster) -> list[list[str]]:
    """Return the fields of all trace records."""
    texts = [message.body.decode() for message in await messages_of(cluster, TRACE_TOPIC)]
    return [record.split("\x01") for text in texts for record in text.split("\x02") if record]


def test_ten_records_leave_at_once_and_fewer_after_five_seconds() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        ports = ground.world.ports(CLIENT)
        async with (
            Cluster(NAMESRV, ports=ports) as cluster,
            Producer(cluster, trace=True, group="g") as producer,
        ):
            for _ in range(12):
                await producer.send("orders", b"x")
            await ground.pass_time(1)
            assert len(await records_of(cluster)) == 10
            await ground.pass_time(5)
            assert len(await records_of(cluster)) == 12
            carriers = await messages_of(cluster, TRACE_TOPIC)
            assert sorted(len(carrier.keys) for carrier in carriers) == [2, 10]

    Ground(**GROUND).play(scenario)


def test_closing_sends_the_rest() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        ports = ground.world.ports(CLIENT)
        async with Cluster(NAMESRV, ports=ports) as cluster:
            async with Producer(cluster, trace=True) as producer:
                await producer.send("orders", b"x")
            assert len(await records_of(cluster)) == 1

    Ground(**GROUND).play(scenario)


def test_consumptions_are_told_before_and_after() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        ports = ground.world.ports(CLIENT)
        async with Cluster(NAMESRV, ports=ports) as cluster, Producer(cluster) as producer:
            for number in range(2):
                await producer.send("orders", b"%d" % number, keys=["k"], queue=lambda queues: queues[0])
            await ground.pass_time(1)
            messages: list[Message] = await messages_of(cluster, "orders")
            trace = Trace(cluster)
            consuming = Consuming("billing", messages)
            token = trace.before_consume(consuming)
            await ground.pass_time(0.04)
            trace.after_consume(consuming, token, "retry", None)
            await trace.close()
            records = await records_of(cluster)
        assert [record[0] for record in records] == ["SubBefore"] * 2 + ["SubAfter"] * 2
        for message, before, after in zip(messages, records[:2], records[2:], strict=True):
            request_id = before[4]
            assert before[2:4] + before[5:] == ["DefaultRegion", "billing", message.message_id, "0", "k"]
            assert after[1:8] == [request_id, message.message_id, "20", "false", "k", "4", after[7]]
            assert after[8] == "billing"

    Ground(**GROUND).play(scenario)


def test_what_the_broker_does_not_want_traced_is_not() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        ports = ground.world.ports(CLIENT)
        async with Cluster(NAMESRV, ports=ports) as cluster:
            async with Producer(cluster, trace=True) as producer:
                receipt = await producer.send("orders", b"x")
                assert not receipt.is_traced
            assert await records_of(cluster) == []

    Ground(**GROUND, trace_on=False).play(scenario)


def test_too_many_records_are_counted_and_dropped() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        ports = ground.world.ports(CLIENT)
        async with Cluster(NAMESRV, ports=ports) as cluster:
            trace = Trace(cluster)
            for number in range(WAITING_MAX + 7):
                trace.after_recall("g", "orders", f"ID{number}", None)
            assert trace.dropped == 7
            await trace.close()
            assert len(await records_of(cluster)) == WAITING_MAX

    Ground(**GROUND).play(scenario)
