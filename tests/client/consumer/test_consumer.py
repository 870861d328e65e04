"""The consumer against the real programs in a simulated world: what it gets, and what becomes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from roquet.client.errors import Closed, Misuse
from roquet.client.message import Message
from tests.client.audience import LISTENERS, TOPIC, Hall, Notes


def test_messages_come_by_async_for_and_are_done_with_ack() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(10):
            await hall.send(f"m{number}", queue_id=number % 4, tag="created", keys=f"k{number}")
        got: list[Message] = []
        async with hall.consumer() as consumer:
            async for message in consumer:
                got.append(message)
                await message.ack()
                if len(got) == 10:
                    break
        assert sorted(message.body for message in got) == [b"m%d" % number for number in range(10)]
        assert {(message.topic, message.tag, message.attempt) for message in got} == {(TOPIC, "created", 1)}
        assert [await hall.committed(queue_id=queue_id) for queue_id in range(4)] == [3, 3, 2, 2]

    Hall().play(scenario)


def test_batches_hold_at_most_max_and_are_never_empty() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(25):
            await hall.send(f"m{number}")
        sizes: list[int] = []
        async with hall.consumer(batch=32) as consumer:
            async for batch in consumer.batches(max=10, timeout=0.5):
                sizes.append(len(batch))
                for message in batch:
                    await message.ack()
                if sum(sizes) == 25:
                    break
        assert sizes == [10, 10, 5]
        assert await hall.committed() == 25

    Hall().play(scenario)


def test_a_batch_waits_for_more_only_so_long() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer() as consumer:
            batches = consumer.batches(max=10, timeout=timedelta(seconds=3))
            await hall.send("one")
            began = hall.clock.monotonic()
            batch = await anext(batches)
            waited = hall.clock.monotonic() - began
            assert [message.body for message in batch] == [b"one"]
            assert 2.9 < waited < 3.5

    Hall().play(scenario)


def test_with_auto_ack_a_message_is_done_when_the_next_is_asked_for() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(3):
            await hall.send(f"m{number}")
        async with hall.consumer(auto_ack=True) as consumer:
            stream = aiter(consumer)
            for _ in range(3):
                await anext(stream)
        assert await hall.committed() == 2  # the third was in hand when we left
        async with hall.consumer(auto_ack=True) as consumer:
            assert (await anext(aiter(consumer))).body == b"m2"

    Hall().play(scenario)


def test_handlers_work_beside_each_other_up_to_their_number() -> None:
    async def scenario(hall: Hall) -> None:
        at_once = most = 0

        async def slow(message: Message) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await hall.pass_time(1)
            at_once -= 1

        notes = Notes(slow)
        async with hall.consumer(handler=notes, concurrency=3):
            for number in range(9):
                await hall.send(f"m{number}", queue_id=number % 4)
            await hall.until(lambda: len(notes) == 9 and at_once == 0)
        assert most == 3
        assert sorted(notes.bodies) == [b"m%d" % number for number in range(9)]

    Hall().play(scenario)


def test_a_plain_function_may_be_the_handler() -> None:
    async def scenario(hall: Hall) -> None:
        bodies: list[bytes] = []
        async with hall.consumer(handler=lambda message: bodies.append(message.body)):
            await hall.send("x")
            await hall.until(lambda: bodies == [b"x"])

    Hall().play(scenario)


def test_the_position_stays_at_the_lowest_unfinished_message() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(5):
            await hall.send(f"m{number}")
        async with hall.consumer() as consumer:
            messages = await anext(consumer.batches(max=5, timeout=1))
            for number in (0, 1, 3, 4):
                await messages[number].ack()
            await hall.pass_time(6)
            assert await hall.committed() == 2
        async with hall.consumer() as consumer:  # what came after the unfinished one comes again, too
            again = await anext(consumer.batches(max=5, timeout=1))
            assert [message.body for message in again] == [b"m2", b"m3", b"m4"]

    Hall().play(scenario)


def test_what_a_handler_fails_on_comes_again_and_ends_with_the_dead_letters() -> None:
    async def scenario(hall: Hall) -> None:
        def fail(message: Message) -> None:
            raise RuntimeError("no")

        notes, began = Notes(fail), hall.clock.monotonic()
        async with hall.consumer(handler=notes, max_attempts=3):
            await hall.send("x", keys="k")
            await hall.until(lambda: len(notes) == 3)
            assert 35 < hall.clock.monotonic() - began < 60  # ten seconds, then thirty
            assert [message.attempt for message in notes.messages] == [1, 2, 3]
            assert {message.topic for message in notes.messages} == {TOPIC}
            assert len({message.message_id for message in notes.messages}) == 1
            await hall.pass_time(200)
            assert len(notes) == 3
        dead = Notes()
        async with hall.consumer(group="mourners", subscribe="%DLQ%billing", handler=dead):
            await hall.until(lambda: dead.bodies == [b"x"])
            assert dead.messages[0].keys == ["k"]

    Hall().play(scenario)


@pytest.mark.parametrize(("after_s", "low_s", "high_s"), [(1, 1, 3), (4, 5, 7), (60, 60, 63)])
def test_a_retry_waits_for_the_next_level_up(after_s: int, low_s: float, high_s: float) -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer() as consumer:
            stream = aiter(consumer)
            await hall.send("x")
            message = await anext(stream)
            began = hall.clock.monotonic()
            await message.retry(after=timedelta(seconds=after_s))
            message = await anext(stream)
            assert low_s <= hall.clock.monotonic() - began <= high_s
            assert (message.attempt, message.body, message.topic) == (2, b"x", TOPIC)
            await message.ack()

    Hall().play(scenario)


def test_a_dead_letter_does_not_come_again() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer() as consumer:
            stream = aiter(consumer)
            await hall.send("bad")
            await (await anext(stream)).dead_letter()
            await hall.send("good")
            message = await anext(stream)
            assert message.body == b"good"
            await message.ack()
            await message.retry()  # it has ended: nothing happens
        dead = Notes()
        async with hall.consumer(group="mourners", subscribe="%DLQ%billing", handler=dead):
            await hall.until(lambda: dead.bodies == [b"bad"])
        assert await hall.committed() == 2

    Hall().play(scenario)


def test_tags_are_compared_by_text_where_the_server_compares_hashes() -> None:
    async def scenario(hall: Hall) -> None:
        for tag in ("Aa", "BB", "other", "Aa", ""):  # Java hashes Aa and BB alike
            await hall.send(f"body {tag}", tag=tag)
        notes = Notes()
        async with hall.consumer(subscribe={TOPIC: "Aa || paid"}, handler=notes):
            await hall.send("last", tag="paid")
            await hall.until(lambda: len(notes) == 3)
            assert sorted(notes.bodies) == [b"body Aa", b"body Aa", b"last"]
        assert await hall.committed() == 6

    Hall().play(scenario)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"group": ""}, "blank"),
        ({"group": "DEFAULT_CONSUMER"}, "own"),
        ({"group": "a b"}, "illegal"),
        ({"start": "first"}, "earliest"),
        ({"batch": 0}, "between 1 and 1024"),
        ({"concurrency": 0}, "between"),
        ({"max_attempts": 0}, "between"),
    ],
)
def test_arguments_that_cannot_be_are_refused_in_words(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(Misuse, match=hint):
        Hall().consumer(**options)


def test_a_consumer_that_is_not_open_says_so() -> None:
    async def scenario(hall: Hall) -> None:
        consumer = hall.consumer()
        with pytest.raises(Closed):
            aiter(consumer)
        with pytest.raises(Misuse, match="handler"):
            await consumer.run()
        async with consumer:
            with pytest.raises(Misuse, match="already"):
                await consumer.open()
            with pytest.raises(Misuse, match="max=0"):
                consumer.batches(max=0)
        async with consumer:  # and it may be opened again
            await hall.send("x")
            await (await anext(aiter(consumer))).ack()
        await consumer.close()
        async with hall.consumer(LISTENERS[1], handler=Notes()) as other:
            with pytest.raises(Misuse, match="handler takes"):
                aiter(other)

    Hall().play(scenario)
