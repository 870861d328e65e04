"""Administration of several brokers and name servers, some of them away, old, or of another mind."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from roquet.client.admin import Admin
from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import NotAllowed, NotFound, Refused, Unreachable
from roquet.client.plain import connect
from roquet.model.group import Group
from roquet.model.route import QueueName
from roquet.model.topic import Topic
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.client import GetAllProducers
from roquet.wire.requests.groups import GetGroup, QuerySubscription, QueryTopicsOfGroup, UpdateGroups
from roquet.wire.requests.topics import GetTopic, UpdateTopics
from roquet.wire.row import Header, row_of
from tests.client.ground import BROKER, BROKERS, CLIENT, NAMES, NAMESRV, Ground, Someone

BOTH = {"broker-a", "broker-b"}


def play(scenario: Coroutine[Any, Any, None], ground: Ground) -> None:
    async def run(_: Ground) -> None:
        await scenario

    ground.play(run)


def test_changes_go_to_every_master_and_answers_come_from_all() -> None:
    ground = Ground()

    async def scenario() -> None:
        await ground.start(brokers=2)
        async with ground.cluster() as cluster, Admin(cluster) as admin:
            await admin.topics.create("orders", queues=2)
            assert set(await admin.topics.get("orders")) == BOTH
            assert len((await admin.topics.route("orders")).write_queues()) == 4
            await admin.topics.create("alone", broker="broker-b")
            assert set(await admin.topics.get("alone")) == {"broker-b"}
            await admin.topics.update("orders", queues=3, broker="broker-a")
            assert {
                name: each.read_queue_nums for name, each in (await admin.topics.get("orders")).items()
            } == {
                "broker-a": 3,
                "broker-b": 2,
            }
            await admin.groups.create("billing")
            for number, name in enumerate(sorted(BOTH)):
                await admin.offsets.commit("billing", QueueName(name, 0, "orders"), number)
            await admin.offsets.reset("billing", "orders", "earliest")
            progress = await admin.offsets.progress("billing")
            assert {each.queue.broker_name for each in progress.queues} == BOTH
            assert len((await admin.topics.stats("orders")).queues) == 5
            assert [place.name for place in await admin.cluster.list()] == sorted(BOTH)
            await admin.topics.delete("orders")
            assert "orders" not in await admin.topics.list()

    play(scenario(), ground)


def test_who_did_it_is_said_when_another_could_not() -> None:
    ground = Ground()

    async def scenario() -> None:
        await ground.start(brokers=2)
        async with ground.cluster(timeout=1.0) as cluster, Admin(cluster) as admin:
            await admin.topics.create("orders")
            ground.world.kill(BROKERS[1])
            with pytest.raises(Unreachable) as raised:
                await admin.groups.create("billing")
            assert raised.value.__notes__ == ["it was done by broker-a"]
            assert "billing" in await admin.groups.table("broker-a")

    play(scenario(), ground)


def test_a_name_server_that_is_away_holds_up_no_creation() -> None:
    ground = Ground()

    async def scenario() -> None:
        await ground.start()
        ground.world.kill(NAMES[1])
        async with ground.cluster(timeout=1.0) as cluster, Admin(cluster) as admin:
            before = ground.clock.monotonic()
            await admin.topics.create("orders", queues=2)
            assert ground.clock.monotonic() - before < 4
            assert len((await admin.topics.route("orders")).write_queues()) == 2
            with pytest.raises(Unreachable):  # a change that each must take says so
                await admin.names.put("space", "k", "v")
            assert await admin.names.get("space", "k") == "v"

    play(scenario(), ground)


def test_a_broker_that_only_tells_members_is_told_itself() -> None:
    ground = Ground(use_server_side_reset=False)

    async def scenario() -> None:
        await ground.start()
        ports = ground.world.ports(CLIENT)
        async with (
            ground.cluster() as cluster,
            Admin(cluster) as admin,
            connect(NAMESRV.split(";")[0], ports) as client,
        ):
            await admin.topics.create("orders", queues=1)
            await admin.groups.create("billing")
            queue = QueueName("broker-a", 0, "orders")
            for _ in range(3):
                await client.send("orders", b"x")
            assert await admin.offsets.skip("billing", "orders") == {queue: 3}  # no position yet
            assert await admin.offsets.position("billing", queue) == 3
            assert await admin.offsets.reset("billing", "orders", "earliest") == {queue: 0}  # nobody live
            assert await admin.offsets.position("billing", queue) == 0
            assert await admin.offsets.reset_queue("billing", queue, 2) == 2
            assert await admin.offsets.position("billing", queue) == 2
            with pytest.raises(NotFound):
                await admin.offsets.reset_queue("billing", QueueName("broker-z", 0, "orders"), 1)

    play(scenario(), ground)


class Old(Cluster):
    """A cluster whose brokers say that they are of release 4.9 and do not know what that did not know."""

    UNKNOWN = (
        GetTopic,
        GetGroup,
        UpdateTopics,
        UpdateGroups,
        QuerySubscription,
        QueryTopicsOfGroup,
        GetAllProducers,
    )

    async def call(
        self, address: str, request: Header, body: bytes = b"", timeout_s: float | None = None
    ) -> Frame:
        if isinstance(request, self.UNKNOWN):
            return Frame(
                Code.REQUEST_CODE_NOT_SUPPORTED, remark=f"{row_of(type(request)).code} not supported"
            )
        return (await super().call(address, request, body, timeout_s))._replace(version=397)


def test_brokers_before_5_0_are_asked_in_their_own_way() -> None:
    ground = Ground()

    async def scenario() -> None:
        await ground.start()
        async with Old(NAMESRV, ports=ground.world.ports(CLIENT)) as cluster, Admin(cluster) as admin:
            await admin.topics.create_many([Topic(topic_name=name, read_queue_nums=3) for name in ("t", "u")])
            assert (await admin.topics.get("t"))["broker-a"].read_queue_nums == 3
            await admin.topics.update("t", queues=2)
            assert (await admin.topics.get("t"))["broker-a"].read_queue_nums == 2
            with pytest.raises(NotFound, match="roquet topic create"):
                await admin.topics.get("absent")
            await admin.groups.create_many([Group(group_name="g", retry_max_times=4)])
            assert (await admin.groups.get("g"))["broker-a"].retry_max_times == 4
            with pytest.raises(NotFound, match="roquet group create"):
                await admin.groups.get("absent")
            queue = QueueName("broker-a", 0, "t")
            assert await admin.offsets.reset_queue("g", queue, 0) == 0
            assert await admin.groups.topics("g") == ("t",)
            member = Someone("g", "t")
            await cluster.route("t")
            cluster.join(member)
            await cluster.beat()
            assert (await admin.groups.subscription("g", "t"))["broker-a"].sub_string == "*"
            with pytest.raises(Refused, match="too old"):
                await admin.clients.all_producers("broker-a")

    play(scenario(), ground)


def test_dead_letters_that_nobody_may_read() -> None:
    ground = Ground()

    async def scenario() -> None:
        await ground.start()
        ports = ground.world.ports(CLIENT)
        async with (
            ground.cluster() as cluster,
            Admin(cluster) as admin,
            connect(NAMESRV.split(";")[0], ports) as client,
        ):
            await admin.topics.create("%DLQ%g", queues=1, access="w")
            await client.send("%DLQ%g", b"x", properties={"RETRY_TOPIC": "t"})
            assert (await admin.dead_letters.count("g")).letters == 1
            with pytest.raises(NotAllowed, match="--access rw"):
                await admin.dead_letters.peek("g")
            await admin.topics.update("%DLQ%g", access="rw")
            assert [each.body for each in await admin.dead_letters.peek("g")] == [b"x"]

    play(scenario(), ground)


def test_a_broker_is_named_or_addressed() -> None:
    ground = Ground()

    async def scenario() -> None:
        await ground.start()
        async with ground.cluster() as cluster, Admin(cluster) as admin:
            by_name, by_address = await admin.cluster.runtime("broker-a"), await admin.cluster.runtime(BROKER)
            assert by_name.booted == by_address.booted
            await admin.topics.create("t", broker=BROKER)
            assert "t" in await admin.topics.table(BROKER)

    play(scenario(), ground)
