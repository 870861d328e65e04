"""Java and Python together: one group with members of both, and messages of every kind both ways.

The Java side is `compat/java/clients/…/Mixing.java`, in both versions of Apache's client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from roquet.client.compression import Compression
from roquet.client.consumer.consumer import Consumer
from roquet.client.core import offsets_file
from roquet.client.message import Message, Outgoing
from roquet.client.producer.producer import Producer
from tests.peers.cluster import Cluster, running_cluster
from tests.peers.jars import CLIENT_VERSIONS
from tests.peers.java import JavaClient, fresh_name
from tests.peers.mqadmin import Mqadmin

pytestmark = [pytest.mark.java, pytest.mark.process]

QUEUES: Final = 8
LIMIT_S: Final = 180.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("mix")) as running:
        yield running


@pytest.fixture(scope="module", params=CLIENT_VERSIONS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with JavaClient(request.param, tmp_path_factory.mktemp("client")) as running:
        yield running


class Mix:
    """One topic and one group, with the Java side of both."""

    def __init__(self, client: JavaClient, cluster: Cluster) -> None:
        name = fresh_name(f"mix-{client.version}")
        self.topic, self.group = f"T-{name}", f"G-{name}"
        self.namesrv = cluster.namesrv
        self.got: dict[str, Message] = {}
        self.deliveries = 0
        self._client = client

    async def java(self, scenario: str, **arguments: Any) -> dict[str, Any]:
        """Run one step of the Java side."""

        def run() -> dict[str, Any]:
            return self._client.run(
                f"mix-{scenario}", self.namesrv, topic=self.topic, group=self.group, **arguments
            )

        return await asyncio.to_thread(run)

    def consumer(self, **options: Any) -> Consumer:
        options = {"group": self.group, "subscribe": self.topic, "start": "earliest"} | options
        return Consumer(self.namesrv, handler=self.note, **options)

    def note(self, message: Message) -> None:
        self.deliveries += 1
        self.got[message.properties.get("mark", "")] = message

    async def until(self, condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        deadline = asyncio.get_running_loop().time() + LIMIT_S
        while not await condition():
            assert asyncio.get_running_loop().time() < deadline, f"not within {LIMIT_S} s: {self.got.keys()}"
            await asyncio.sleep(0.1)

    async def shared(self, *members: Consumer) -> None:
        """Wait until every member of either language holds its fair share, and the shares fit.

        That the shares fit is not enough: they did so too before the last member joined.
        """

        async def is_shared() -> bool:
            parts = (await self.java("state"))["held"]
            parts += [[queue.queue_id for queue in member.assigned] for member in members]
            held = sorted(queue for part in parts for queue in part)
            least = QUEUES // len(parts)
            return held == list(range(QUEUES)) and all(least <= len(part) <= least + 1 for part in parts)

        await self.until(is_shared)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        await self.java("open", queues=QUEUES)
        try:
            yield
        finally:
            await self.java("close")


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "orderly"])
def test_members_of_both_languages_split_the_queues_without_gap_or_overlap(
    client: JavaClient, cluster: Cluster, ordered: bool
) -> None:
    async def scenario() -> None:
        mix = Mix(client, cluster)

        async def all_came(count: int) -> None:
            async def came() -> bool:
                return len({*mix.got, *(await mix.java("state"))["seen"]}) == count

            await mix.until(came)

        async with mix.open():
            await mix.java("join", ordered=int(ordered))
            async with mix.consumer(ordered=ordered) as one:
                await mix.shared(one)
                assert len(one.assigned) == QUEUES // 2
                await mix.java("send", name="two", count=80)
                await all_came(80)
                # Shares that fit mean that nothing comes twice.
                assert mix.deliveries + (await mix.java("state"))["deliveries"] == 80
                async with mix.consumer(ordered=ordered) as two:
                    await mix.java("send", name="moving", count=80)
                    await mix.shared(one, two)
                    await mix.java("join", ordered=int(ordered))
                    await mix.shared(one, two)
                    assert len(one.assigned) == len(two.assigned) == QUEUES // 4
                    await mix.java("send", name="four", count=80)
                    await all_came(240)
                    await mix.java("leave")
                    await mix.shared(one, two)
                    await mix.java("leave")
                    await mix.shared(one, two)
                    await mix.java("send", name="alone", count=80)
                    await all_came(320)
                await mix.shared(one)

    asyncio.run(scenario())


def test_every_kind_from_java_is_consumed_in_python(client: JavaClient, cluster: Cluster) -> None:
    async def scenario() -> None:
        mix = Mix(client, cluster)
        async with mix.open(), mix.consumer():
            marks = (await mix.java("kinds"))["marks"]
            assert len(marks) >= (10 if client.version.startswith("5") else 8)

            async def all_came() -> bool:
                return set(mix.got) == set(marks)

            await mix.until(all_came)
            for mark, message in mix.got.items():
                assert message.body.startswith(b"body of " + mark.encode())
                assert (message.topic, message.tag) == (mix.topic, f"tag-{mark}")
                assert message.keys == [f"key-{mark}", "all"]
                assert (message.properties["colour"], message.record.flag) == ("blue, 蓝", 7)
                if mark in ("zlib", "lz4", "zstd"):
                    assert len(message.body) > 20_000 > len(message.record.body)
            assert mix.got["ordered"].queue_id == 2
            assert len({message.message_id for message in mix.got.values()}) == len(marks)

    asyncio.run(scenario())


def test_every_kind_from_python_is_consumed_in_java(client: JavaClient, cluster: Cluster) -> None:
    async def scenario() -> None:
        mix = Mix(client, cluster)
        sent: dict[str, bytes] = {}

        def kind(mark: str, body: bytes = b"") -> dict[str, Any]:
            sent[mark] = body or b"body of " + mark.encode()
            properties = {"mark": mark, "colour": "blue, 蓝"}
            return {"body": sent[mark], "tag": f"tag-{mark}", "keys": [mark, "all"], "properties": properties}

        async with mix.open(), Producer(mix.namesrv, group=f"P-{mix.group}") as producer:
            await mix.java("join")
            ids = {"plain": (await producer.send(mix.topic, **kind("plain"))).message_id}
            await producer.send_one_way(mix.topic, **kind("oneway"))
            batch = [Outgoing(topic=mix.topic, **kind(f"batch{number}")) for number in range(3)]
            for number, receipt in enumerate(await producer.send_batch(mix.topic, batch)):
                ids[f"batch{number}"] = receipt.message_id
            await producer.send(mix.topic, **kind("delayed"), delay=timedelta(seconds=1))
            ordered = await producer.send(mix.topic, **kind("ordered"), ordering_key="k")
            async with producer.transaction(mix.topic, **kind("transaction")):
                pass
            for compression in _compressions(client):
                body = (b"body of %s " % compression.encode()) * 2_000
                async with Producer(mix.namesrv, group=f"P-{mix.group}", compression=compression) as other:
                    await other.send(mix.topic, **kind(compression, body))

            async def all_came() -> bool:
                return set((await mix.java("state"))["seen"]) == set(sent)

            await mix.until(all_came)
            seen = (await mix.java("state"))["seen"]
            for mark, message in seen.items():
                assert message["body"].encode() == sent[mark]
                assert (message["topic"], message["tag"]) == (mix.topic, f"tag-{mark}")
                assert (message["keys"], message["colour"]) == (f"{mark} all", "blue, 蓝")
            assert {mark: seen[mark]["id"] for mark in ids} == ids
            assert seen["ordered"]["queue"] == ordered.queue_id

    asyncio.run(scenario())


def test_mqadmin_looks_into_a_python_consumer(cluster: Cluster, tmp_path: Path) -> None:
    """consumerStatus, consumerConnection and a message handed over by a tool."""

    async def scenario(mqadmin: Mqadmin) -> None:
        topic, group = fresh_name("T-looked"), fresh_name("G-looked")
        got: list[Message] = []
        async with Producer(cluster.namesrv) as producer:
            receipt = await producer.send(topic, b"x")
            queues = len((await producer._cluster.publish_route(topic)).read_queues())
            options: dict[str, Any] = {"group": group, "subscribe": topic, "start": "earliest"}
            async with Consumer(cluster.namesrv, **options, handler=got.append) as consumer:
                client_id = consumer._cluster.client_id
                async with asyncio.timeout(LIMIT_S):
                    while not (got and len(consumer.assigned) == queues):
                        await asyncio.sleep(0.05)

                async def run(*words: str) -> str:
                    return await asyncio.to_thread(mqadmin.run, *words)

                status = await run("consumerStatus", "-g", group)
                assert client_id in status
                assert "Same subscription in the same group of consumer" in status
                assert "Rebalance OK" in status
                status = await run("consumerStatus", "-g", group, "-i", client_id)
                assert "PROP_CLIENT_VERSION" in status and topic in status
                connection = await run("consumerConnection", "-g", group)
                assert client_id in connection and "PYTHON" in connection
                words = ("-g", group, "-d", client_id, "-i", receipt.offset_id, "-t", topic)
                assert "CR_SUCCESS" in await run("queryMsgById", *words)
                assert len(got) == 2

    with Mqadmin(cluster.namesrv, tmp_path / "tools") as mqadmin:
        asyncio.run(scenario(mqadmin))


def test_the_offsets_file_of_a_java_client_is_read_and_written_alike(
    cluster: Cluster, tmp_path: Path
) -> None:
    with JavaClient("5.5.0", tmp_path / "home") as client:
        client.run("broadcasting", cluster.namesrv)
    files = sorted((tmp_path / "home" / "offsets").rglob("offsets.json"))
    assert len(files) == 2  # of two instances
    for path in files:
        text = path.read_bytes()
        offsets = offsets_file.decode(text)
        assert sorted(offsets.values()) == [20, 20, 20, 20]
        ours = offsets_file.encode(offsets)
        assert offsets_file.decode(ours) == offsets
        assert {line.rstrip(b",") for line in ours.splitlines()} == {
            line.rstrip(b",") for line in text.splitlines()
        }


def _compressions(client: JavaClient) -> tuple[Compression, ...]:
    return ("zlib", "lz4", "zstd") if client.version.startswith("5") else ("zlib",)
