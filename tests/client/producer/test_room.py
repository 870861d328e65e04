"""Room: bounded, in turn, and never lost by a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.client.producer.room import Room


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_whoever_comes_when_it_is_full_waits() -> None:
    async def scenario() -> None:
        room = Room(2, 100)
        assert room.try_take(2, 10)
        assert not room.try_take(1, 1)
        waiting = asyncio.create_task(room.take(1, 1))
        await turn()
        assert not waiting.done()
        room.give(1, 5)
        await waiting
        assert room.messages == 2

    play(scenario())


def test_bytes_count_as_well() -> None:
    async def scenario() -> None:
        room = Room(10, 100)
        await room.take(1, 90)
        assert not room.try_take(1, 11)
        assert room.try_take(1, 10)

    play(scenario())


def test_a_message_larger_than_the_room_goes_alone() -> None:
    async def scenario() -> None:
        room = Room(10, 100)
        await room.take(1, 1_000)
        assert not room.try_take(1, 1)
        room.give(1, 1_000)
        assert room.try_take(1, 1)

    play(scenario())


def test_nobody_overtakes_who_waits() -> None:
    async def scenario() -> None:
        room = Room(10, 100)
        await room.take(1, 90)
        large = asyncio.create_task(room.take(1, 50))
        await turn()
        assert not room.try_take(1, 1)
        large.cancel()
        await turn()
        assert room.try_take(1, 1)

    play(scenario())


def test_a_cancelled_one_lets_those_behind_it_go() -> None:
    async def scenario() -> None:
        room = Room(10, 100)
        await room.take(1, 90)
        large = asyncio.create_task(room.take(1, 50))
        small = asyncio.create_task(room.take(1, 5))
        await turn()
        large.cancel()
        await small

    play(scenario())


def test_it_can_be_waited_for_until_it_is_empty() -> None:
    async def scenario() -> None:
        room = Room(1, 100)
        await room.emptied()
        await room.take(1, 5)
        second = asyncio.create_task(room.take(1, 5))
        empty = asyncio.create_task(room.emptied())
        await turn()
        room.give(1, 5)
        await second
        await turn()
        assert not empty.done()
        room.give(1, 5)
        await empty

    play(scenario())


@given(st.lists(st.tuples(st.sampled_from(["take", "give", "cancel"]), st.integers(0, 7)), max_size=40))
@settings(max_examples=100)
def test_what_is_taken_comes_back(steps: list[tuple[str, int]]) -> None:
    async def scenario() -> None:
        room = Room(3, 10)
        tasks: list[tuple[asyncio.Task[None], int]] = []
        for step, number in steps:
            if step == "take":
                tasks.append((asyncio.create_task(room.take(1, number)), number))
            elif tasks and step == "cancel":
                tasks[number % len(tasks)][0].cancel()
            else:
                for index, (task, size_bytes) in enumerate(tasks):
                    if task.done() and not task.cancelled():
                        del tasks[index]
                        room.give(1, size_bytes)
                        break
            if number % 2:
                await turn()
            assert room.messages <= 3
        while tasks:
            await turn()
            ended = [each for each in tasks if each[0].done()]
            assert ended, "somebody waits for room that is there"
            for each in ended:
                tasks.remove(each)
                if not each[0].cancelled():
                    room.give(1, each[1])
        assert room.messages == 0
        assert room.try_take(3, 10)

    play(scenario())
