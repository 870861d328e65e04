"""Clients that do a bit of everything, chosen by the seed, and tell the oracle what they saw.

Each client is one connection to each broker. It checks on the spot what can be: that an answer comes in
time unless the node was disturbed, that a reader with tags gets exactly the messages that match, that a
long poll ends when it should, that keys, ids and times lead to the right messages. What must hold over
crashes is the oracle's affair (`model_broker`); what a client does in turn is decided in `visit`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from roquet.model.message import format_properties, java_hash, parse_properties
from roquet.sim.attempts import Fate, Seen, Survives, Try, Wrong
from roquet.sim.cluster import PASSING_TOPICS, QUEUES, STEADY_TOPICS, BrokerNode, Cluster, Node
from roquet.store.format import record
from roquet.store.settings import FlushMode
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call
from roquet.wire.codes import Code
from roquet.wire.header import Frame
from roquet.wire.reply import Reply
from roquet.wire.requests.pull import LitePull, Pulled, PullFlag
from roquet.wire.requests.send import Send, SendBatch, SendV2, Sent
from roquet.wire.row import Header

TAGS = ("", "A", "B", "Aa", "BB")  # the hashes of the last two are equal: readers get both
MOSTLY_STEADY = STEADY_TOPICS * 4 + PASSING_TOPICS
ANSWER_S_MAX = 10.0
POLL_SLACK_S = 1.0
STORED_CODES = (Code.SUCCESS, Code.FLUSH_DISK_TIMEOUT)
NEVER_STORED = (Code.MESSAGE_ILLEGAL, Code.TOPIC_NOT_EXIST, Code.NO_PERMISSION, Code.INVALID_PARAMETER)


class Got(NamedTuple):
    """What a pull answered."""

    code: int
    messages: list[Seen]
    next_offset: int
    min_offset: int
    max_offset: int


class Client:
    """One client program's connections and what it does with them."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.client_id = f"client-{number}"
        self.group = f"group-{number}"
        self.rng = random.Random(f"{cluster.seed}/{self.client_id}")
        ports = cluster.world.ports(f"127.0.0.{21 + number}")
        self.host = f"127.0.0.{21 + number}"
        self._dialer = Dialer(ports.net, ports.clock, _refuse)
        self._sent = 0

    def close(self) -> None:
        self._dialer.close()

    # --- asking

    async def ask(
        self,
        node: Node,
        request: Header,
        body: bytes = b"",
        timeout_s: float = ANSWER_S_MAX,
        address: str = "",
    ) -> Frame:
        """Ask a node; raises OSError when it is gone, Wrong when it is there and does not answer."""
        began = self.cluster.now()
        try:
            answer = await self._dialer.call(address or node.address, request, timeout_s, body)
        except TimeoutError:
            if not self.cluster.was_disturbed(node, began):
                raise Wrong(f"{node.host} did not answer {request} within {timeout_s} s") from None
            raise
        if answer.code == Code.SYSTEM_ERROR and "the server's log has the details" in answer.remark:
            self._check_failure(node, request, answer.remark)
        self.cluster.note(self.client_id, type(request).__name__, answer.code, len(answer.body))
        return answer

    def _check_failure(self, node: Node, request: Header, remark: str) -> None:
        """A handler that raised is a mistake of ours, unless the disk did."""
        if "OSError" not in remark:
            raise Wrong(f"{node.host} failed at {request}: {remark}")

    # --- sending

    def pick(self, topics: tuple[str, ...] = MOSTLY_STEADY) -> tuple[BrokerNode, str, int]:
        """Choose a broker, a topic and a queue."""
        return self.rng.choice(self.cluster.brokers), self.rng.choice(topics), self.rng.randrange(QUEUES)

    def draft(self, node: BrokerNode, topic: str, queue_id: int) -> Try:
        self._sent += 1
        body = f"{self.client_id}/{self._sent}/".encode() + b"x" * self.rng.choice((0, 20, 300, 3_000))
        keys = f"k{self.rng.randrange(150)}" if self.rng.random() < 0.5 else ""
        return node.model.begin(topic, queue_id, self.rng.choice(TAGS), keys, body)

    def properties(self, attempt: Try, wait: str = "true") -> str:
        return format_properties({"TAGS": attempt.tag, "KEYS": attempt.keys, "WAIT": wait})

    async def send(self) -> None:
        """Send one message, by either code and port; sometimes without waiting for the disk."""
        node, topic, queue_id = self.pick()
        attempt = self.draft(node, topic, queue_id)
        is_waiting = self.rng.random() < 0.8
        text = self.properties(attempt, "true" if is_waiting else "false")
        form = self.rng.choice((Send, SendV2))
        request = form("p", topic, "TBW102", QUEUES, queue_id, 0, 0, 0, text)
        address = self.rng.choice((node.address, node.fast_address))
        await self.deliver(node, [attempt], request, attempt.body, is_waiting, address)

    async def send_batch(self) -> None:
        """Send several messages that are stored as a whole."""
        node, topic, queue_id = self.pick()
        attempts = [self.draft(node, topic, queue_id) for _ in range(self.rng.randrange(1, 6))]
        request = SendBatch("p", topic, "TBW102", QUEUES, queue_id, 0, 0, 0, "", batch=True)
        await self.deliver(node, attempts, request, b"".join(map(_item, attempts)), True, node.address)

    async def send_too_much(self) -> None:
        """Send what can never be stored."""
        node, topic, queue_id = self.pick()
        attempt = node.model.begin(topic, queue_id, "", "", f"{self.client_id} {self._sent} ".encode() * 999)
        self._sent += 1
        request = SendV2("p", topic, "TBW102", QUEUES, queue_id, 0, 0, 0)
        await self.deliver(node, [attempt], request, attempt.body, True, node.address)
        if attempt.fate is Fate.STORED:
            raise Wrong(f"{attempt} is longer than allowed and was stored")

    async def deliver(
        self,
        node: BrokerNode,
        attempts: list[Try],
        request: Header,
        body: bytes,
        is_waiting: bool,
        address: str,
    ) -> None:
        power_cuts = node.power_cuts
        answer = await self.ask(node, request, body, address=address)
        if answer.code in STORED_CODES:
            sent = Sent.decode(answer.ext)
            is_synced = self.cluster.plan.flush_mode is FlushMode.SYNC and is_waiting
            is_synced = is_synced and answer.code == Code.SUCCESS
            survives = Survives.POWER_CUT if is_synced else Survives.KILL
            if survives is Survives.KILL and node.power_cuts != power_cuts:
                return  # the answer outlived the machine
            places = [int(msg_id[-16:], 16) for msg_id in sent.msg_id.split(",")]
            for number, (attempt, place) in enumerate(zip(attempts, places, strict=True)):
                queue_offset = sent.queue_offset + number
                node.model.stored(attempt, queue_offset, place, survives, self.cluster.now())
        elif answer.code in NEVER_STORED:
            for attempt in attempts:
                node.model.refused(attempt)

    # --- reading

    async def read(
        self,
        node: BrokerNode,
        topic: str,
        queue_id: int,
        queue_offset: int,
        tags: str = "*",
        wait_ms: int = 0,
        commit: int | None = None,
    ) -> Got:
        """Pull once, and show the oracle what came."""
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else 0)
        flags |= PullFlag.COMMIT_OFFSET if commit is not None else 0
        request = LitePull(
            self.group, topic, queue_id, queue_offset, self.rng.choice((1, 8, 32)), int(flags),
            commit or 0, wait_ms, 0, tags, "TAG",
        )  # fmt: skip
        life = node.life
        answer = await self.ask(node, request, timeout_s=ANSWER_S_MAX + wait_ms / 1000)
        if answer.code not in (
            Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED
        ):  # fmt: skip
            return Got(answer.code, [], queue_offset, 0, 0)
        pulled = Pulled.decode(answer.ext)
        messages = decode_messages(answer.body)
        if node.life == life:
            for message in messages:
                node.model.seen(message, self.cluster.now())
        return Got(
            answer.code, messages, pulled.next_begin_offset, pulled.min_offset, pulled.max_offset
        )  # fmt: skip

    def any_offset(self, node: BrokerNode, topic: str, queue_id: int) -> int:
        """Return an offset that is likely to be in the queue."""
        known = node.model.queues.get((topic, queue_id), {})
        return self.rng.randrange(max(known, default=0) + 2)

    async def read_tags(self) -> None:
        """Read a stretch with a filter and without, and compare."""
        node, topic, queue_id = self.pick()
        wanted = self.rng.sample(TAGS[1:], self.rng.choice((1, 2)))
        codes = {java_hash(tag) for tag in wanted}
        life, at = node.life, self.any_offset(node, topic, queue_id)
        some = await self.read(node, topic, queue_id, at, " || ".join(wanted))
        if some.code not in (Code.SUCCESS, Code.PULL_RETRY_IMMEDIATELY):
            return
        everything: list[Seen] = []
        position = at
        while position < some.next_offset:
            more = await self.read(node, topic, queue_id, position)
            if more.code != Code.SUCCESS or more.min_offset > at:
                return  # deleted or moved meanwhile
            everything += more.messages
            position = more.next_offset
        if node.life != life or topic in PASSING_TOPICS:
            return
        matching = [
            seen
            for seen in everything
            if java_hash(seen.tag) in codes and seen.queue_offset < some.next_offset
        ]
        if [seen.body for seen in matching] != [seen.body for seen in some.messages]:
            raise Wrong(f"tags {wanted} of {topic}/{queue_id} from {at}: {some} instead of {matching}")

    async def poll(self) -> None:
        """Wait at the end of a queue; the answer must come with the message, or when the time is up."""
        node, topic, queue_id = self.pick(STEADY_TOPICS)
        end = await self.read(node, topic, queue_id, 1 << 40)
        began, life, wait_s = self.cluster.now(), node.life, self.rng.choice((0.5, 3.0, 8.0))
        tag = self.rng.choice(("*", "A", "B"))
        got = await self.read(node, topic, queue_id, end.max_offset, tag, int(wait_s * 1000))
        now = self.cluster.now()
        if self.cluster.was_disturbed(node, began) or node.life != life:
            return
        if now - began > wait_s + POLL_SLACK_S:
            raise Wrong(f"a long poll of {wait_s} s at {topic}/{queue_id} took {now - began:.3f} s")
        is_visible_at_once = node.model.sees is Survives.KILL
        for seen in got.messages[:1]:
            since = max(node.model.tries[seen.body].stored_at, began)
            if now - since > POLL_SLACK_S and is_visible_at_once:
                raise Wrong(f"{seen} was there since {since:.3f} and woke nobody until {now:.3f}")


def decode_messages(body: bytes) -> list[Seen]:
    """Return the messages of a pull's or query's answer."""
    found = []
    position = 0
    while position < len(body):
        read = record.decode(body, position)
        properties = parse_properties(bytes(read.properties).decode())
        found.append(
            Seen(
                read.topic,
                read.queue_id,
                read.queue_offset,
                read.log_offset,
                read.store_ms,
                properties.get("TAGS", ""),
                properties.get("KEYS", ""),
                bytes(read.body),
            )  # fmt: skip
        )
        position += read.size_bytes
    return found


def _item(attempt: Try) -> bytes:
    properties = format_properties({"TAGS": attempt.tag, "KEYS": attempt.keys}).encode()
    rest = bytes(12) + len(attempt.body).to_bytes(4, "big") + attempt.body
    rest += len(properties).to_bytes(2, "big") + properties
    return (4 + len(rest)).to_bytes(4, "big") + rest


def _refuse(call: Call) -> None:
    call.answer(Reply(Code.REQUEST_CODE_NOT_SUPPORTED, remark="a simulated client answers no requests"))


Visit = Callable[[Client], Awaitable[None]]
