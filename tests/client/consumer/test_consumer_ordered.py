"""Orderly consumption: one after another in each queue, over failures, handovers, cuts and lost locks."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from roquet.client.message import Message
from tests.client.audience import LISTENERS, Hall, Notes
from tests.client.ground import BROKERS


def test_of_each_queue_one_message_is_in_hand_at_a_time() -> None:
    async def scenario(hall: Hall) -> None:
        in_hand: dict[int, int] = {}
        most: dict[int, int] = {}

        async def slow(message: Message) -> None:
            queue_id = message.queue_id
            in_hand[queue_id] = in_hand.get(queue_id, 0) + 1
            most[queue_id] = max(most.get(queue_id, 0), in_hand[queue_id])
            most[-1] = max(most.get(-1, 0), sum(in_hand.values()))
            await hall.pass_time(hall.world.rng.random())
            in_hand[queue_id] -= 1

        for number in range(40):
            await hall.send(f"{number}", number % 4)
        async with hall.consumer(ordered=True, handler=(notes := Notes(slow))):
            await hall.until(lambda: len(notes) == 40)
        assert most == {0: 1, 1: 1, 2: 1, 3: 1, -1: 4}
        for queue_id in range(4):
            offsets = [message.queue_offset for message in notes.messages if message.queue_id == queue_id]
            assert offsets == list(range(10))

    Hall().play(scenario)


def test_a_failure_holds_its_queue_up_and_only_that() -> None:
    async def scenario(hall: Hall) -> None:
        def fail_twice(message: Message) -> None:
            if message.body == b"a1" and message.attempt < 3:
                raise RuntimeError("not yet")

        for number in range(3):
            await hall.send(f"a{number}", 0)
            await hall.send(f"b{number}", 1)
        async with hall.consumer(ordered=True, handler=(notes := Notes(fail_twice))):
            began = hall.clock.monotonic()
            await hall.until(lambda: len(notes) == 8)
            assert 2 < hall.clock.monotonic() - began < 4  # a second each time
        assert [body for body in notes.bodies if body[:1] == b"a"] == [b"a0", b"a1", b"a1", b"a1", b"a2"]
        assert notes.bodies.index(b"b2") < notes.bodies.index(b"a2")
        assert await hall.committed() == 3

    Hall().play(scenario)


def test_by_async_for_a_retry_suspends_the_queue_for_so_long() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(2):
            await hall.send(f"m{number}")
        async with hall.consumer(ordered=True) as consumer:
            stream = aiter(consumer)
            first = await anext(stream)
            began = hall.clock.monotonic()
            await first.retry(after=timedelta(seconds=7))
            again = await anext(stream)
            assert 6.99 < hall.clock.monotonic() - began < 8
            assert (again.body, again.attempt) == (b"m0", 2)
            await first.ack()  # it was given back: this says nothing about the second attempt
            assert consumer.position(consumer.assigned[0]) == 0
            await again.ack()
            assert (await anext(stream)).body == b"m1"

    Hall().play(scenario)


def test_a_seek_with_a_message_in_hand_goes_on_at_once() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(3):
            await hall.send(f"m{number}")
        async with hall.consumer(ordered=True) as consumer:
            stream = aiter(consumer)
            first = await anext(stream)
            await asyncio.gather(*[consumer.seek(consumer.assigned[0], 2) for _ in range(3)])
            assert (await anext(stream)).body == b"m2"
            await first.ack()
            assert consumer.position(consumer.assigned[0]) == 2

    Hall().play(scenario)


@pytest.mark.parametrize("way", ["attempts", "dead letter"])
def test_what_cannot_be_consumed_is_buried_and_the_queue_goes_on(way: str) -> None:
    async def scenario(hall: Hall) -> None:
        async def fail(message: Message) -> None:
            if message.body == b"bad":
                if way == "dead letter":
                    await message.dead_letter()
                else:
                    raise RuntimeError("never")

        for body in ("bad", "good"):
            await hall.send(body)
        async with hall.consumer(ordered=True, max_attempts=3, handler=(notes := Notes(fail))):
            await hall.until(lambda: notes.bodies[-1:] == [b"good"])
        assert notes.bodies.count(b"bad") == (3 if way == "attempts" else 1)
        dead = Notes()
        async with hall.consumer(group="mourners", subscribe="%DLQ%billing", handler=dead):
            await hall.until(lambda: dead.bodies == [b"bad"])
        assert await hall.committed() == 2

    Hall().play(scenario)


def test_a_new_member_waits_until_the_message_in_hand_has_ended() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(4):
            for queue_id in range(4):
                await hall.send(f"{queue_id}-{number}", queue_id)
        async with hall.consumer(LISTENERS[0], ordered=True) as one:
            stream = aiter(one)
            in_hand = [await anext(stream) for _ in range(4)]
            async with hall.consumer(LISTENERS[1], ordered=True, handler=(notes := Notes())):
                await hall.pass_time(30)
                assert len(notes) == 0  # the locks of two queues are still the first member's
                for message in in_hand:
                    await message.ack()
                await hall.until(lambda: len(notes) == 6, limit_s=5)
                for queue_id in (2, 3):
                    bodies = [body for body in notes.bodies if body[:1] == b"%d" % queue_id]
                    assert bodies == [b"%d-%d" % (queue_id, number) for number in (1, 2, 3)]

    Hall().play(scenario)


def test_who_loses_its_lock_delivers_nothing_more_until_it_has_it_again() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(3):
            await hall.send(f"m{number}")
        async with hall.consumer(ordered=True) as consumer:
            stream = aiter(consumer)
            first = await anext(stream)
            hall.world.net.partition(LISTENERS[0], BROKERS[0])
            await hall.pass_time(35)  # the lock has not been renewed for longer than it is valid
            assert consumer.assigned == () or all(queue.queue_id for queue in consumer.assigned)
            await first.ack()
            waiting = asyncio.ensure_future(anext(stream))
            await hall.pass_time(20)
            assert not waiting.done()
            hall.world.net.heal_all()
            again = await waiting
            assert again.body == b"m0"  # where the broker knows us to be
            await again.ack()
            assert (await anext(stream)).body == b"m1"

    Hall().play(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_order_holds_over_joins_leaves_cuts_and_kills(seed: int) -> None:
    """Each queue's messages come in order; a message may come again only with all that follow it."""

    async def scenario(hall: Hall) -> None:
        rng, seen = hall.world.rng, {queue_id: list[int]() for queue_id in range(4)}
        busy: dict[int, int] = {}
        restarted_at = -60.0

        async def note(message: Message) -> None:
            queue_id = message.queue_id
            # A broker that restarts has forgotten all locks, and whoever is at work cannot be called back.
            was_restarted = hall.clock.monotonic() - restarted_at < 60
            assert was_restarted or not busy.get(queue_id), "two members at work on one queue"
            busy[queue_id] = 1
            seen[queue_id].append(int(message.body))
            await hall.pass_time(rng.random() * 0.2)
            busy[queue_id] = 0

        async def member(host: str) -> None:
            while not done.is_set():
                async with hall.consumer(host, ordered=True, handler=note):
                    await hall.pass_time(20 + rng.random() * 60)

        async def trouble() -> None:
            nonlocal restarted_at
            for _ in range(3):
                await hall.pass_time(10 + rng.random() * 30)
                if rng.random() < 0.5:
                    hall.world.net.cut(LISTENERS[rng.randrange(2)], BROKERS[0])
                else:
                    hall.world.kill(BROKERS[0])
                    await hall.start_broker()
                    restarted_at = hall.clock.monotonic()

        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for host in LISTENERS[:2]:
                group.create_task(member(host))
            group.create_task(trouble())
            for number in range(100):
                for queue_id in range(4):
                    await hall.send(f"{number}", queue_id)
                await hall.pass_time(rng.random() * 2)
            await hall.until(lambda: all(99 in numbers for numbers in seen.values()))
            done.set()
        for numbers in seen.values():
            assert sorted(set(numbers)) == list(range(100))
            for one, other in zip(numbers, numbers[1:], strict=False):
                assert other <= one + 1, f"{other} came right after {one}"

    Hall(seed).play(scenario)
