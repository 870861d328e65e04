"""Transactions, requests with replies, and traces against each server."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.namespace import wrap
from roquet.client.errors import Misuse, ReplyLost
from roquet.client.message import Message
from roquet.client.producer.producer import Producer
from roquet.client.producer.transaction import Outcome
from roquet.model.names import TRACE_TOPIC
from tests.client.contract.server import Server
from tests.client.reading import bodies_of, messages_of


def test_a_transaction_is_seen_when_it_commits_and_never_when_it_fails(server: Server) -> None:
    async def scenario() -> None:
        topic, group = server.fresh("bank"), server.fresh("tellers")
        async with (
            Cluster(server.namesrv, ports=server.ports) as cluster,
            Producer(cluster, group=group) as producer,
        ):
            await producer.send(topic, b"before")
            with pytest.raises(KeyError):
                async with producer.transaction(topic, b"failed"):
                    raise KeyError("the local work")
            async with producer.transaction(topic, b"done", tag="t", keys=["k"]) as half:
                assert b"done" not in await bodies_of(cluster, topic)
                with pytest.raises(Misuse, match="used once"):
                    await half.__aenter__()
            async with producer.transaction(topic, b"by hand") as other:
                await other.commit()
                with pytest.raises(Misuse, match="ended already: commit"):
                    await other.rollback()

            async def came() -> bool:
                return sorted(await bodies_of(cluster, topic)) == [b"before", b"by hand", b"done"]

            await server.eventually(came)
            (done,) = [each for each in await messages_of(cluster, topic) if each.body == b"done"]
            assert (done.message_id, done.tag, done.keys) == (half.message_id, "t", ["k"])

    server.run(scenario())


@pytest.mark.parametrize("namespace", ["", "shop"])
def test_the_broker_asks_how_a_transaction_ended(server: Server, namespace: str) -> None:
    async def scenario() -> None:
        topic, group = server.fresh("asked"), server.fresh("askers")
        asked: list[bytes] = []

        async def check(message: Message) -> Outcome:
            asked.append(message.body)
            assert message.topic == topic
            if asked.count(message.body) == 1 and message.body == b"later":
                raise RuntimeError("the database is down")
            return "rollback" if message.body == b"undo" else "commit"

        async with (
            Cluster(server.namesrv, namespace=namespace, ports=server.ports) as cluster,
            Producer(cluster, group=group, check=check) as producer,
        ):
            for body in (b"later", b"undo"):
                async with producer.transaction(topic, body) as half:
                    half.leave_unknown()

            async def came() -> bool:
                await server.advance(timedelta(seconds=1))
                return bool(await bodies_of(cluster, wrap(namespace, topic)))

            await server.eventually(came)
            # Apache files ends in batches of up to 3 s, and may ask once more and commit again meanwhile.
            bodies = await bodies_of(cluster, wrap(namespace, topic))
            assert set(bodies) == {b"later"} if server.kind == "apache" else bodies == [b"later"]
            assert asked.count(b"later") >= 2 and asked.count(b"undo") >= 1

    server.run(scenario())


@pytest.mark.parametrize("namespace", ["", "shop"])
def test_a_request_is_answered(server: Server, namespace: str) -> None:
    async def scenario() -> None:
        topic = server.fresh("questions")
        async with (
            Producer(
                server.namesrv, group=server.fresh("asker"), namespace=namespace, ports=server.ports
            ) as asker,
            Cluster(server.namesrv, namespace=namespace, ports=server.ports) as cluster,
            Producer(cluster, group=server.fresh("answerer")) as answerer,
        ):
            await answerer.send(topic, b"first")
            questions = [asyncio.create_task(asker.request(topic, f"{n} + 1", timeout=20)) for n in range(3)]
            answered: set[str] = set()

            async def all_answered() -> bool:
                for message in await messages_of(cluster, wrap(namespace, topic)):
                    if message.message_id not in answered and message.body != b"first":
                        answered.add(message.message_id)
                        number = int(message.body.split()[0])
                        await answerer.reply(message, b"%d" % (number + 1) * 5_000)
                return len(answered) == 3

            await server.eventually(all_answered)
            replies = [await question for question in questions]
            assert [reply.body for reply in replies] == [b"%d" % (n + 1) * 5_000 for n in range(3)]
            (first, *_) = [
                each for each in await messages_of(cluster, wrap(namespace, topic)) if each.body == b"first"
            ]
            with pytest.raises(Misuse, match="wants no reply"):
                await answerer.reply(first, b"x")

    server.run(scenario())


def test_a_request_that_nobody_answers_ends(server: Server) -> None:
    async def scenario() -> None:
        topic = server.fresh("silence")
        async with Producer(server.namesrv, ports=server.ports) as asker:
            await asker.send(topic, b"first")
            question = asyncio.create_task(asker.request(topic, b"?", timeout=1.0))

            async def ended() -> bool:
                await server.advance(timedelta(milliseconds=300))
                return question.done()

            await server.eventually(ended)
            with pytest.raises(ReplyLost, match="consumer running"):
                await question

    server.run(scenario())


def test_traces_tell_what_happened(server: Server) -> None:
    async def scenario() -> None:
        topic, group = server.fresh("traced"), server.fresh("tracer")
        async with Cluster(server.namesrv, ports=server.ports) as cluster:
            async with Producer(cluster, group=group, trace=True) as producer:
                sent = await producer.send(topic, b"abc", tag="t", keys=["k1"])
                async with producer.transaction(topic, b"half") as half:
                    pass
                delayed = await producer.send(topic, b"late", delay=timedelta(hours=1))
                await producer.recall(topic, delayed.recall_handle)
            ids = {sent.message_id, half.message_id, delayed.message_id}
            told: dict[tuple[str, str], list[str]] = {}

            async def came() -> bool:
                for carrier in await messages_of(cluster, TRACE_TOPIC):
                    if ids & set(carrier.keys):
                        for record in filter(None, carrier.body.decode().split("\x02")):
                            fields = record.split("\x01")
                            told[fields[0], fields[5]] = fields
                return len(told) >= 5

            await server.eventually(came)
            first, ended = told["Pub", sent.message_id], told["EndTransaction", half.message_id]
            recalled = told["Recall", delayed.message_id]
            assert set(told) - {("Pub", each) for each in ids} == {
                ("EndTransaction", half.message_id),
                ("Recall", delayed.message_id),
            }
            assert first[:1] + first[2:9] == [
                "Pub", "DefaultRegion", group, topic, sent.message_id, "t", "k1", first[8],
            ]  # fmt: skip
            assert first[9] == "3" and first[11:] == ["0", sent.offset_id, "true"]
            assert ended[0] == "EndTransaction" and ended[5] == half.message_id
            assert ended[9:] == ["2", half.receipt.transaction_id, "COMMIT_MESSAGE", "false"]
            assert recalled[0] == "Recall" and recalled[5:] == [delayed.message_id, "true"]

    server.run(scenario())
