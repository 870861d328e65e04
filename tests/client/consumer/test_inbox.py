"""The inbox: what waits leaves in order, once, and never to somebody who is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

import pytest

from roquet.client.consumer.inbox import Inbox, InboxClosed
from roquet.client.message import Message
from roquet.model.message import Draft, Host
from roquet.sim.world import World
from roquet.store.format import record

HERE = Host(b"\x7f\0\0\1", 1)


class Queue:
    """A source that writes down what is handed out."""

    def __init__(self) -> None:
        self.is_dropped = False
        self.is_paused = False
        self.handed: list[bytes] = []

    def hand(self, messages: Sequence[Message]) -> None:
        self.handed += [message.body for message in messages]

    async def ack(self, message: Message) -> None:
        raise AssertionError("not here")

    async def give_back(
        self, message: Message, after: timedelta | None, outcome: str, error: BaseException | None = None
    ) -> None:
        raise AssertionError("not here")


def messages(*bodies: str) -> list[Message]:
    drafts = [Draft("t", 0, body.encode(), b"", 0, 0, 0, HERE) for body in bodies]
    return [Message(record.decode(record.encode(draft, 0, 0, 0, HERE)), "b") for draft in drafts]


def bodies(found: Sequence[Message]) -> list[bytes]:
    return [message.body for message in found]


def play(
    scenario: Callable[[Inbox, Callable[[float], Coroutine[Any, Any, None]]], Coroutine[Any, Any, None]],
) -> None:
    with World(1) as world:
        clock = world.ports("here").clock

        async def pass_time(seconds: float) -> None:
            await clock.sleep_until(clock.monotonic() + seconds)

        world.run(scenario(Inbox(clock), pass_time))


def test_runs_leave_in_their_order_and_are_handed_once() -> None:
    async def scenario(inbox: Inbox, pass_time: Any) -> None:
        one, two = Queue(), Queue()
        inbox.put(one, messages("a", "b", "c"))
        inbox.put(two, messages("d"))
        assert bodies(await inbox.get_many(2)) == [b"a", b"b"]
        assert one.handed == [b"a", b"b"]
        assert bodies(await inbox.get_many(9)) == [b"c", b"d"]
        inbox.put(two, messages("e"))
        assert (await inbox.get())[1].body == b"e"
        assert (one.handed, two.handed) == ([b"a", b"b", b"c"], [b"d", b"e"])

    play(scenario)


def test_dropped_ones_are_passed_over_and_paused_ones_kept_aside_in_order() -> None:
    async def scenario(inbox: Inbox, pass_time: Any) -> None:
        gone, paused, there = Queue(), Queue(), Queue()
        gone.is_dropped = paused.is_paused = True
        inbox.put(gone, messages("x"))
        inbox.put(paused, messages("p1", "p2"))
        inbox.put(there, messages("a"))
        inbox.put(paused, messages("p3"))
        assert bodies(await inbox.get_many(9)) == [b"a"]
        waiting = asyncio.ensure_future(inbox.get_many(9))
        await pass_time(1)
        inbox.resumed()  # still paused
        await pass_time(1)
        assert not waiting.done()
        paused.is_paused = False
        inbox.resumed()
        assert bodies(await waiting) == [b"p1", b"p2", b"p3"]

    play(scenario)


def test_a_waiter_that_is_cancelled_as_it_is_woken_wakes_the_next() -> None:
    async def scenario(inbox: Inbox, pass_time: Any) -> None:
        first, second = (asyncio.ensure_future(inbox.get()) for _ in range(2))
        await pass_time(1)
        source = Queue()
        inbox.put(source, messages("a"))
        first.cancel()
        assert (await second)[1].body == b"a"
        assert first.cancelled()
        assert source.handed == [b"a"]

    play(scenario)


def test_every_waiter_gets_its_own() -> None:
    async def scenario(inbox: Inbox, pass_time: Any) -> None:
        waiting = [asyncio.ensure_future(inbox.get()) for _ in range(5)]
        await pass_time(1)
        inbox.put(Queue(), messages("a", "b"))
        inbox.put(Queue(), messages("c", "d", "e"))
        assert [message.body for _, message in await asyncio.gather(*waiting)] == [
            b"a",
            b"b",
            b"c",
            b"d",
            b"e",
        ]

    play(scenario)


def test_lingering_ends_when_it_is_full_or_over_and_a_cancelled_one_takes_nothing() -> None:
    async def scenario(inbox: Inbox, pass_time: Any) -> None:
        source = Queue()
        waiting = asyncio.ensure_future(inbox.get_many(3, 10))
        inbox.put(source, messages("a"))
        await pass_time(1)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert source.handed == []
        waiting = asyncio.ensure_future(inbox.get_many(3, 10))
        await pass_time(1)
        inbox.put(source, messages("b", "c", "d"))
        await pass_time(0)
        assert bodies(waiting.result()) == [b"a", b"b", b"c"]
        waiting = asyncio.ensure_future(inbox.get_many(3, 10))
        await pass_time(9.9)
        assert not waiting.done()
        await pass_time(0.2)
        assert bodies(waiting.result()) == [b"d"]

    play(scenario)


@pytest.mark.parametrize("linger_s", [0, 5])
def test_closing_ends_all_waiting(linger_s: float) -> None:
    async def scenario(inbox: Inbox, pass_time: Any) -> None:
        waiting = [asyncio.ensure_future(inbox.get_many(2, linger_s)) for _ in range(3)]
        await pass_time(1)
        inbox.close()
        for each in waiting:
            with pytest.raises(InboxClosed):
                await each
        inbox.put(Queue(), messages("late"))
        with pytest.raises(InboxClosed):
            await inbox.get()

    play(scenario)
