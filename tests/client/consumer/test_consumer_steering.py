"""Steering a consumer: where it begins, pause, seek, subscribe, time-outs, hooks, drain, broadcasting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

import pytest

from roquet.client.consumer.consumer import Sql
from roquet.client.core import offsets_file
from roquet.client.errors import BadExpression, Misuse, NamesUnreachable, Refused
from roquet.client.hooks import Consuming, Hook
from roquet.client.message import Message
from roquet.model.names import TRACE_TOPIC
from roquet.model.route import QueueName
from tests.client.audience import LISTENERS, TOPIC, Hall, Notes


def queue(queue_id: int) -> QueueName:
    return QueueName("broker-a", queue_id, TOPIC)


@pytest.mark.parametrize("start", ["earliest", datetime(1970, 1, 2, tzinfo=UTC), timedelta(days=300)])
def test_a_new_group_begins_where_it_is_told(start: object) -> None:
    async def scenario(hall: Hall) -> None:
        await hall.send("old")
        notes = Notes()
        async with hall.consumer(start=start, handler=notes):
            await hall.send("new")
            await hall.until(lambda: notes.bodies == [b"old", b"new"])

    Hall().play(scenario)


def test_latest_begins_with_what_comes_after_the_start() -> None:
    async def scenario(hall: Hall) -> None:
        notes = Notes()
        async with hall.consumer(start="latest", handler=notes):
            for queue_id in range(4):
                await hall.send("new", queue_id)  # at once after the start: none is missed
            await hall.until(lambda: len(notes) == 4)

    Hall().play(scenario)


def test_a_point_in_time_leaves_out_what_is_older() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.send("old")
        await hall.pass_time(100)
        await hall.send("new")
        async with hall.consumer(group="reader", handler=(everything := Notes())) as consumer:
            await hall.until(lambda: len(everything) == 2)
            await consumer.seek(TOPIC, timedelta(seconds=50))
            await hall.until(lambda: len(everything) == 3)
            assert everything.bodies == [b"old", b"new", b"new"]

    Hall().play(scenario)


def test_a_paused_queue_stands_still_and_goes_on() -> None:
    async def scenario(hall: Hall) -> None:
        notes = Notes()
        async with hall.consumer(handler=notes) as consumer:
            assert consumer.assigned == tuple(queue(number) for number in range(4))
            consumer.pause(queue(1))
            for queue_id in (0, 1):
                await hall.send(f"q{queue_id}", queue_id)
            await hall.pass_time(60)
            assert notes.bodies == [b"q0"]
            consumer.resume(queue(1))
            await hall.until(lambda: notes.bodies == [b"q0", b"q1"])
            consumer.pause()
            await hall.send("late")
            await hall.pass_time(60)
            assert len(notes) == 2
            consumer.resume()
            await hall.until(lambda: len(notes) == 3)
            with pytest.raises(Misuse, match="assigned"):
                consumer.pause(queue(9))

    Hall().play(scenario)


def test_a_seek_goes_back_and_forth_and_what_was_in_hand_counts_no_more() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(5):
            await hall.send(f"m{number}")
        async with hall.consumer() as consumer:
            stream = aiter(consumer)
            first = await anext(stream)
            for _ in range(4):
                await (await anext(stream)).ack()
            await consumer.seek(queue(0), 3)
            await first.ack()
            assert [(await anext(stream)).body for _ in range(2)] == [b"m3", b"m4"]
            assert consumer.position(queue(0)) == 3
            await consumer.seek(TOPIC, "earliest")
            assert (await anext(stream)).body == b"m0"
            await consumer.seek(queue(0), "latest")
            await hall.send("new")
            assert (await anext(stream)).body == b"new"
            with pytest.raises(Misuse):
                await consumer.seek("elsewhere", 0)

    Hall().play(scenario)


def test_topics_are_subscribed_and_given_up_while_it_runs() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.send("first", topic="other")
        await hall.pass_time(1)
        notes = Notes()
        async with hall.consumer(handler=notes) as consumer:
            await consumer.subscribe("other", "A")
            await hall.send("not mine", topic="other", tag="B")
            await hall.send("mine", topic="other", tag="A")
            await hall.until(lambda: notes.bodies == [b"mine"])
            await consumer.unsubscribe("other")
            assert {name.topic for name in consumer.assigned} == {TOPIC}
            await hall.send("too late", topic="other", tag="A")
            await hall.send("still here")
            await hall.until(lambda: len(notes) == 2)
            assert notes.bodies == [b"mine", b"still here"]

    Hall().play(scenario)


def test_a_topic_may_come_into_being_later() -> None:
    async def scenario(hall: Hall) -> None:
        notes = Notes()
        async with hall.consumer(subscribe="later", handler=notes):
            await hall.pass_time(30)
            await hall.send("x", topic="later")
            await hall.until(lambda: notes.bodies == [b"x"], limit_s=10)

    Hall().play(scenario)


def test_sql_is_checked_at_the_start_and_filters() -> None:
    async def scenario(hall: Hall) -> None:
        notes = Notes()
        with pytest.raises(BadExpression):
            await hall.consumer(subscribe={TOPIC: Sql("amount >")}).open()
        async with hall.consumer(subscribe={TOPIC: Sql("amount > 10")}, handler=notes):
            for amount in ("5", "50"):
                await hall.send(amount, properties={"amount": amount})
            await hall.until(lambda: len(notes) == 1)
            await hall.pass_time(20)
            assert notes.bodies == [b"50"]

    Hall(property_filter=True).play(scenario)


def test_sql_against_a_server_without_filters_is_an_error_with_its_words() -> None:
    async def scenario(hall: Hall) -> None:
        with pytest.raises(Refused, match="SQL92"):
            await hall.consumer(subscribe={TOPIC: Sql("amount > 10")}).open()

    Hall().play(scenario)


def test_without_name_servers_opening_fails_in_words() -> None:
    async def scenario(hall: Hall) -> None:
        hall.world.kill("127.0.0.2")
        with pytest.raises(NamesUnreachable, match="roquet up"):
            await hall.consumer().open()
        await hall.start_names()

    Hall().play(scenario)


def test_what_is_in_hand_for_too_long_comes_again() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer(consume_timeout=timedelta(seconds=60)) as consumer:
            stream = aiter(consumer)
            await hall.send("slow")
            first = await anext(stream)
            await hall.send("next")
            await (await anext(stream)).ack()
            again = await anext(stream)
            assert 60 < hall.clock.monotonic() < 120
            assert (again.body, again.attempt) == (b"slow", 2)
            await again.ack()
            await first.ack()  # too late, and harmless
        assert await hall.committed() == 2

    Hall().play(scenario)


def test_no_more_is_fetched_than_may_wait() -> None:
    async def scenario(hall: Hall) -> None:
        for _ in range(40):
            await hall.send("x" * 1000)
        async with hall.consumer(batch=4, prefetch=10) as consumer:
            stream = aiter(consumer)
            first = await anext(stream)
            await hall.pass_time(30)
            (claim,) = consumer._claims((queue(0),))
            assert 10 <= len(claim.inflight) <= 13
            await first.ack()
            for _ in range(39):
                await (await anext(stream)).ack()
        async with hall.consumer(group="bytes", batch=1, prefetch_bytes=5_000) as consumer:
            await hall.pass_time(30)
            (claim,) = consumer._claims((queue(0),))
            assert 5_000 <= claim.inflight.size_bytes <= 6_300
        async with hall.consumer(group="span", batch=1, span=7) as consumer:
            stream = aiter(consumer)
            unfinished = await anext(stream)
            for _ in range(7):
                await (await anext(stream)).ack()
            await hall.pass_time(30)
            (claim,) = consumer._claims((queue(0),))
            assert claim.inflight.span() == 8
            await unfinished.ack()
            await (await anext(stream)).ack()

    Hall().play(scenario)


class Diary(Hook):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def before_consume(self, consuming: Consuming) -> object:
        (message,) = consuming.messages
        self.lines.append(f"{consuming.group} gets {message.body.decode()}")
        return message.body

    def after_consume(
        self, consuming: Consuming, token: object, outcome: str, error: BaseException | None
    ) -> None:
        assert token == consuming.messages[0].body
        self.lines.append(outcome if error is None else f"{outcome}: {error}")

    async def close(self) -> None:
        self.lines.append("closed")


class Broken(Hook):
    def before_consume(self, consuming: Consuming) -> object:
        raise RuntimeError("a broken hook")


def test_hooks_see_every_message_and_its_end() -> None:
    async def scenario(hall: Hall) -> None:
        diary = Diary()
        async with hall.consumer(hooks=[Broken(), diary]) as consumer:
            stream = aiter(consumer)
            for what in ("ack", "retry", "dead_letter"):
                await hall.send(what)
                message = await anext(stream)
                await getattr(message, what)()

        def fail(message: Message) -> None:
            raise ValueError("no")

        async with hall.consumer(group="failing", hooks=[diary], handler=(notes := Notes(fail)), batch=1):
            await hall.until(lambda: len(notes) == 3)
        assert diary.lines[:7] == [
            "billing gets ack", "ok", "billing gets retry", "retry",
            "billing gets dead_letter", "dead-letter", "closed",
        ]  # fmt: skip
        assert sorted(diary.lines[7:-1])[:3] == ["error: no"] * 3

    Hall().play(scenario)


def test_traces_tell_of_consumptions() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.send("x")
        async with hall.consumer(trace=True, handler=(notes := Notes())):
            await hall.until(lambda: len(notes) == 1)
        traces = Notes()
        async with hall.consumer(group="tracers", subscribe=TRACE_TOPIC, handler=traces):
            await hall.until(lambda: len(traces) == 1)
        records = [text.split("\x01") for text in traces.bodies[0].decode().split("\x02") if text]
        assert [fields[0] for fields in records] == ["SubBefore", "SubAfter"]
        assert {notes.messages[0].message_id in fields for fields in records} == {True}

    Hall(trace_topic=True).play(scenario)


def test_leaving_waits_for_handlers_and_stores_what_they_did() -> None:
    async def scenario(hall: Hall) -> None:
        ended = 0

        async def slow(message: Message) -> None:
            nonlocal ended
            await hall.pass_time(8)
            ended += 1

        async with hall.consumer(handler=(notes := Notes(slow)), concurrency=2):
            for _ in range(5):
                await hall.send("x")
            await hall.until(lambda: len(notes) == 2)
        assert (ended, len(notes)) == (2, 2)
        assert await hall.committed() == 2

    Hall().play(scenario)


def test_handlers_that_never_end_are_cut_off() -> None:
    async def scenario(hall: Hall) -> None:
        def forever(message: Message) -> Awaitable[None]:
            return asyncio.Event().wait()  # type: ignore[return-value]

        notes = Notes(forever)
        async with hall.consumer(handler=notes, drain_timeout=timedelta(seconds=5)):
            await hall.send("x")
            await hall.until(lambda: len(notes) == 1)
            began = hall.clock.monotonic()
        assert hall.clock.monotonic() - began < 6
        async with hall.consumer(handler=(again := Notes())):
            await hall.until(lambda: again.bodies == [b"x"])

    Hall().play(scenario)


def test_stop_ends_loops_and_run() -> None:
    async def scenario(hall: Hall) -> None:
        consumer = hall.consumer(handler=(notes := Notes()))
        running = asyncio.create_task(consumer.run())
        await hall.send("x")
        await hall.until(lambda: len(notes) == 1)
        consumer.stop()
        await running
        async with hall.consumer() as other:
            stopper = asyncio.get_running_loop().call_later(5, other.stop)
            assert [message async for message in other] == []
            stopper.cancel()

    Hall().play(scenario)


def test_signals_need_a_loop_that_has_them() -> None:
    async def scenario(hall: Hall) -> None:
        with pytest.raises(Misuse, match="main thread"):
            await hall.consumer(drain_on_sigterm=True).open()

    Hall().play(scenario)


def test_broadcasting_gives_every_member_everything_and_keeps_positions_in_apaches_file() -> None:
    async def scenario(hall: Hall) -> None:
        both = [Notes(), Notes()]
        for number, notes in enumerate(both, 1):
            host = LISTENERS[number - 1]
            async with hall.consumer(host, broadcast=True, offsets_dir="/offsets", handler=notes):
                await hall.send("x", 1)
                await hall.pass_time(1)
        assert [notes.bodies for notes in both] == [[b"x"], [b"x", b"x"]]
        path = f"/offsets/{LISTENERS[1]}@DEFAULT/billing/offsets.json"
        disk = hall.world.disk(LISTENERS[1])
        assert offsets_file.decode(disk.read_file(path))[queue(1)] == 2
        async with hall.consumer(LISTENERS[1], broadcast=True, offsets_dir="/offsets", handler=both[1]):
            await hall.send("y", 1)
            await hall.until(lambda: both[1].bodies == [b"x", b"x", b"y"])
        disk.write_file(path, b"torn")  # the file before it is taken
        async with hall.consumer(LISTENERS[1], broadcast=True, offsets_dir="/offsets") as consumer:
            message = await anext(aiter(consumer))
            assert message.body == b"y"
            await message.retry()  # nobody takes it back: it is dropped
            assert consumer.position(queue(1)) == 3

    Hall().play(scenario)


def test_without_broadcasting_no_file_is_written() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer(handler=(notes := Notes())):
            await hall.send("x")
            await hall.until(lambda: len(notes) == 1)
            await hall.pass_time(20)
        assert hall.world.disk(LISTENERS[0]).list_dir("/") == []

    Hall().play(scenario)


def test_in_a_namespace_names_are_the_users_own() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.send("x", topic="shop%carts")
        await hall.send("not mine", topic="carts")
        await hall.pass_time(1)
        async with hall.consumer(subscribe="carts", namespace="shop") as consumer:
            stream = aiter(consumer)
            message = await anext(stream)
            assert (message.topic, message.body) == ("carts", b"x")
            assert {name.topic for name in consumer.assigned} == {"carts"}
            await message.retry(after=timedelta(seconds=1))
            again = await anext(stream)
            assert (again.topic, again.attempt, again.body) == ("carts", 2, b"x")
            await again.ack()
            await consumer.seek(QueueName("broker-a", again.queue_id, "carts"), "latest")
        assert await hall.committed("shop%billing", "shop%carts") == 1

    Hall().play(scenario)
