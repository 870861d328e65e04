"""Sends: check, complete the properties, run the features, append, answer when it is stored.

    10, 310 ─▶ admit (name, topic, queue) ─▶ Draft ─▶ features.before_append ─▶ store.append ─▶ reply
    320     ─▶ the same, one draft for each message of the batch, stored as a whole
    30038   ─▶ a batch of which every message must become a half

The order of the checks and their codes are Apache's (SendMessageProcessor 5.5.0). The append path never
waits here: the answer leaves when the store calls back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, Protocol

from roquet.broker.core import batch, lane
from roquet.broker.core.attributes import message_fault
from roquet.broker.core.groups import Groups
from roquet.broker.core.pipeline import NO_FIELDS, Pipeline, Prepared
from roquet.broker.core.redraft import keys_of, tag_code_of
from roquet.broker.core.topics import Topics
from roquet.model import names
from roquet.model.ids import UniqueIds, id_prefix
from roquet.model.message import PAIR_SEPARATOR, Draft, Host, SysFlag, format_properties, parse_properties
from roquet.model.status import Appended, PutStatus
from roquet.model.topic import Perm, Topic
from roquet.ports import Clock, Rng
from roquet.transport.link import Call, Link
from roquet.transport.router import Handler, RunHandler
from roquet.wire.bodies.batch import BatchError
from roquet.wire.codes import Code
from roquet.wire.frame import JSON, Frame
from roquet.wire.reply import PARKED, Outcome, Refusal, Reply
from roquet.wire.requests.send import Refused, Send, SendBatch, SendV2, Sent, StageHalves
from roquet.wire.row import Header, row_of

WAITING_MAX: Final = 10_000
"""Sends that may wait for the disk at once; Apache's send queue is as long."""

WAITING_BYTES_MAX: Final = 256 * 1024 * 1024

RUN_BYTES_MAX: Final = 64 * 1024
"""A run is stored whole; a larger one might not fit into what is left of a small log file."""

PROPERTIES_BYTES_MAX: Final = 32_767
CRC_ROOM_BYTES: Final = 32
"""Left free for the checksum property that the store may add."""
_STORED_PROPERTIES_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - CRC_ROOM_BYTES

_CODES: Final = {
    PutStatus.PUT_OK: Code.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: Code.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: Code.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SERVICE_NOT_AVAILABLE: Code.SERVICE_NOT_AVAILABLE,
    PutStatus.CREATE_MAPPED_FILE_FAILED: Code.SYSTEM_ERROR,
    PutStatus.MESSAGE_ILLEGAL: Code.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: Code.MESSAGE_ILLEGAL,
    PutStatus.UNKNOWN_ERROR: Code.SYSTEM_ERROR,
}

# Plain numbers: the operators of the enumerations cost more than all the checks of a send together.
_WRITE: Final = int(Perm.WRITE)
_BORN_V6: Final = int(SysFlag.BORN_HOST_V6)
_STORE_V6: Final = int(SysFlag.STORE_HOST_V6)
_HOST_BITS: Final = _BORN_V6 | _STORE_V6
_TRANSACTION_BITS: Final = int(SysFlag.TRANSACTION_MASK)

_SEND_CODE: Final = row_of(SendV2).code
_NO_HANDLES: Final[dict[int, str]] = {}
_OWN_NAMES: Final = frozenset({"MSG_REGION", "TRACE_ON", "CLUSTER", "POP_CK"})

AnySend = Send | SendV2 | SendBatch


class PutCounter(Protocol):
    """What sends need of the statistics."""

    def put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None: ...

    def fail(self) -> None: ...


class SendHandlers:
    """Answers 10, 310, 320 and 30038."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        pipeline: Pipeline,
        stats: PutCounter,
        store_host: Host,
        unique_ids: UniqueIds,
        clock: Clock,
        rng: Rng,
        region: str,
        trace_on: bool,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._pipeline = pipeline
        self._stats = stats
        self._unique_ids = unique_ids
        self._clock = clock
        self._rng = rng
        self._id_prefix = id_prefix(store_host)
        self._store_v6 = _STORE_V6 if store_host.is_v6 else 0
        self._region = region
        self._trace_on = "true" if trace_on else "false"
        self._refused = Refused(region, self._trace_on)
        cluster = topics.identity.cluster
        self._own_properties = {"MSG_REGION": region, "TRACE_ON": self._trace_on, "CLUSTER": cluster}
        self._own_text = format_properties(self._own_properties)
        self._waiting = 0
        self._waiting_bytes = 0
        self.set_terms(frozenset(), 0)
        self.broker_perm = int(Perm.READ | Perm.WRITE)
        self.accept_after_ms = 0
        self.checks_message_type = True

    def routes(self) -> dict[type[Header], Handler]:
        return {Send: self.send, SendV2: self.send, SendBatch: self.send_batch, StageHalves: self.stage}

    def runs(self) -> dict[type[Header], RunHandler]:
        return {SendV2: self.send_run}

    def send_run(self, link: Link, frames: list[Frame], start: int) -> int:
        """Store the regular messages among the sends that came together; see `core.lane`.

        Returns how many there were from `start` on. What is left, and what cannot be taken now, is sent the
        long way, where every refusal has its words.
        """
        if self._waiting >= WAITING_MAX or not self.broker_perm & _WRITE or self.accept_after_ms:
            return 0
        if link.encoding != JSON:
            return 0
        born = _born_host(link.peer)
        terms = self._terms_v6 if len(born.ip) == 16 else self._terms
        sent, marked = lane.drafts(frames, start, _SEND_CODE, self._topics.ordinary, born, terms)
        stored, handles = self._prepare_marked(sent, marked) if marked else (sent, _NO_HANDLES)
        if not stored:
            return 0
        size_bytes = sum([len(draft.body) for draft in stored])
        if self._waiting_bytes + size_bytes > WAITING_BYTES_MAX or size_bytes > RUN_BYTES_MAX:
            return 0
        self._waiting += len(stored)
        self._waiting_bytes += size_bytes

        def done(result: Appended) -> None:
            self._waiting -= len(stored)
            self._waiting_bytes -= size_bytes
            self._answer_run(link, frames, start, sent[: len(stored)], stored, result, terms, handles)

        self._pipeline.append(stored, done)
        return len(stored)

    def _prepare_marked(
        self, sent: list[Draft], marked: Sequence[tuple[int, Mapping[str, str]]]
    ) -> tuple[list[Draft], dict[int, str]]:
        """Return the drafts as the features want them stored, and the recall handles for the answers.

        Ends before the first draft that a feature refuses or the store may refuse: one append is stored
        whole or not at all.
        """
        stored = list(sent)
        handles: dict[int, str] = {}
        for number, properties in marked:
            try:
                draft, reply = self._pipeline.prepare(sent[number], properties)
            except Refusal:
                return stored[:number], handles
            if draft.sys_flag & _TRANSACTION_BITS or len(draft.properties) > _STORED_PROPERTIES_BYTES_MAX:
                return stored[:number], handles
            stored[number] = draft
            if reply:
                handles[number] = reply["recallHandle"]
        return stored, handles

    def _answer_run(
        self,
        link: Link,
        frames: list[Frame],
        start: int,
        sent: list[Draft],
        stored: list[Draft],
        result: Appended,
        terms: lane.Terms,
        handles: Mapping[int, str],
    ) -> None:
        code = _CODES[result.status]
        offsets, queue_offsets = result.log_offsets, result.queue_offsets
        if not offsets:
            remark = result.reason or f"store putMessage failed: {result.status.value}"
            for number in range(len(stored)):
                self._stats.fail()
                link.send_reply(frames[start + number], Reply(code, self._refused, b"", remark))
            return
        put = self._stats.put
        size_bytes = result.size_bytes // len(stored)
        for asked, draft in zip(sent, stored, strict=True):
            put(draft.topic, asked.queue_id, 1, size_bytes)
        link.write(
            lane.replies(frames, start, sent, offsets, queue_offsets, code, result.reason, terms, handles)
        )

    def set_terms(self, marks: frozenset[str], message_bytes_max: int) -> None:
        """Say what regular messages are: bodies not larger, and which properties the features must see."""
        own = self._own_text.encode()
        self._terms = lane.Terms(
            _OWN_NAMES,
            int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH) | _HOST_BITS,
            marks,
            _TRANSACTION_BITS,
            self._store_v6,
            own,
            message_bytes_max,
            _STORED_PROPERTIES_BYTES_MAX - len(own),
            self._id_prefix,
            self._region,
            self._trace_on,
        )
        self._terms_v6 = self._terms._replace(host_flags=self._store_v6 | _BORN_V6)

    def send(self, request: AnySend, call: Call) -> Outcome:
        """Store one message (or a batch that came under the code of a single one)."""
        if request.batch:
            return self.send_batch(request, call)
        topic, queue_id = self._admit(request, call)
        properties, stored = self._complete(request.properties)
        unique_key = properties["UNIQ_KEY"]
        born = _born_host(call.link.peer)
        draft = Draft(
            topic.topic_name,
            queue_id,
            call.frame.body,
            stored,
            request.flag,
            self._sys_flag(request.sys_flag, born),
            request.born_timestamp,
            born,
            request.reconsume_times or 0,
            0,
            tag_code_of(properties),
            keys_of(properties),
        )
        if request.max_reconsume_times is not None:
            properties["MAX_RECONSUME_TIMES"] = str(request.max_reconsume_times)
        if topic.attributes:
            self._check_attributes(topic, draft, properties)
        prepared = self._prepare(draft, properties)
        self._append((prepared.draft,), queue_id, unique_key, prepared.reply, call)
        return PARKED

    def send_batch(self, request: AnySend, call: Call) -> Outcome:
        """Store the messages of a batch, all or none; they keep the bytes of their properties."""
        drafts, queue_id = self._batch(request, call)
        unique_key = parse_properties(request.properties).get("UNIQ_KEY", "")
        self._append(drafts, queue_id, unique_key, NO_FIELDS, call)
        return PARKED

    def stage(self, request: StageHalves, call: Call) -> Outcome:
        """Store a batch of halves, all or none; what would be visible at once is refused."""
        drafts, queue_id = self._batch(request, call)
        for number, draft in enumerate(drafts):
            if draft.topic != names.HALF_TOPIC:
                remark = f"message {number} of {len(drafts)} opens no transaction: nothing is stored"
                raise self._refusal(Code.MESSAGE_ILLEGAL, remark)
        self._append(drafts, queue_id, "", NO_FIELDS, call)
        return PARKED

    def _batch(self, request: AnySend, call: Call) -> tuple[list[Draft], int]:
        """Return the messages of a batch as they are stored, and the queue that they are for."""
        topic, queue_id = self._admit(request, call)
        if names.is_retry(topic.topic_name):
            raise self._refusal(Code.MESSAGE_ILLEGAL, "batches cannot be sent to retry topics")
        if len(request.topic) > names.TOPIC_CHARS_MAX:
            raise self._refusal(Code.MESSAGE_ILLEGAL, "message topic length is longer than 127")
        born = _born_host(call.link.peer)
        shared = Draft(
            topic.topic_name,
            queue_id,
            b"",
            b"",
            0,
            self._sys_flag(request.sys_flag, born),
            request.born_timestamp,
            born,
            request.reconsume_times or 0,
        )
        is_marked = bool(topic.topic_name not in self._topics.ordinary or shared.sys_flag & _TRANSACTION_BITS)
        try:
            drafts, marked = batch.drafts(call.frame.body, shared, self._terms.marks, is_marked)
        except BatchError as error:
            raise self._refusal(Code.MESSAGE_ILLEGAL, str(error)) from None
        if not drafts:
            raise self._refusal(Code.MESSAGE_ILLEGAL, "the batch holds no message")
        for number, properties in marked:
            if topic.attributes:
                self._check_attributes(topic, drafts[number], properties)
            drafts[number] = self._prepare(drafts[number], properties).draft
        return drafts, queue_id

    def _complete(self, text: str) -> tuple[dict[str, str], bytes]:
        """Return a message's properties with the broker's own added, parsed and as they are stored."""
        properties = parse_properties(text)
        is_regular = text.endswith(PAIR_SEPARATOR) and text.count(PAIR_SEPARATOR) == len(properties)
        if is_regular and "UNIQ_KEY" in properties and _OWN_NAMES.isdisjoint(properties):
            properties.update(self._own_properties)
            return properties, (text + self._own_text).encode()
        if "UNIQ_KEY" not in properties:
            properties["UNIQ_KEY"] = self._unique_ids.next(self._clock.now_ms())
        properties.pop("POP_CK", None)
        properties.update(self._own_properties)
        return properties, format_properties(properties).encode()

    def _admit(self, request: AnySend, call: Call) -> tuple[Topic, int]:
        """Return the topic and the queue that a send may go to; raises Refusal."""
        name = request.topic
        topic = self._topics.table.get(name)
        if self.accept_after_ms and self._clock.now_ms() < self.accept_after_ms:
            raise self._refusal(Code.SYSTEM_ERROR, f"broker unable to service, until {self.accept_after_ms}")
        if not self.broker_perm & _WRITE and topic is not None and topic.order:
            broker = self._topics.identity.broker_name
            raise self._refusal(Code.NO_PERMISSION, f"the broker[{broker}] sending message is forbidden")
        if topic is None:
            fault = names.topic_fault(name)
            if fault:
                raise self._refusal(Code.INVALID_PARAMETER, fault)
        if name in names.NO_SEND_TOPICS:
            raise self._refusal(Code.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
        if topic is None:
            topic = self._topics.create_on_send(
                name, request.default_topic, request.default_topic_queue_nums, bool(request.unit_mode)
            )
            if topic is None:
                raise self._refusal(
                    Code.TOPIC_NOT_EXIST,
                    f"topic[{name}] not exist, apply first please! Automatic creation is off for "
                    f"the template {request.default_topic[:80]}: create it with "
                    f"`mqadmin updateTopic -t {name} -c {self._topics.identity.cluster}`",
                )
        if request.queue_id >= max(topic.read_queue_nums, topic.write_queue_nums):
            raise self._refusal(
                Code.INVALID_PARAMETER,
                f"request queueId[{request.queue_id}] is illegal, topic {name} has {topic.write_queue_nums} "
                f"write queues. Producer: {call.link.peer[0]}:{call.link.peer[1]}",
            )
        if names.is_retry(name):
            group = name.removeprefix(names.RETRY_PREFIX)
            if self._groups.find(group) is None:
                raise self._refusal(
                    Code.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}"
                )
        if request.queue_id < 0:
            return topic, self._rng.randrange(max(topic.write_queue_nums, 1))
        return topic, request.queue_id

    def _append(
        self,
        drafts: Sequence[Draft],
        queue_id: int,
        unique_key: str,
        reply: Mapping[str, str],
        call: Call,
    ) -> None:
        size_bytes = len(call.frame.body)
        if self._waiting >= WAITING_MAX or self._waiting_bytes + size_bytes > WAITING_BYTES_MAX:
            raise self._refusal(
                Code.SYSTEM_BUSY,
                f"[OVERLOAD] {self._waiting} sends of {self._waiting_bytes} bytes wait for the disk; "
                f"try again later, or look at the disk and the flush mode",
            )
        self._waiting += 1
        self._waiting_bytes += size_bytes

        def done(result: Appended) -> None:
            self._waiting -= 1
            self._waiting_bytes -= size_bytes
            self._answer(call, drafts[0].topic, queue_id, unique_key, reply, result)

        self._pipeline.append(drafts, done)

    def _answer(
        self,
        call: Call,
        topic: str,
        queue_id: int,
        unique_key: str,
        reply: Mapping[str, str],
        result: Appended,
    ) -> None:
        if not result.log_offsets:
            self._stats.fail()
            remark = result.reason or f"store putMessage failed: {result.status.value}"
            call.answer(Reply(_CODES[result.status], self._refused, b"", remark))
            return
        self._stats.put(topic, queue_id, len(result.log_offsets), result.size_bytes)
        sent = Sent(
            batch.message_ids(self._id_prefix, result.log_offsets),
            queue_id,
            result.queue_offset,
            unique_key or None,
            reply.get("recallHandle") if reply else None,
            self._region,
            self._trace_on,
        )
        call.answer(Reply(_CODES[result.status], sent, b"", result.reason))

    def _prepare(self, draft: Draft, properties: Mapping[str, str]) -> Prepared:
        """Lead a draft through the features; raises what one of them refuses, as a send answers it."""
        try:
            return self._pipeline.prepare(draft, properties)
        except Refusal as refusal:
            raise self._refusal(refusal.reply.code, refusal.reply.remark) from None

    def _check_attributes(self, topic: Topic, draft: Draft, properties: Mapping[str, str]) -> None:
        """Refuse what a topic's own settings forbid; what a feature puts back later is not asked again."""
        fault = message_fault(topic.attributes, properties, len(draft.body), self.checks_message_type)
        if fault:
            raise self._refusal(
                Code.MESSAGE_ILLEGAL, f"topic[{topic.topic_name}] refuses the message: {fault}"
            )

    def _sys_flag(self, asked: int, born: Host) -> int:
        """Return the flag as stored: what the producer said, with the address bits set by us."""
        born_v6 = _BORN_V6 if len(born.ip) == 16 else 0
        return asked & ~_HOST_BITS | born_v6 | self._store_v6

    def _refusal(self, code: int, remark: str) -> Refusal:
        return Refusal(code, remark, self._refused)


@lru_cache(maxsize=4096)
def _born_host(peer: tuple[str, int]) -> Host:
    """Return a peer's address as records carry it; v4 addresses seen through v6 become v4 again."""
    address = ip_address(peer[0].partition("%")[0] or "0.0.0.0")
    mapped = getattr(address, "ipv4_mapped", None)
    return Host((mapped or address).packed, peer[1])
