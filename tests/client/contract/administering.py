"""What tests of administration share: an administrator with a plain client beside it, and live members."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from roquet.client.admin import Admin
from roquet.client.cluster.cluster import Cluster
from roquet.client.plain import Plain, connect
from roquet.model.group import Subscription
from roquet.model.route import QueueName
from roquet.wire.bodies import answers, running
from roquet.wire.bodies.heartbeat import ConsumerBeat, ProducerBeat
from roquet.wire.reply import Reply
from roquet.wire.requests.client import ConsumeDirectly, GetClientStatus, GetRunningInfo
from tests.client.contract.server import Server

BROKER = "broker-a"


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[tuple[Admin, Plain]]:
    """An administrator, and a plain client that sends."""
    async with (
        Admin(server.namesrv, timeout=20.0, ports=server.ports) as admin,
        connect(server.namesrv, server.ports) as client,
    ):
        yield admin, client


async def topic_of(server: Server, admin: Admin, queues: int = 2) -> str:
    name = server.fresh("admin")
    await admin.topics.create(name, queues=queues)
    return name


async def stored(server: Server, admin: Admin, topic: str, count: int) -> None:
    """Wait until the queues of a topic show so many messages: Apache's fill a moment after the answer."""

    async def are_there() -> bool:
        return (await admin.topics.stats(topic)).messages == count

    await server.eventually(are_there)


class Live:
    """A member of a group that consumes nothing and answers what administrators ask."""

    is_consumer = True

    def __init__(self, group: str, topic: str, expression: str = "*") -> None:
        self.group = group
        self.topic = topic
        self.expression = expression
        self.handed: list[bytes] = []

    def subscription(self) -> Subscription:
        return Subscription(topic=self.topic, sub_string=self.expression, sub_version=1)

    def beat(self) -> ConsumerBeat:
        return ConsumerBeat(self.group, subscription_data_set=[self.subscription()])

    def topics(self) -> Collection[str]:
        return (self.topic,)

    def route_changed(self, topic: str) -> None:
        pass

    def running(self, request: GetRunningInfo, *_rest: Any) -> Reply:
        queue = QueueName(BROKER, 0, self.topic)
        info = running.RunningInfo(
            queues={queue: running.QueueState(commit_offset=7)},
            properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
            subscriptions=(self.subscription(),),
        )
        return Reply(body=running.encode_running(info))

    def status(self, request: GetClientStatus, *_rest: Any) -> Reply:
        return Reply(body=answers.encode_positions({QueueName(BROKER, 0, self.topic): 7}))

    def consume(self, request: ConsumeDirectly, frame: Any, _link: Any) -> Reply:
        self.handed.append(bytes(frame.body))
        return Reply(body=running.encode_consumed(running.ConsumedDirectly(consume_result="CR_LATER")))


class LiveProducer:
    """A producer that only beats."""

    is_consumer = False

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic

    def beat(self) -> ProducerBeat:
        return ProducerBeat(self.group)

    def topics(self) -> Collection[str]:
        return (self.topic,)

    def route_changed(self, topic: str) -> None:
        pass


_instances = itertools.count(1)


@asynccontextmanager
async def living(server: Server, *members: Live | LiveProducer) -> AsyncIterator[str]:
    """Members of one client, known to the broker; yields the client's id."""
    instance = f"live-{next(_instances)}"
    async with Cluster(server.namesrv, instance=instance, ports=server.ports) as cluster:
        for member in members:
            await cluster.route(member.topic, fresh=True)
            if isinstance(member, Live):
                cluster.answer(GetRunningInfo, member.running)
                cluster.answer(GetClientStatus, member.status)
                cluster.answer(ConsumeDirectly, member.consume)
            cluster.join(member)
        await cluster.beat()
        yield cluster.client_id
        for member in members:
            await cluster.leave(member)
