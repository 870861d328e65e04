"""Consumers in trouble: brokers and name servers die, links are cut and stall, hands are cancelled.

Whatever happens, every stored message is consumed at least once, and when it is quiet nothing is stuck.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from roquet.client.consumer.consumer import Consumer, Sql
from roquet.client.errors import NamesUnreachable
from roquet.client.message import Message
from roquet.model.route import QueueName
from roquet.wire.requests.offsets import UpdateOffset
from roquet.wire.requests.send import SendV2
from tests.client.audience import LISTENERS, TOPIC, Hall, Notes
from tests.client.ground import BROKER, BROKERS, NAMES


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_broker_that_comes_back_is_read_on(power_cut: bool) -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer(handler=(notes := Notes())):
            await hall.send("before")
            await hall.until(lambda: notes.bodies == [b"before"])
            await hall.pass_time(10)
            if power_cut:
                hall.world.power_cut(BROKERS[0])
            else:
                hall.world.kill(BROKERS[0])
            await hall.pass_time(100)
            hall.world.power_on(BROKERS[0])
            await hall.start_broker()
            for queue_id in range(4):
                await hall.send(f"after{queue_id}", queue_id)
            await hall.until(lambda: len(set(notes.bodies)) == 5, limit_s=60)

    Hall().play(scenario)


def test_one_broker_of_two_is_enough_to_begin_and_to_go_on() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        hall.world.kill(BROKERS[1])
        async with hall.consumer(
            subscribe={TOPIC: Sql("TAGS IS NULL")}, handler=(notes := Notes())
        ) as consumer:
            await hall.send("to a")
            await hall.until(lambda: notes.bodies == [b"to a"], limit_s=10)
            await hall.start_broker(1)
            await hall.until(lambda: len(consumer.assigned) == 8, limit_s=60)
            hall.world.kill(BROKERS[0])
            request = SendV2("p", TOPIC, "TBW102", 4, 0, 0, 0, 0)
            await hall.sender.ask(f"{BROKERS[1]}:10911", request, b"to b")
            await hall.until(lambda: notes.bodies == [b"to a", b"to b"], limit_s=60)
            await hall.start_broker(0)

    Hall(property_filter=True).play(scenario, brokers=2)


def test_consuming_goes_on_without_name_servers() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer(handler=(notes := Notes())):
            await hall.send("m0")
            hall.world.kill(NAMES[0])
            for number in range(20):
                await hall.send(f"m{number}", number % 4)
                await hall.pass_time(20)
            await hall.until(lambda: len(set(notes.bodies)) == 20)
            await hall.start_names()
            await hall.pass_time(60)

    Hall().play(scenario)


def test_a_message_is_not_lost_when_nobody_takes_it_back() -> None:
    async def scenario(hall: Hall) -> None:
        def fail_once(message: Message) -> None:
            if message.attempt == 1:
                hall.world.kill(BROKERS[0])
                raise RuntimeError("no")

        async with hall.consumer(handler=(notes := Notes(fail_once))):
            await hall.send("x")
            await hall.until(lambda: len(notes) == 2, limit_s=60)
            assert [message.attempt for message in notes.messages] == [1, 2]
            await hall.start_broker()
            await hall.pass_time(20)
            assert await hall.committed() == 1

    Hall().play(scenario)


def test_an_offset_beyond_the_end_is_moved_back() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        await hall.send("m0")
        async with hall.consumer(handler=(notes := Notes())):
            await hall.until(lambda: len(notes) == 1)
        await hall.sender.ask(BROKER, UpdateOffset("billing", TOPIC, 0, 1000))
        async with hall.consumer(handler=(notes := Notes())):
            await hall.pass_time(5)
            await hall.send("m1")
            await hall.until(lambda: notes.bodies == [b"m1"], limit_s=20)
        assert await hall.committed() == 2

    Hall().play(scenario)


def test_cancelled_hands_leave_nothing_stuck() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer() as consumer:
            stream = aiter(consumer)
            waiting = asyncio.ensure_future(anext(stream))
            await hall.pass_time(1)
            waiting.cancel()
            await hall.send("x")
            message = await anext(stream)
            giving = asyncio.ensure_future(message.retry())
            await hall.pass_time(0)
            giving.cancel()
            again = await anext(stream)
            assert (again.body, again.attempt) == (b"x", 2)
            await again.ack()
        assert await hall.committed() == 1

    Hall().play(scenario)


def test_opening_may_be_cancelled() -> None:
    async def scenario(hall: Hall) -> None:
        for step in range(12):
            opening = asyncio.ensure_future(hall.consumer().open())
            await hall.pass_time(0.002 * step)
            opening.cancel()
            await asyncio.wait([opening])
            if not opening.cancelled():
                return  # it was faster
        await hall.pass_time(1)

    with pytest.raises(AssertionError, match="left behind.*pulls orders"):
        Hall().play(_leave_open)
    Hall().play(scenario)


async def _leave_open(hall: Hall) -> None:
    await hall.consumer().open()  # never closed: the ground must notice


def test_a_cluster_that_is_closed_first_ends_loops_and_leaves_nothing() -> None:
    async def scenario(hall: Hall) -> None:
        cluster = hall.cluster()
        await cluster.open()
        async with Consumer(cluster, group="billing", subscribe=TOPIC) as consumer:
            await cluster.close()  # the consumer's own opening still holds it
            await hall.send("x")
            await (await anext(aiter(consumer))).ack()
            await cluster.close()
            assert [message async for message in consumer] == []

    Hall().play(scenario)


def test_a_rule_that_fails_leaves_the_shares_as_they_are() -> None:
    async def scenario(hall: Hall) -> None:
        mood = ["good"]

        def moody(client_id: str, queues: Sequence[QueueName], members: Sequence[str]) -> Sequence[QueueName]:
            if mood == ["bad"]:
                raise ZeroDivisionError
            return queues[:2] if mood == ["good"] else queues

        async with hall.consumer(assign=moody) as consumer:
            assert len(consumer.assigned) == 2
            mood[0] = "bad"
            await hall.pass_time(60)
            assert len(consumer.assigned) == 2
            mood[0] = "better"
            await hall.until(lambda: len(consumer.assigned) == 4, limit_s=3)

    Hall().play(scenario)


def test_a_disk_that_refuses_does_not_stop_a_broadcasting_consumer() -> None:
    async def scenario(hall: Hall) -> None:
        disk = hall.world.disk(LISTENERS[0])
        async with hall.consumer(broadcast=True, offsets_dir="/offsets", handler=(notes := Notes())):
            disk.capacity_bytes = 0
            for _ in range(3):
                await hall.send("x")
                await hall.pass_time(10)
            assert len(notes) == 3
            assert not disk.exists(f"/offsets/{LISTENERS[0]}@DEFAULT/billing/offsets.json")

    Hall().play(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_every_stored_message_is_consumed_and_nothing_is_stuck(seed: int) -> None:
    async def scenario(hall: Hall) -> None:
        rng, got = hall.world.rng, set[bytes]()

        async def note(message: Message) -> None:
            await hall.pass_time(rng.random() * 0.3)
            if rng.random() < 0.05:
                raise RuntimeError("sometimes")
            got.add(message.body)

        async def member(host: str) -> None:
            while not quiet.is_set():
                try:
                    async with hall.consumer(host, handler=note, concurrency=4, batch=8):
                        await hall.pass_time(30 + rng.random() * 100)
                except NamesUnreachable:  # nobody to ask at the start
                    await hall.pass_time(5)

        async def trouble() -> None:
            for _ in range(8):
                await hall.pass_time(rng.random() * 30)
                await _one_fault(hall)
            hall.world.net.heal_all()

        quiet = asyncio.Event()
        async with hall.consumer(LISTENERS[2], handler=note), asyncio.TaskGroup() as group:
            for host in LISTENERS[:2]:
                group.create_task(member(host))
            troubles = group.create_task(trouble())
            for number in range(200):
                await hall.send(f"m{number}", number % 4)
                await hall.pass_time(rng.random())
            await troubles
            quiet.set()
            await hall.until(lambda: len(got) == 200, limit_s=600)

    Hall(seed).play(scenario, limit_s=7_200)


async def _one_fault(hall: Hall) -> None:
    rng, net = hall.world.rng, hall.world.net
    listener, broker = LISTENERS[rng.randrange(3)], BROKERS[0]
    fault = rng.randrange(5)
    if fault == 0:
        net.cut(listener, broker)
    elif fault == 1:
        net.clog(broker, listener, rng.random() * 60)
    elif fault == 2:
        hall.world.kill(broker)
        await hall.pass_time(rng.random() * 20)
        await hall.start_broker()
    elif fault == 3:
        net.partition(listener, broker)
        await hall.pass_time(rng.random() * 60)
        net.heal(listener, broker)
    else:
        hall.world.kill(NAMES[0])
        await hall.pass_time(rng.random() * 20)
        await hall.start_names()
