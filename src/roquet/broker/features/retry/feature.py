"""Retries at work: the send-back request, and sends of clients to retry topics.

A send-back finds the record, decides between another try and the dead letters, and stores it: through the
delay levels, but not through the other features, which have seen the message when it was sent (the property
of a committed transaction must not make a half of it). Reference: remoting protocol, code 36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from roquet.broker.core.groups import Groups
from roquet.broker.core.pipeline import BeforeAppend, Pipeline, Rewrite, rewrite
from roquet.broker.core.topics import Topics
from roquet.broker.features.retry import policy
from roquet.broker.features.retry.drafts import HIDDEN_TOPICS, Target, group_of, hand_back
from roquet.model.group import Group
from roquet.model.message import Draft
from roquet.model.names import DLQ_PREFIX, RETRY_PREFIX
from roquet.model.topic import Perm
from roquet.ports import Rng
from roquet.store.format import record
from roquet.store.format.record import Record
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Outcome, Refusal
from roquet.wire.requests.retry import SendBack
from roquet.wire.row import Header

VERSION_3_4_9: Final = 121
"""Clients from here on say themselves how often a message may be tried."""

DLQ_QUEUES: Final = 1


class Records(Protocol):
    """What a send-back needs of the store."""

    async def record_at(self, log_offset: int) -> bytes | None: ...


class Counters(Protocol):
    """What it needs of the statistics."""

    def put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None: ...
    def add(self, name: str, key: str, value: int, count: int = 1) -> None: ...


class Retry:
    """Retries and dead letters of one broker. Needs `delay` (`park`) and `order` (`is_orderly`)."""

    needs: Final = ("delay", "order")

    def __init__(
        self,
        store: Records,
        pipeline: Pipeline,
        topics: Topics,
        groups: Groups,
        stats: Counters,
        rng: Rng,
        store_v6: bool,
        permission: Callable[[], int],
        levels_ms: Callable[[], Sequence[int]],
        park: BeforeAppend,
        is_orderly: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._topics = topics
        self._groups = groups
        self._stats = stats
        self._rng = rng
        self._store_v6 = store_v6
        self._permission = permission
        self._levels_ms = levels_ms
        self._park = park
        self._is_orderly = is_orderly

    def routes(self) -> dict[type[Header], Handler]:
        return {SendBack: self.send_back}

    # sends of clients to retry topics

    marks = frozenset[str]()  # none: what goes to a retry topic is never ordinary

    def before_append(self, draft: Draft, properties: Mapping[str, str]) -> Draft | Rewrite:
        """Put a client's own retry with the dead letters when it was tried too often, or by an orderly
        group: that one has tried in place, and its locks show that it is still at it."""
        if not draft.topic.startswith(RETRY_PREFIX):
            return draft
        group_name = group_of(draft.topic)
        group = self._groups.get(group_name)
        if group is None:
            return draft
        said = properties.get("MAX_RECONSUME_TIMES", "")
        times_max = int(said) if said.isdecimal() else group.retry_max_times
        if draft.reconsume_times <= times_max and not self._is_orderly(group_name):
            return draft
        topic = self._dead_letters(group_name)
        self._stats.add("SNDBCK2DLQ_TIMES", f"{properties.get('RETRY_TOPIC', draft.topic)}@{group_name}", 1)
        return rewrite(draft, properties, {"DELAY": "-1"}, topic=topic, queue_id=0, is_final=True)

    # messages that consumers hand back

    async def send_back(self, request: SendBack, call: Call) -> Outcome:
        """Store a message again, for later or with the dead letters; raises Refusal."""
        group = self._groups.find(request.group)
        if group is None:
            remark = f"subscription group not exist, {request.group[:255]}"
            raise Refusal(Code.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not self._permission() & Perm.WRITE:
            broker = self._topics.identity.broker_name
            raise Refusal(Code.NO_PERMISSION, f"the broker[{broker}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return OK  # the group wants no retries: the message is dropped
        retry_topic = self._topics.create(
            f"{RETRY_PREFIX}{group.group_name}", group.retry_queue_nums, bool(request.unit_mode)
        )
        if not retry_topic.is_writable:
            raise Refusal(
                Code.NO_PERMISSION, f"the topic[{retry_topic.topic_name}] sending message is forbidden"
            )
        failed = await self._find(request.offset)
        times_max = group.retry_max_times
        if call.frame.version >= VERSION_3_4_9 and request.max_reconsume_times is not None:
            times_max = request.max_reconsume_times
        is_dead = failed.reconsume_times >= times_max or request.delay_level < 0
        if is_dead:
            target = Target(self._dead_letters(group.group_name), 0, 0)
        else:
            queues = max(min(group.retry_queue_nums, retry_topic.write_queue_nums), 1)
            level = request.delay_level or self._level(group, failed.reconsume_times)
            target = Target(retry_topic.topic_name, self._rng.randrange(queues), level)
        await self._put(failed, target, group.group_name, is_dead)
        return OK

    async def _find(self, log_offset: int) -> Record:
        """Return the record that a consumer hands back; raises Refusal when it cannot have received it."""
        data = await self._store.record_at(log_offset)
        found = record.decode(data) if data is not None else None
        if found is None or found.topic in HIDDEN_TOPICS:
            remark = (
                f"look message by offset failed, {log_offset}: no message that a consumer can have is there"
            )
            raise Refusal(Code.SYSTEM_ERROR, remark)
        return found

    async def _put(self, failed: Record, target: Target, group: str, is_dead: bool) -> None:
        draft, properties = hand_back(failed, target, self._store_v6)
        parked = self._park(draft, properties)
        draft = parked.draft if isinstance(parked, Rewrite) else parked
        result = await self._pipeline.store(draft)
        if not result.log_offsets:
            raise Refusal(Code.SYSTEM_ERROR, result.reason or result.status.value)
        self._stats.put(draft.topic, draft.queue_id, 1, result.size_bytes)
        key = f"{properties['RETRY_TOPIC']}@{group}"
        self._stats.add("SNDBCK_PUT_NUMS", key, 1)
        if is_dead:
            self._stats.add("SNDBCK2DLQ_TIMES", key, 1)

    def _level(self, group: Group, times: int) -> int:
        return policy.level_of(group.group_retry_policy, times, self._levels_ms())

    def _dead_letters(self, group: str) -> str:
        """Return the topic of a group's dead letters, which its first one creates; people may read it."""
        return self._topics.create(f"{DLQ_PREFIX}{group}", DLQ_QUEUES, unit=False).topic_name
