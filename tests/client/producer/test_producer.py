"""The producer when things go wrong: brokers die, hang, move and refuse, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import (
    BadMessage,
    Misuse,
    NamesUnreachable,
    NoRoute,
    SendFailed,
    TimedOut,
    TransactionUnsettled,
    Unreachable,
)
from roquet.client.hooks import Hook, Sending
from roquet.client.message import Message, Outgoing, Receipt
from roquet.client.producer import posting
from roquet.client.producer.producer import Producer
from roquet.model.route import QueueName
from tests.client.ground import BROKERS, CLIENT, NAMES, NAMESRV, Ground
from tests.client.reading import bodies_of, messages_of


class Attempts(Hook):
    """Notes the broker of every attempt, and how many are under way."""

    def __init__(self) -> None:
        self.brokers: list[str] = []
        self.under_way = 0
        self.most = 0

    def before_send(self, sending: Sending) -> object:
        self.brokers.append(sending.broker)
        self.under_way += len(sending.messages)
        self.most = max(self.most, self.under_way)
        return None

    def after_send(
        self, sending: Sending, token: object, receipts: Sequence[Receipt], error: BaseException | None
    ) -> None:
        self.under_way -= len(sending.messages)


def producer(ground: Ground, **settings: Any) -> Producer:
    return Producer(NAMESRV, ports=ground.world.ports(CLIENT), **settings)


async def settle(ground: Ground, sender: Producer, topic: str) -> None:
    """Make a topic on every broker, and wait until the producer has its real route."""
    for _ in range(8):
        await sender.send(topic, b"settle")
    await ground.pass_time(40)


def test_when_a_broker_dies_the_other_takes_everything() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1, brokers=2)
        hook = Attempts()
        async with producer(ground, hooks=[hook]) as sender:
            await settle(ground, sender, "orders")
            ground.world.kill(BROKERS[0])
            hook.brokers.clear()
            receipts = [await sender.send("orders", b"%d" % n) for n in range(20)]
            assert {receipt.broker for receipt in receipts} == {"broker-b"}
            assert hook.brokers.count("broker-a") <= 2  # it is not asked each time

    Ground().play(scenario)


def test_a_single_broker_may_restart_meanwhile() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground, timeout=60, retries=10) as sender:
            await settle(ground, sender, "orders")
            ground.world.kill(BROKERS[0])
            sending = asyncio.create_task(sender.send("orders", b"patient"))
            await ground.pass_time(3)
            assert not sending.done()
            await ground.start_broker()
            assert (await sending).status == "ok"

    Ground().play(scenario)


def test_a_broker_that_moves_is_found_again() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground) as sender:
            await settle(ground, sender, "orders")
            ground.world.kill(BROKERS[0])
            await ground.start_broker(port=10921)
            assert (await sender.send("orders", b"there")).status == "ok"

    Ground().play(scenario)


def test_when_nobody_is_left_every_attempt_is_told() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground, retries=2) as sender:
            await settle(ground, sender, "orders")
            ground.world.kill(BROKERS[0])
            with pytest.raises(SendFailed, match="could not send to orders .3 tries: broker-a: ") as failed:
                await sender.send("orders", b"x")
        assert [attempt.broker for attempt in failed.value.attempts] == ["broker-a"] * 3
        assert all(isinstance(attempt.error, Unreachable) for attempt in failed.value.attempts)
        assert failed.value.retriable

    Ground().play(scenario)


def test_a_broker_that_is_silent_costs_the_timeout_and_then_it_is_avoided() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1, brokers=2)
        async with producer(ground, timeout=1.0, avoid_slow_brokers=True) as sender:
            await settle(ground, sender, "orders")
            ground.world.net.partition(CLIENT, BROKERS[0])
            started = ground.clock.monotonic()
            with pytest.raises(SendFailed) as failed:
                while True:
                    await sender.send("orders", b"x")
            (attempt,) = failed.value.attempts
            assert (attempt.broker, type(attempt.error)) == ("broker-a", TimedOut)
            assert 1.0 <= ground.clock.monotonic() - started < 1.5
            brokers = {(await sender.send("orders", b"x")).broker for _ in range(10)}
            assert brokers == {"broker-b"}
            ground.world.net.heal_all()
            await ground.pass_time(11)
            brokers = {(await sender.send("orders", b"x")).broker for _ in range(10)}
            assert brokers == {"broker-a", "broker-b"}

    Ground().play(scenario)


def test_a_message_for_one_queue_stays_with_it() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1, brokers=2)
        async with producer(ground) as sender:
            await settle(ground, sender, "orders")
            ground.world.kill(BROKERS[0])
            with pytest.raises(SendFailed) as failed:
                await sender.send("orders", b"x", queue=QueueName("broker-a", 0, "orders"))
            assert [attempt.broker for attempt in failed.value.attempts] == ["broker-a"] * 3

    Ground().play(scenario)


def test_without_a_route_it_says_what_to_do() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground) as sender:
            with pytest.raises(NoRoute, match="roquet topic create nowhere"):
                await sender.send("nowhere", b"x")

    Ground(auto_create_topic=False).play(scenario)


def test_without_a_name_server_it_does_not_open() -> None:
    async def scenario(ground: Ground) -> None:
        with pytest.raises(NamesUnreachable):
            await producer(ground).open()

    Ground().play(scenario)


def test_a_first_message_waits_for_servers_that_come_back() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground, retries=8) as sender:
            for host in (NAMES[0], BROKERS[0]):
                ground.world.kill(host)
            sending = asyncio.create_task(sender.send("orders", b"x", timeout=60))
            await ground.pass_time(1)
            assert not sending.done()
            await ground.start_names()
            await ground.pass_time(1)
            assert not sending.done(), "the name server knows no broker yet"
            await ground.start_broker()
            assert (await sending).broker == "broker-a"

    Ground().play(scenario)


def test_who_is_impatient_hears_that_no_name_server_answers() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground) as sender:
            ground.world.kill(NAMES[0])
            before = ground.clock.monotonic()
            with pytest.raises(NamesUnreachable, match="roquet up"):
                await sender.send("orders", b"x")
            assert ground.clock.monotonic() - before < 1

    Ground().play(scenario)


def test_name_servers_may_go_while_it_sends() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground) as sender:
            await settle(ground, sender, "orders")
            ground.world.kill("127.0.0.2")
            await ground.pass_time(120)
            assert (await sender.send("orders", b"x")).status == "ok"

    Ground().play(scenario)


def test_closing_waits_for_the_sends_of_others() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        sender = producer(ground, max_pending=2)
        async with sender:
            sends = [asyncio.create_task(sender.send("orders", b"x")) for _ in range(7)]
            await ground.pass_time(0)
        assert [(await each).status for each in sends] == ["ok"] * 7

    Ground().play(scenario)


def test_no_more_is_under_way_than_is_allowed() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        hook = Attempts()
        async with producer(ground, hooks=[hook], max_pending=4) as sender:
            await asyncio.gather(*(sender.send("orders", b"x") for _ in range(50)))
            assert hook.most == 4
            hook.most = 0
            await sender.send_many(Outgoing(topic=f"t{n}", body=b"x") for n in range(20))
            assert hook.most <= 4

    Ground().play(scenario)


@pytest.mark.parametrize("batching", [False, True])
def test_a_cancelled_send_leaves_nothing_behind(batching: bool) -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground, batching=batching, max_pending=3) as sender:
            await settle(ground, sender, "orders")
            ground.world.net.partition(CLIENT, BROKERS[0])
            sends = [asyncio.create_task(sender.send("orders", b"%d" % n)) for n in range(6)]
            await ground.pass_time(0.5)
            for task in sends[:5]:
                task.cancel()
            await asyncio.wait(sends[:5])
            ground.world.net.heal_all()
            assert (await sends[5]).status == "ok"
            assert "0 messages pending" in repr(sender)

    Ground().play(scenario)


def test_the_failure_of_an_automatic_batch_reaches_every_sender() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground, batching=True) as sender:
            await settle(ground, sender, "orders")
            ground.world.kill(BROKERS[0])
            outcomes = await asyncio.gather(
                *(sender.send("orders", b"x") for _ in range(10)), return_exceptions=True
            )
            assert [type(outcome) for outcome in outcomes] == [SendFailed] * 10
            with pytest.raises(BadMessage):
                await sender.send("orders", b"x", properties={"TAGS": "t"})

    Ground().play(scenario)


def test_many_tells_how_many_were_stored_when_some_fail() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground) as sender:
            good = [Outgoing(topic="orders", body=b"x") for _ in range(5)]
            bad = Outgoing(topic="bad/name", body=b"x")
            with pytest.raises(BadMessage) as failed:
                await sender.send_many([*good, bad])
            assert failed.value.__notes__ == ["5 of 6 messages were stored"]
            assert await sender.send_many([]) == []
            assert await sender.send_batch("orders", []) == []

    Ground().play(scenario)


def test_a_cancelled_stream_cancels_its_batches() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground) as sender:
            await settle(ground, sender, "orders")
            ground.world.net.partition(CLIENT, BROKERS[0])
            many = asyncio.create_task(
                sender.send_many(Outgoing(topic="orders", body=bytes(1_000)) for _ in range(500))
            )
            await ground.pass_time(0.5)
            many.cancel()
            await asyncio.wait([many])
            assert many.cancelled()
            assert "0 messages pending" in repr(sender)
            ground.world.net.heal_all()

    Ground().play(scenario)


def test_brokers_before_5_0_get_a_delay_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "TIMERS_SINCE_VERSION", 100_000)

    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground) as sender, Cluster(NAMESRV, ports=ground.world.ports(CLIENT)) as cluster:
            receipt = await sender.send("orders", b"x", delay=timedelta(seconds=20))
            assert receipt.recall_handle == ""
            await ground.pass_time(29)
            assert await bodies_of(cluster, "orders") == []
            await ground.pass_time(2)
            assert await bodies_of(cluster, "orders") == [b"x"]
            with pytest.raises(BadMessage, match="cannot delay for 3:00:00"):
                await sender.send("orders", b"x", delay=timedelta(hours=3))

    Ground().play(scenario)


def test_a_transaction_whose_end_is_not_confirmed_is_settled_by_the_check() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        ports = ground.world.ports(CLIENT)
        checked: list[Message] = []

        def check(message: Message) -> str:
            checked.append(message)
            return "commit" if len(checked) > 1 else "perhaps"  # no outcome: asked again

        async with (
            producer(ground, group="bank", check=check) as sender,
            Cluster(NAMESRV, ports=ports) as cluster,
        ):
            await settle(ground, sender, "orders")
            with pytest.raises(TransactionUnsettled, match="check function"):
                async with sender.transaction("orders", b"money"):
                    ground.world.net.partition(CLIENT, BROKERS[0])
                    # what the broker is told stays on the way, too long for a later connection to wait
                    ground.world.net.cut(CLIENT, BROKERS[0])
            ground.world.net.heal_all()
            await ground.pass_time(200)
            bodies = await bodies_of(cluster, "orders")
            assert bodies.count(b"money") == 1
            assert len(checked) == 2 and checked[0].body == b"money"

    Ground().play(scenario)


def test_a_failed_rollback_does_not_hide_the_error() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground) as sender:
            await settle(ground, sender, "orders")
            with pytest.raises(KeyError) as raised:
                async with sender.transaction("orders", b"x"):
                    ground.world.kill(BROKERS[0])
                    raise KeyError("the local work")
            assert "rollback of" in raised.value.__notes__[0]
            with pytest.raises(Misuse, match="cannot have a delay"):
                async with sender.transaction("orders", b"x", delay=timedelta(1)):
                    pass

    Ground().play(scenario)


def test_traces_never_stand_in_the_way() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1)
        async with producer(ground, trace="nobody-made-this") as sender:
            for _ in range(30):
                await sender.send("BenchmarkTest", b"x")
            await ground.pass_time(6)
            (trace,) = sender._hooks
            assert trace.dropped == 30  # type: ignore[attr-defined]

    Ground(auto_create_topic=False).play(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_under_cuts_every_confirmed_message_is_there(seed: int) -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(names=1, brokers=2)
        confirmed: list[str] = []
        is_over = asyncio.Event()

        async def trouble() -> None:
            while not is_over.is_set():
                await ground.pass_time(0.2 + ground.world.rng.random())
                ground.world.net.cut(CLIENT, BROKERS[ground.world.rng.randrange(2)])

        async def send(sender: Producer, name: int) -> None:
            for number in range(60):
                try:
                    receipt = await sender.send("orders", f"{name}/{number}", timeout=5.0)
                    confirmed.append(receipt.message_id)
                except SendFailed:
                    continue
                await ground.pass_time(ground.world.rng.random() / 5)

        async with (
            producer(ground, batching=bool(seed % 2)) as sender,
            Cluster(NAMESRV, ports=ground.world.ports("127.0.0.5")) as cluster,
        ):
            await settle(ground, sender, "orders")
            cutting = asyncio.create_task(trouble())
            await asyncio.gather(*(send(sender, name) for name in range(5)))
            is_over.set()
            await cutting
            stored = {message.message_id for message in await messages_of(cluster, "orders")}
            assert set(confirmed) <= stored
            assert len(confirmed) > 250

    Ground(seed).play(scenario)
