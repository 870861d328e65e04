"""What a store must still hold after it went from one broker to another: messages, topics, groups, offsets.

`Carried` writes through whatever broker serves the store now and remembers what it wrote; `check` asks the
next broker, Roquet's or Apache's, for all of it: by queue offset, by key, by unique key and by offset id.
"""

import asyncio
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeVar

from roquet.client import Answered, Message, Plain
from roquet.store.format import record
from roquet.wire.requests.groups import GetGroup, UpdateGroup
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound, QueryOffset, UpdateOffset
from roquet.wire.requests.query import QueryMessage, ViewMessage
from roquet.wire.requests.topics import GetTopic, UpdateTopic

TOPICS = ("carried-a", "carried-b")
GROUPS = ("readers-a", "readers-b")
READ_QUEUES, WRITE_QUEUES = 4, 3
RETRIES = 7
MESSAGES_EACH_STOP = 240
PATIENCE_S = 120.0
FOREVER_MS = 1 << 45

Value = TypeVar("Value")


class Written(NamedTuple):
    """One acknowledged message."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    unique_key: str
    body: bytes
    tag: str
    key: str
    color: str


class Carried:
    """The ledger of one store on its way."""

    def __init__(self) -> None:
        self.messages: list[Written] = []
        self.committed: dict[tuple[str, str, int], int] = {}

    async def set_up(self, client: Plain, broker: str) -> None:
        """Make topics and groups with settings that no default has."""
        for topic in TOPICS:
            await client.ask(broker, UpdateTopic(topic, READ_QUEUES, WRITE_QUEUES, 6))
        for group in GROUPS:
            body = json.dumps({"groupName": group, "retryMaxTimes": RETRIES}).encode()
            await client.ask(broker, UpdateGroup(), body)

    async def add(self, client: Plain, broker: str, stop: str) -> None:
        """Write more messages and move the groups on; `stop` names the place on the way."""
        for topic in TOPICS:
            await eventually(partial(client.route, topic), f"the route of {topic}")
        for number in range(MESSAGES_EACH_STOP):
            topic, queue_id = TOPICS[number % 2], number % WRITE_QUEUES
            body = f"{stop} {number} ".encode() + hashlib.sha256(b"%d" % number).digest() * (number % 60)
            tag, key, color = f"tag-{number % 5}", f"{stop}-{number}", f"{number % 7} of — ☃"
            sent = await client.send(
                topic, body, tag=tag, keys=f"{key} shared", queue_id=queue_id, properties={"color": color}
            )
            assert sent.transaction_id is not None
            log_offset = int(sent.msg_id[-16:], 16)
            self.messages.append(
                Written(
                    topic, queue_id, sent.queue_offset, log_offset, sent.transaction_id, body, tag, key, color
                )
            )
        for place, queue in self.by_queue().items():
            for group in GROUPS:
                offset = len(queue) - len(group)
                await client.ask(broker, UpdateOffset(group, *place, offset))
                self.committed[group, *place] = offset

    def by_queue(self) -> dict[tuple[str, int], list[Written]]:
        queues: dict[tuple[str, int], list[Written]] = defaultdict(list)
        for message in self.messages:
            queues[message.topic, message.queue_id].append(message)
        return queues

    async def check_messages(self, client: Plain, broker: str) -> None:
        """Find every message in every way that there is."""
        for (topic, queue_id), queue in self.by_queue().items():
            assert [message.queue_offset for message in queue] == list(range(len(queue))), "not dense"
            await self._check_queue(client, broker, topic, queue_id, queue)
        for written in self.messages[::7]:
            await self._check_lookup(client, broker, written)

    async def _check_queue(
        self, client: Plain, broker: str, topic: str, queue_id: int, queue: list[Written]
    ) -> None:
        async def is_dispatched() -> None:
            answer = await client.ask(broker, GetMaxOffset(topic, queue_id))
            assert OffsetFound.decode(answer.ext).offset == len(queue)

        await eventually(is_dispatched, f"the end of queue {queue_id} of {topic}")
        await eventually(partial(client.route, topic), f"the route of {topic}")
        found: list[Message] = []
        while len(found) < len(queue):
            more = await client.read(topic, queue_id, len(found))
            assert more, f"queue {queue_id} of {topic} ends after {len(found)} of {len(queue)} messages"
            found += more
        for written, read in zip(queue, found, strict=True):
            assert same(written, read), (written, read)

    async def _check_lookup(self, client: Plain, broker: str, written: Written) -> None:
        by_key = QueryMessage(written.topic, written.key, 64, 0, FOREVER_MS)
        by_unique_key = QueryMessage(written.topic, written.unique_key, 64, 0, FOREVER_MS, True)
        for request in (by_key, by_unique_key):

            async def is_indexed(request: QueryMessage = request) -> bytes:
                return (await client.ask(broker, request)).body

            found = await eventually(is_indexed, f"{written.key} in the index")
            answered = record.decode(found)
            assert (answered.log_offset, bytes(answered.body)) == (written.log_offset, written.body)
        answer = await client.ask(broker, ViewMessage(written.log_offset, written.topic))
        viewed = record.decode(answer.body)
        assert (viewed.queue_offset, bytes(viewed.body)) == (written.queue_offset, written.body)

    async def check_tables(self, client: Plain, broker: str) -> None:
        """Find topics, groups and offsets as they were."""
        for topic in TOPICS:
            told = json.loads((await client.ask(broker, GetTopic(topic))).body)
            counts = (told["readQueueNums"], told["writeQueueNums"], told["perm"])
            assert counts == (READ_QUEUES, WRITE_QUEUES, 6)
        for group in GROUPS:
            told = json.loads((await client.ask(broker, GetGroup(group))).body)
            assert (told["groupName"], told["retryMaxTimes"]) == (group, RETRIES)
        for place, offset in self.committed.items():
            answer = await client.ask(broker, QueryOffset(*place))
            assert OffsetFound.decode(answer.ext).offset == offset, place


def same(written: Written, read: Message) -> bool:
    properties = read.properties
    return (
        (written.queue_offset, written.log_offset, written.body)
        == (read.queue_offset, read.log_offset, read.body)
        and (written.tag, written.color) == (properties["TAGS"], properties["color"])
        and properties["KEYS"] == f"{written.key} shared"
        and properties["UNIQ_KEY"] == written.unique_key
    )


async def eventually(ask: Callable[[], Awaitable[Value]], what: str) -> Value:
    """Ask until there is no complaint: Apache's broker fills queues and index a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await ask()
        except (Answered, AssertionError) as error:
            assert time.monotonic() < deadline, f"{what}: {error}"
            await asyncio.sleep(0.02)
