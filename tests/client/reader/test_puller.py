"""The reader: pages by position, raw pages, ends and times, following a topic."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from roquet.client.core.pages import records_of
from roquet.client.errors import Closed, Misuse, NoRoute, Refused
from roquet.client.reader.reader import Reader, Status
from roquet.model.route import QueueName
from roquet.wire.requests.topics import UpdateTopic
from tests.client.audience import LISTENERS, TOPIC, Hall
from tests.client.ground import BROKER, NAMES


def reader(hall: Hall, **options: Any) -> Reader:
    return Reader(f"{NAMES[0]}:9876", ports=hall.world.ports(LISTENERS[0]), **options)


QUEUE = QueueName("broker-a", 0, TOPIC)


def test_pages_follow_each_other_by_position() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(5):
            await hall.send(f"m{number}")
        async with reader(hall) as it:
            assert await it.queues(TOPIC) == tuple(QueueName("broker-a", n, TOPIC) for n in range(4))
            assert (await it.min_offset(QUEUE), await it.max_offset(QUEUE)) == (0, 5)
            page = await it.read(QUEUE, 0, max=2)
            assert [message.body for message in page.messages] == [b"m0", b"m1"]
            assert (page.status, page.next_offset, page.min_offset, page.max_offset) == (
                Status.FOUND,
                2,
                0,
                5,
            )
            page = await it.read(QUEUE, page.next_offset)
            assert [message.body for message in page.messages] == [b"m2", b"m3", b"m4"]
            page = await it.read(QUEUE, page.next_offset)
            assert (page.status, page.messages, page.next_offset) == (Status.NOTHING, [], 5)
            page = await it.read(QUEUE, 99)
            assert (page.status, page.next_offset) == (Status.MOVED, 5)

    Hall().play(scenario)


def test_what_is_read_cannot_be_acked() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.send("x")
        async with reader(hall) as it:
            (message,) = (await it.read(QUEUE, 0)).messages
            with pytest.raises(Misuse, match="Consumer"):
                await message.ack()

    Hall().play(scenario)


def test_a_read_may_wait_for_a_message() -> None:
    async def scenario(hall: Hall) -> None:
        async with reader(hall) as it:
            assert (await it.read(QUEUE, 0, wait=timedelta(seconds=2))).status is Status.NOTHING
            page, _ = await asyncio.gather(it.read(QUEUE, 0, wait=10), hall.send("x"))
            assert [message.body for message in page.messages] == [b"x"]

    Hall().play(scenario)


def test_tags_and_sql() -> None:
    async def scenario(hall: Hall) -> None:
        for tag in ("Aa", "BB", "C"):
            await hall.send(tag, tag=tag, properties={"size": str(len(tag))})
        async with reader(hall) as it:
            page = await it.read(QUEUE, 0, tags="Aa")
            assert ([message.tag for message in page.messages], page.next_offset) == (["Aa"], 3)
            assert (await it.read(QUEUE, 0, tags="D")).status is Status.NO_MATCH
            page = await it.read(QUEUE, 0, sql="size = 2")
            assert [message.tag for message in page.messages] == ["Aa", "BB"]
            with pytest.raises(Misuse):
                await it.read(QUEUE, 0, tags="A", sql="size = 2")

    Hall(property_filter=True).play(scenario)


def test_a_raw_page_is_the_log_as_it_lies() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(10):
            await hall.send(f"m{number}")
        async with reader(hall) as it:
            raw = await it.read_raw(QUEUE, 3, max_messages=4)
            assert (raw.status, raw.next_offset, raw.max_offset) == (Status.FOUND, 7, 10)
            assert [each.body for each in records_of(raw.data)] == [b"m3", b"m4", b"m5", b"m6"]
            assert (await it.read_raw(QUEUE, 0, max_bytes=1)).next_offset == 1

    Hall().play(scenario)


def test_offsets_of_a_time() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.send("old")
        await hall.pass_time(100)
        await hall.send("new")
        async with reader(hall) as it:
            assert await it.offset_at(QUEUE, timedelta(seconds=50)) == 1
            assert await it.offset_at(QUEUE, timedelta(seconds=500)) == 0

    Hall().play(scenario)


def test_errors_are_the_trees() -> None:
    async def scenario(hall: Hall) -> None:
        it = reader(hall)
        with pytest.raises(Closed):
            await it.queues(TOPIC)
        async with it:
            with pytest.raises(NoRoute, match="create it"):
                await it.queues("nowhere")
            with pytest.raises(Refused):
                await it.read(QueueName("broker-a", 77, TOPIC), 0)

    Hall().play(scenario)


def test_a_topic_is_followed_over_all_queues_and_a_restart() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        await hall.send("old")
        async with reader(hall) as it:
            got: list[bytes] = []
            async for message in it.follow(TOPIC, start="earliest"):
                got.append(message.body)
                if len(got) == 1:
                    for queue_id in range(4):
                        await hall.send(f"q{queue_id}", queue_id)
                if len(got) == 5:
                    hall.world.kill("127.0.0.3")
                    await hall.start_broker()
                    await hall.sender.ask(BROKER, UpdateTopic(TOPIC, 5, 5, 6))
                    await hall.send("after", 2)
                    await hall.send("new queue", 4)
                if len(got) == 7:
                    break
            assert sorted(got) == [b"after", b"new queue", b"old", b"q0", b"q1", b"q2", b"q3"]

    Hall().play(scenario)


def test_following_ends_when_it_is_left_early_or_the_reader_closes() -> None:
    async def scenario(hall: Hall) -> None:
        async with reader(hall) as it:
            async with it.follow(TOPIC) as messages:
                await hall.send("x", 3)
                assert (await anext(messages)).body == b"x"
            with pytest.raises(StopAsyncIteration):
                await anext(messages)

    Hall().play(scenario)


def test_in_a_namespace_names_are_the_users_own() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.send("x", topic="shop%carts")
        await hall.pass_time(1)
        async with reader(hall, namespace="shop") as it:
            queue = (await it.queues("carts"))[0]
            assert queue.topic == "carts"
            (message,) = (await it.read(queue, 0)).messages
            assert (message.topic, message.body) == ("carts", b"x")

    Hall().play(scenario)
