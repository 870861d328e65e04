"""Reading topics for tests of senders: every message of a topic, straight from its queues."""

from __future__ import annotations

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import NoRoute
from roquet.client.message import Message
from roquet.store.format import record
from roquet.wire.codes import Code
from roquet.wire.requests.pull import Pull, Pulled, PullFlag

GROUP = "reading-tests"


async def messages_of(cluster: Cluster, topic: str) -> list[Message]:
    """Return all messages of a topic, queue by queue; none when there is no such topic yet."""
    try:
        view = await cluster.route(topic, fresh=True)
    except NoRoute:
        return []
    found: list[Message] = []
    for queue in view.read_queues():
        offset = 0
        while True:
            request = Pull(
                GROUP, topic, queue.queue_id, offset, 500, int(PullFlag.SUBSCRIPTION), 0, 0, 0, "*", "TAG"
            )
            answer = await cluster.call(view.master(queue.broker_name), request)
            if answer.code != Code.SUCCESS:
                break
            position = 0
            while position < len(answer.body):
                read = record.decode(answer.body, position)
                found.append(Message(read, queue.broker_name))
                position += read.size_bytes
            offset = Pulled.decode(answer.ext).next_begin_offset
    return found


async def bodies_of(cluster: Cluster, topic: str) -> list[bytes]:
    """Return the bodies of all messages of a topic."""
    return [message.body for message in await messages_of(cluster, topic)]
