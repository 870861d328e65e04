"""Consumers and readers, against each of the three servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from roquet.client.consumer.consumer import Consumer, Sql
from roquet.client.errors import BadExpression, NoRoute
from roquet.client.message import Message
from roquet.client.producer.producer import Producer
from roquet.client.reader.reader import Reader, Status
from roquet.model.route import QueueName
from tests.client.contract.server import Server

QUEUES = 4


class Case:
    """A topic with messages in it, and consumers of it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.topic = server.fresh("orders")
        self.group = server.fresh("billing")
        self.got: list[Message] = []

    def producer(self) -> Producer:
        return Producer(self.server.namesrv, group="shop", ports=self.server.ports)

    def consumer(self, **options: Any) -> Consumer:
        options = {"group": self.group, "subscribe": self.topic, "start": "earliest"} | options
        return Consumer(self.server.namesrv, ports=self.server.ports, **options)

    def handler(
        self, then: Callable[[Message], Awaitable[None] | None] | None = None
    ) -> Callable[[Message], Awaitable[None]]:
        async def note(message: Message) -> None:
            self.got.append(message)
            result = None if then is None else then(message)
            if result is not None:
                await result

        return note

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.got)

    async def until(self, count: int) -> None:
        await self.server.eventually(lambda: len(self.got) >= count)
        assert len(self.got) == count


def test_what_is_acked_does_not_come_again_and_the_rest_does(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)
        async with case.producer() as producer:
            for number in range(6):
                await producer.send(case.topic, b"m%d" % number, tag="created", keys=["k", str(number)])
        acked: set[bytes] = set()
        left: set[bytes] = set()
        async with case.consumer() as consumer:
            async for message in consumer:
                assert (message.topic, message.tag, message.attempt) == (case.topic, "created", 1)
                assert message.keys == ["k", message.body[1:].decode()]
                if len(acked) < 5:
                    acked.add(message.body)
                    await message.ack()
                else:
                    left.add(message.body)
                    break
        async with case.consumer() as consumer:
            message = await anext(aiter(consumer))
            assert {message.body} == left
            await message.ack()

    server.run(scenario())


def test_batches(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)
        async with case.producer() as producer:
            for number in range(20):
                await producer.send(case.topic, b"%d" % number)
        async with case.consumer() as consumer:
            got: list[bytes] = []
            async for batch in consumer.batches(max=8, timeout=0.2):
                assert 1 <= len(batch) <= 8
                for message in batch:
                    got.append(message.body)
                    await message.ack()
                if len(got) == 20:
                    break
        assert sorted(got) == sorted(b"%d" % number for number in range(20))

    server.run(scenario())


def test_failures_come_again_and_end_with_the_dead_letters(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)

        def fail(message: Message) -> None:
            raise RuntimeError("no")

        async with case.producer() as producer:
            await producer.send(case.topic, b"bad", keys=["k"])
        async with case.consumer(handler=case.handler(fail), max_attempts=3):
            for _ in range(3):
                await server.advance(timedelta(seconds=1))
            await case.until(3)
            assert [message.attempt for message in case.got] == [1, 2, 3]
            assert {message.topic for message in case.got} == {case.topic}
            assert len({message.message_id for message in case.got}) == 1
        async with case.consumer(group=server.fresh("mourners"), subscribe=f"%DLQ%{case.group}") as dead:
            message = await anext(aiter(dead))
            assert (message.body, message.keys) == (b"bad", ["k"])

    server.run(scenario())


def test_a_retry_and_a_dead_letter_by_hand(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)
        async with case.producer() as producer:
            await producer.send(case.topic, b"x")
        async with case.consumer() as consumer:
            stream = aiter(consumer)
            before = server.now()
            await (await anext(stream)).retry(after=timedelta(seconds=20))  # level 4, two seconds here
            waiting = asyncio.ensure_future(anext(stream))
            await server.advance(timedelta(seconds=2))
            again = await waiting
            assert (again.attempt, again.body) == (2, b"x")
            assert server.now() - before >= timedelta(seconds=1.9)
            await again.dead_letter()
        async with case.consumer(group=server.fresh("mourners"), subscribe=f"%DLQ%{case.group}") as dead:
            assert (await anext(aiter(dead))).body == b"x"

    server.run(scenario())


def test_tags_and_sql(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)
        async with case.producer() as producer:
            for tag in ("Aa", "BB", "C"):  # Java hashes the first two alike
                await producer.send(case.topic, tag.encode(), tag=tag, properties={"size": str(len(tag))})
        async with case.consumer(subscribe={case.topic: "Aa || D"}, handler=case.handler()):
            await case.until(1)
            assert case.bodies == [b"Aa"]
        case.got.clear()
        group = server.fresh("sql")
        async with case.consumer(
            group=group, subscribe={case.topic: Sql("size = 2")}, handler=case.handler()
        ):
            await case.until(2)
            assert case.bodies == [b"Aa", b"BB"]
        with pytest.raises(BadExpression):
            await case.consumer(group=group, subscribe={case.topic: Sql("size =")}).open()

    server.run(scenario())


def test_orderly_consumption_repeats_a_failure_before_it_goes_on(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)

        def fail_once(message: Message) -> None:
            if message.body == b"1" and message.attempt == 1:
                raise RuntimeError("not yet")

        async with case.producer() as producer:
            for number in range(4):
                await producer.send(case.topic, b"%d" % number, ordering_key="one")
        async with case.consumer(ordered=True, handler=case.handler(fail_once)):
            await server.eventually(lambda: len(case.got) >= 2)
            await server.advance(timedelta(seconds=1))
            await case.until(5)
        assert [message.body for message in case.got] == [b"0", b"1", b"1", b"2", b"3"]

    server.run(scenario())


def test_members_share_the_queues(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)
        async with case.producer() as producer:
            await producer.send(case.topic, b"first")
            async with case.consumer(handler=case.handler()) as one:
                await case.until(1)
                async with case.consumer(handler=case.handler()) as two:

                    def is_shared() -> bool:
                        shares = [{queue.queue_id for queue in each.assigned} for each in (one, two)]
                        return sorted(map(len, shares)) == [2, 2] and not shares[0] & shares[1]

                    await server.eventually(is_shared)
                    for number in range(8):
                        await producer.send(case.topic, b"%d" % number)
                    await server.eventually(lambda: len({message.body for message in case.got}) == 9)
                await server.eventually(lambda: len(one.assigned) == QUEUES)

    server.run(scenario())


def test_broadcasting_gives_every_member_everything(server: Server, tmp_path: Path) -> None:
    async def scenario() -> None:
        case = Case(server)
        options = {"broadcast": True, "offsets_dir": str(tmp_path)}
        async with case.producer() as producer:
            await producer.send(case.topic, b"a")
            async with case.consumer(handler=case.handler(), **options):
                await case.until(1)
            await producer.send(case.topic, b"b")
            async with case.consumer(handler=case.handler(), **options):
                await case.until(2)
        assert case.bodies == [b"a", b"b"]
        disk = server.ports.disk
        clients = [entry.name for entry in disk.list_dir(str(tmp_path))]
        assert len(clients) == 1 and clients[0].endswith("@DEFAULT")
        names = {entry.name for entry in disk.list_dir(f"{tmp_path}/{clients[0]}/{case.group}")}
        assert "offsets.json" in names

    server.run(scenario())


def test_seeking_and_steering(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)
        async with case.producer() as producer:
            receipts = [
                await producer.send(case.topic, b"%d" % number, ordering_key="k") for number in range(4)
            ]
            async with case.consumer() as consumer:
                stream = aiter(consumer)
                for _ in range(4):
                    await (await anext(stream)).ack()
                (queue,) = [each for each in consumer.assigned if each.queue_id == receipts[0].queue_id]
                assert consumer.position(queue) == 4
                await consumer.seek(queue, 2)
                assert [(await anext(stream)).body for _ in range(2)] == [b"2", b"3"]
                await consumer.seek(case.topic, "latest")
                consumer.pause(queue)
                await producer.send(case.topic, b"new", ordering_key="k")
                waiting = asyncio.ensure_future(anext(stream))
                await server.advance(timedelta(seconds=1))
                assert not waiting.done()
                consumer.resume()
                assert (await waiting).body == b"new"

    server.run(scenario())


def test_a_reader_goes_by_positions(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)
        async with case.producer() as producer:
            receipts = [
                await producer.send(case.topic, b"%d" % number, ordering_key="k") for number in range(5)
            ]
        async with Reader(server.namesrv, ports=server.ports) as reader:
            queue = QueueName("broker-a", receipts[0].queue_id, case.topic)

            async def are_there() -> bool:
                try:
                    return await reader.max_offset(queue) == 5
                except NoRoute:
                    return False

            await server.eventually(are_there)
            assert len(await reader.queues(case.topic)) == QUEUES
            assert await reader.min_offset(queue) == 0
            page = await reader.read(queue, 1, max=2)
            assert ([message.body for message in page.messages], page.next_offset) == ([b"1", b"2"], 3)
            raw = await reader.read_raw(queue, 3)
            assert (raw.status, raw.next_offset, raw.max_offset) == (Status.FOUND, 5, 5)
            assert (await reader.read(queue, 5)).status is Status.NOTHING
            moved = await reader.read(queue, 99)
            assert (moved.status, moved.next_offset) == (Status.MOVED, 5)
            assert await reader.offset_at(queue, timedelta(hours=1)) == 0
            async with reader.follow(case.topic, start="earliest") as messages:
                assert [(await anext(messages)).body for _ in range(5)] == [
                    b"%d" % number for number in range(5)
                ]

    server.run(scenario())


def test_namespaces_hide_their_prefix(server: Server) -> None:
    async def scenario() -> None:
        case = Case(server)
        space = server.fresh("ns")
        async with Producer(server.namesrv, group="shop", namespace=space, ports=server.ports) as producer:
            await producer.send(case.topic, b"x")
        async with case.consumer(namespace=space) as consumer:
            stream = aiter(consumer)
            message = await anext(stream)
            assert (message.topic, message.body) == (case.topic, b"x")
            await message.retry(after=timedelta(seconds=1))
            waiting = asyncio.ensure_future(anext(stream))
            await server.advance(timedelta(seconds=1))
            again = await waiting
            assert (again.topic, again.attempt) == (case.topic, 2)
            await again.ack()

    server.run(scenario())
