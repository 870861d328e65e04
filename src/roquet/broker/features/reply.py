"""Request and reply: an answer goes straight to the producer that asked, and into the log beside.

    requester ── plain send ─▶ topic ─▶ consumer ── 324, 325 ─▶ here ── 326 ─▶ requester (10 s at most)
                                                                 └─▶ <cluster>_REPLY_TOPIC, where it is kept

The sender is told whether the answer arrived. What is kept is for people: nothing reads it, so a reply that
could not be stored is only logged. Requests are plain messages and never come here. Compatibility:
ReplyMessageProcessor of Apache 5.5.0; there a compressed reply loses its flag in the log, here it keeps it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple, Protocol

from roquet.broker.core.pipeline import Pipeline
from roquet.broker.core.redraft import keys_of, tag_code_of
from roquet.broker.core.sessions import Channel, Member, Sessions
from roquet.broker.core.topics import Topics
from roquet.model import names
from roquet.model.ids import offset_id
from roquet.model.message import Draft, Host, SysFlag, format_properties, parse_properties
from roquet.ports import Clock, Rng
from roquet.transport.link import Call, Link
from roquet.transport.router import Handler
from roquet.wire.codes import Code
from roquet.wire.connection import TooManyWaiting
from roquet.wire.reply import Outcome, Refusal, Reply
from roquet.wire.requests.reply import PushReply, SendReply, SendReplyV2
from roquet.wire.requests.send import Refused, Sent
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker.reply")

PUSH_SECONDS: Final = 10.0
KNOWN_MAX: Final = 10_000
REPLY_TO: Final = "REPLY_TO_CLIENT"
PREPARED: Final = "TRAN_MSG"

AnyReply = SendReply | SendReplyV2

_NOT_SENT: Final = int(
    SysFlag.BORN_HOST_V6
    | SysFlag.STORE_HOST_V6
    | SysFlag.TRANSACTION_MASK
    | SysFlag.NEED_UNWRAP
    | SysFlag.INNER_BATCH
)
"""Bits that say how a record is laid out or what it means, which is not the sender's to choose."""


class Counters(Protocol):
    """What replies need of the statistics."""

    def put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None: ...


class Rules(NamedTuple):
    """The settings that may change while the broker runs."""

    is_kept: bool
    accept_after_ms: int


class Replies:
    """Hands answers to live producers."""

    def __init__(
        self,
        clock: Clock,
        rng: Rng,
        pipeline: Pipeline,
        topics: Topics,
        sessions: Sessions,
        stats: Counters,
        store_host: Host,
        own: Refused,
        rules: Callable[[], Rules],
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._pipeline = pipeline
        self._topics = topics
        self._stats = stats
        self._store_host = store_host
        self._own = own
        self._rules = rules
        self._requesters = Requesters(sessions)

    def routes(self) -> dict[type[Header], Handler]:
        return {SendReply: self.reply, SendReplyV2: self.reply}

    async def reply(self, request: AnyReply, call: Call) -> Outcome:
        """Push, keep, answer; a reply that did not arrive is kept all the same."""
        queue_id = self._admit(request)
        properties = parse_properties(request.properties)
        header: Sent | Refused = self._own
        code, remark = Code.SYSTEM_ERROR, await self._push(request, properties, call)
        if not remark:
            code, header = Code.SUCCESS, self._sent("0", queue_id, 0)
        if self._rules().is_kept:
            header = await self._keep(request, queue_id, properties, call) or header
        return Reply(code, header, b"", remark)

    def _admit(self, request: AnyReply) -> int:
        """Return the queue that a reply may go to; raises Refusal."""
        name, accept_after_ms = request.topic, self._rules().accept_after_ms
        if self._clock.now_ms() < accept_after_ms:
            raise self._refusal(Code.SYSTEM_ERROR, f"broker unable to service, until {accept_after_ms}")
        topic = self._topics.get(name)
        fault = "" if topic is not None else names.topic_fault(name)
        if fault:
            raise self._refusal(Code.INVALID_PARAMETER, fault)
        if name in names.NO_SEND_TOPICS:
            raise self._refusal(Code.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
        if topic is None and not names.is_retry(name):
            topic = self._topics.create_on_send(
                name, request.default_topic, request.default_topic_queue_nums, bool(request.unit_mode)
            )
        if topic is None:
            usual = f"{self._topics.identity.cluster}_REPLY_TOPIC"
            remark = f"topic[{name}] not exist, apply first please! Replies usually go to {usual}"
            raise self._refusal(Code.TOPIC_NOT_EXIST, remark)
        queues = max(topic.read_queue_nums, topic.write_queue_nums)
        if request.queue_id >= queues:
            remark = f"request queueId[{request.queue_id}] is illegal, topic {name} has {queues} queues"
            raise self._refusal(Code.INVALID_PARAMETER, remark)
        if request.queue_id < 0:
            return self._rng.randrange(max(topic.write_queue_nums, 1))
        return request.queue_id

    async def _push(self, request: AnyReply, properties: Mapping[str, str], call: Call) -> str:
        """Hand the reply to whoever asked; returns what went wrong, empty when it arrived."""
        client_id = properties.get(REPLY_TO)
        if client_id is None:
            return f"reply message properties[{REPLY_TO}] is null"
        shown = client_id[:255]
        link = self._requesters.find(client_id)
        if link is None:
            return f"push reply message fail, channel of <{shown}> not found."
        try:
            answer = await link.call(
                self._question(request, properties, call), PUSH_SECONDS, bytes(call.frame.body)
            )
        except (ConnectionError, TimeoutError, TooManyWaiting) as error:
            return f"push reply message to {shown} fail: {error}"
        if answer.code != Code.SUCCESS:
            return f"push reply message to {shown} fail: it answered {answer.code} {answer.remark[:255]}"
        return ""

    def _question(self, request: AnyReply, properties: Mapping[str, str], call: Call) -> PushReply:
        now_ms = self._clock.now_ms()
        born, store = _host(call.link.peer), self._store_host
        return PushReply(
            request.producer_group,
            request.topic,
            request.default_topic,
            request.default_topic_queue_nums,
            request.queue_id,
            request.sys_flag,
            request.born_timestamp,
            request.flag,
            f"{ip_address(born.ip)}:{born.port}",
            f"{ip_address(store.ip)}:{store.port}",
            now_ms,
            format_properties({**properties, "PUSH_REPLY_TIME": str(now_ms)}),
            request.reconsume_times,
            request.unit_mode,
        )

    async def _keep(
        self, request: AnyReply, queue_id: int, properties: Mapping[str, str], call: Call
    ) -> Sent | None:
        """Store the reply as it came and return where it lies; None when the store or a feature says no."""
        draft = self._draft(request, queue_id, properties, call)
        # A reply opens no transaction, whatever it says: nobody would ever end it.
        seen = {name: value for name, value in properties.items() if name != PREPARED}
        try:
            result = await self._pipeline.put(draft, seen)
        except Refusal as refusal:
            log.warning("a reply in %s was not kept: %s", draft.topic, refusal)
            return None
        if not result.log_offsets:
            reason = result.reason or result.status.value
            log.warning("a reply in %s was not kept: %s", draft.topic, reason)
            return None
        self._stats.put(draft.topic, queue_id, 1, result.size_bytes)
        return self._sent(offset_id(self._store_host, result.log_offsets[0]), queue_id, result.queue_offset)

    def _draft(self, request: AnyReply, queue_id: int, properties: Mapping[str, str], call: Call) -> Draft:
        born = _host(call.link.peer)
        born_v6 = int(SysFlag.BORN_HOST_V6) if born.is_v6 else 0
        store_v6 = int(SysFlag.STORE_HOST_V6) if self._store_host.is_v6 else 0
        return Draft(
            request.topic,
            queue_id,
            call.frame.body,
            request.properties.encode(),
            request.flag,
            request.sys_flag & ~_NOT_SENT | born_v6 | store_v6,
            request.born_timestamp,
            born,
            request.reconsume_times or 0,
            0,
            tag_code_of(properties),
            keys_of(properties),
        )

    def _sent(self, msg_id: str, queue_id: int, queue_offset: int) -> Sent:
        own = self._own
        return Sent(msg_id, queue_id, queue_offset, region=own.region, trace_on=own.trace_on)

    def _refusal(self, code: int, remark: str) -> Refusal:
        return Refusal(code, remark, self._own)


class Requesters:
    """Finds the connection of a client among the producers; remembers whom it found while they stay."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._known: dict[str, tuple[str, Channel]] = {}

    def find(self, client_id: str) -> Link | None:
        """Return the connection over which a client was heard last; None when it is not here."""
        group, channel = self._known.get(client_id, ("", None))
        if channel is not None:
            member = self._sessions.producers.get(group, {}).get(channel)
            if member is not None and member.client_id == client_id and _is_open(member):
                assert isinstance(channel, Link)
                return channel
        return self._look_for(client_id)

    def _look_for(self, client_id: str) -> Link | None:
        found = [
            (member.last_seen, group, member.channel)
            for group, members in self._sessions.producers.items()
            for member in members.values()
            if member.client_id == client_id and _is_open(member)
        ]
        self._known.pop(client_id, None)
        if not found:
            return None
        _, group, channel = max(found, key=lambda each: each[0])
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[client_id] = (group, channel)
        assert isinstance(channel, Link)
        return channel


def _is_open(member: Member) -> bool:
    return isinstance(member.channel, Link) and member.channel.is_open


def _host(peer: tuple[str, int]) -> Host:
    """Return a peer's address as records carry it; v4 addresses seen through v6 become v4 again."""
    address = ip_address(peer[0].partition("%")[0] or "0.0.0.0")
    mapped = getattr(address, "ipv4_mapped", None)
    return Host((mapped or address).packed, peer[1])
