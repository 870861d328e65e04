"""Pulls: check, read, and wait for a message when there is none yet.

    11, 361 ─▶ may this group read here? ─▶ which ones? ─▶ store.read ─┬─ found ─▶ records as they lie
                                                                       ├─ at the end ─▶ parking ─▶ once more
                                                                       └─ moved ─▶ where to go on

The checks, their order and their codes are Apache's (PullMessageProcessor 5.5.0). Records go out exactly
as they are stored. Data that is not in the page cache is read in a task, never on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, Protocol

from roquet.broker.core.expressions import TAG, Expressions
from roquet.broker.core.groups import Groups
from roquet.broker.core.lags import Lags
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.parking import Parking
from roquet.broker.core.sessions import ConsumerGroup, Sessions
from roquet.broker.core.topics import Topics
from roquet.model import names
from roquet.model.group import Group
from roquet.model.match import Match
from roquet.model.message import java_hash
from roquet.model.status import GetStatus, Got
from roquet.model.topic import Perm, Topic
from roquet.store.reading import BULK_COUNT_MAX
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.codes import Code
from roquet.wire.reply import PARKED, Deferred, Outcome, Refusal, Reply
from roquet.wire.requests.pull import LitePull, Pull, Pulled, PullFlag, PullForbidden
from roquet.wire.row import Header

BYTES_MAX: Final = 128 * 1024 * 1024
"""No answer is larger, whatever a client asks."""

SUSPEND_MS_MAX: Final = 10 * 60 * 1000

_CODES: Final = {
    GetStatus.FOUND: Code.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: Code.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: Code.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: Code.PULL_NOT_FOUND,
    GetStatus.NO_MESSAGE_IN_QUEUE: Code.PULL_NOT_FOUND,
    GetStatus.OFFSET_FOUND_NULL: Code.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: Code.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: Code.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: Code.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: Code.PULL_OFFSET_MOVED,
}

_EMPTY_QUEUE: Final = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)

_LOOKED: Final = (
    GetStatus.FOUND,
    GetStatus.NO_MATCHED_MESSAGE,
    GetStatus.MESSAGE_WAS_REMOVING,
    GetStatus.OFFSET_OVERFLOW_ONE,
)
"""What tells how far behind a group is; at the end of a queue it is not behind at all."""

# Plain numbers: the operators of the enumerations are slow.
_READ: Final = int(Perm.READ)
_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)
_SUSPEND: Final = int(PullFlag.SUSPEND)
_SUBSCRIPTION: Final = int(PullFlag.SUBSCRIPTION)

AnyPull = Pull | LitePull
Later = Coroutine[Any, Any, Outcome]


class PullRules(NamedTuple):
    """The settings that decide about pulls."""

    broker_perm: int = int(Perm.READ | Perm.WRITE)
    lite_pull: bool = True
    long_polling: bool = True
    short_polling_ms: int = 1000
    slave_read: bool = False
    notes_lags: bool = False


class Reader(Protocol):
    """What pulls need of the store."""

    def read_hot(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        match: Match,
        bulk: bool,
    ) -> Got | None: ...

    async def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        match: Match,
        bulk: bool,
    ) -> Got: ...

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...


class GetCounter(Protocol):
    """What pulls need of the statistics."""

    lags: Lags

    def get(self, topic: str, queue_id: int, group: str, count: int, size_bytes: int) -> None: ...

    def miss(self) -> None: ...


class PullHandlers:
    """Answers 11 and 361."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        sessions: Sessions,
        store: Reader,
        parking: Parking,
        stats: GetCounter,
        rules: PullRules,
        run_later: Callable[[Call, Later], None],
        expressions: Mapping[str, Expressions],
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._sessions = sessions
        self._store = store
        self._parking = parking
        self._stats = stats
        self._run_later = run_later
        self._expressions = expressions
        self.rules = rules

    def routes(self) -> dict[type[Header], Handler]:
        return {Pull: self.pull, LitePull: self.pull_lite}

    def pull_lite(self, request: LitePull, call: Call) -> Outcome | Later:
        if not self.rules.lite_pull:
            raise _forbidden(1, "the broker has litePullMessageEnable=false: lite pulls are forbidden")
        return self.pull(request, call)

    def pull(self, request: AnyPull, call: Call) -> Outcome | Later:
        """Answer a pull, or keep it until there is something to answer."""
        group, topic = self._admit(request)
        match = self._match(request, group)
        name, queue_id = request.topic, request.queue_id
        if request.sys_flag & _COMMIT:
            self._offsets.commit(request.consumer_group, name, queue_id, request.commit_offset)
        reset = self._offsets.take_reset(request.consumer_group, name, queue_id)
        if reset is not None:
            got = Got(GetStatus.OFFSET_RESET, reset, *self._bounds(request))
            return self._reply(request, topic, group, got)
        self._offsets.pull_seen(request.consumer_group, name, queue_id, request.queue_offset)
        return self._run(request, call, topic, group, match, may_park=True)

    def _run(
        self,
        request: AnyPull,
        call: Call,
        topic: Topic,
        group: Group,
        match: Match,
        may_park: bool,
    ) -> Outcome | Later:
        max_bytes = min(request.max_msg_bytes or BYTES_MAX, BYTES_MAX)
        bulk = bool(request.bulk)
        got = self._store.read_hot(
            request.topic, request.queue_id, request.queue_offset, _count(request), max_bytes, match, bulk
        )
        if got is None:
            return self._run_cold(request, topic, group, match, max_bytes)
        if may_park and _code(request, got) == Code.PULL_NOT_FOUND and request.sys_flag & _SUSPEND:
            timeout_ms = self.rules.short_polling_ms
            if self.rules.long_polling:
                timeout_ms = min(max(request.suspend_timeout_millis, 0), SUSPEND_MS_MAX)

            def wake(time_is_up: bool) -> None:
                self._wake(request, call, topic, group, match)

            if self._parking.park(
                request.topic, request.queue_id, request.queue_offset, match, timeout_ms, wake
            ):
                return PARKED
        return self._reply(request, topic, group, got)

    async def _run_cold(
        self, request: AnyPull, topic: Topic, group: Group, match: Match, max_bytes: int
    ) -> Outcome:
        """Read from the disk; such an answer never parks, since there is something to read."""
        bulk = bool(request.bulk)
        got = await self._store.read(
            request.topic, request.queue_id, request.queue_offset, _count(request), max_bytes, match, bulk
        )
        return self._reply(request, topic, group, got)

    def _wake(self, request: AnyPull, call: Call, topic: Topic, group: Group, match: Match) -> None:
        """Run a parked pull once more and answer whatever comes of it."""
        if not call.link.is_open:
            return
        if call.link.is_congested:
            # The peer does not read: an empty answer keeps its buffer small, and it will ask again.
            bounds = self._bounds(request)
            nothing = Got(GetStatus.OFFSET_OVERFLOW_ONE, request.queue_offset, *bounds)
            call.answer(self._reply(request, topic, group, nothing))
            return
        outcome = self._run(request, call, topic, group, match, may_park=False)
        if isinstance(outcome, Reply):
            call.answer(outcome)
        elif not isinstance(outcome, Deferred):
            self._run_later(call, outcome)

    def _bounds(self, request: AnyPull) -> tuple[int, int]:
        topic, queue_id = request.topic, request.queue_id
        return self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)

    def _reply(self, request: AnyPull, topic: Topic, group: Group, got: Got) -> Reply:
        slow = self.rules.slave_read and got.suggest_slave
        code = _code(request, got)
        header = Pulled(
            group.which_broker_when_consume_slowly if slow else group.broker_id,
            got.next_offset,
            got.min_offset,
            got.max_offset,
            topic.topic_sys_flag,
            group.group_sys_flag,
        )
        if got.records:
            self._stats.get(
                request.topic, request.queue_id, request.consumer_group, len(got.records), got.size_bytes
            )
        else:
            self._stats.miss()
        if self.rules.notes_lags and got.status in _LOOKED:
            lags = self._stats.lags
            lags.note(request.consumer_group, request.topic, request.queue_id, got.behind_bytes)
        return Reply(code, header, got.pieces or b"", got.status.value)

    def _admit(self, request: AnyPull) -> tuple[Group, Topic]:
        """Return group and topic when the group may read there; raises Refusal."""
        if not self.rules.broker_perm & _READ:
            broker = self._topics.identity.broker_name
            raise _forbidden(1, f"the broker[{broker}] pulling message is forbidden")
        group = self._groups.find(request.consumer_group)
        if group is None:
            fault = names.group_fault(request.consumer_group)
            text = fault or f"subscription group [{request.consumer_group}] does not exist"
            raise Refusal(Code.SUBSCRIPTION_GROUP_NOT_EXIST, text, PullForbidden())
        if not group.consume_enable:
            raise _forbidden(2, f"subscription group no permission, {group.group_name}")
        topic = self._topics.table.get(request.topic)
        if topic is None:
            fault = names.topic_fault(request.topic)
            text = fault or f"topic[{request.topic}] not exist, apply first please!"
            raise Refusal(Code.TOPIC_NOT_EXIST, text, PullForbidden())
        if not topic.is_readable:
            raise _forbidden(3, f"the topic[{topic.topic_name}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise Refusal(
                Code.INVALID_PARAMETER,
                f"queueId[{request.queue_id}] is illegal, topic:[{topic.topic_name}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}]",
                PullForbidden(),
            )
        return group, topic

    def _match(self, request: AnyPull, group: Group) -> Match:
        """Return what the reader wants; raises Refusal."""
        if request.sys_flag & _SUBSCRIPTION:
            kind = request.expression_type or TAG
            self._check_rights(request, group, self._sessions.consumers.get(request.consumer_group))
            if kind == TAG:
                return tag_codes(request.subscription or "*")
            expressions = self._expressions_of(kind)
            return expressions.of_request(request.topic, group.group_name, request.subscription or "")
        live = self._sessions.consumers.get(request.consumer_group)
        if live is None:
            raise Refusal(
                Code.SUBSCRIPTION_NOT_EXIST,
                "the consumer's group info not exist: its heartbeat has not come yet",
                PullForbidden(),
            )
        self._check_rights(request, group, live)
        subscription = live.subscriptions.get(request.topic)
        if subscription is None:
            raise Refusal(
                Code.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: no member of {request.consumer_group} "
                f"subscribes {request.topic}",
                PullForbidden(),
            )
        if subscription.sub_version < request.sub_version:
            raise Refusal(
                Code.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest", PullForbidden()
            )
        kind = subscription.expression_type or TAG
        if kind != TAG:
            expressions = self._expressions_of(kind)
            return expressions.of_group(request.topic, group.group_name, request.sub_version)
        if subscription.sub_string == "*" or not subscription.code_set:
            return None
        return frozenset(subscription.code_set)

    def _expressions_of(self, kind: str) -> Expressions:
        found = self._expressions.get(kind)
        if found is None:
            remark = f"The broker does not support consumer to filter message by {kind[:80]}"
            raise Refusal(Code.SYSTEM_ERROR, remark, PullForbidden())
        return found

    def _check_rights(self, request: AnyPull, group: Group, live: ConsumerGroup | None) -> None:
        if live is not None and live.is_broadcast and not group.consume_broadcast_enable:
            raise _forbidden(4, f"the consumer group[{group.group_name}] can not consume by broadcast way")
        if not self._groups.may_read(group.group_name, request.topic):
            raise _forbidden(
                5, f"the consumer group[{group.group_name}] is forbidden for topic[{request.topic}]"
            )


def tag_codes(expression: str) -> frozenset[int] | None:
    """Return the hashes of a tag expression such as `A || B`; None when it means every message."""
    if not expression.strip() or expression.strip() == "*":
        return None
    tags = [tag.strip() for tag in expression.split("||")]
    if not any(tags):
        raise Refusal(
            Code.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {expression[:80]!r}"
        )
    return frozenset(java_hash(tag) for tag in tags if tag)


def _count(request: AnyPull) -> int:
    return min(request.max_msg_nums, BULK_COUNT_MAX) if request.bulk else request.max_msg_nums


def _code(request: AnyPull, got: Got) -> Code:
    if got.status in _EMPTY_QUEUE and request.queue_offset != 0:
        return Code.PULL_OFFSET_MOVED
    return _CODES[got.status]


def _forbidden(kind: int, remark: str) -> Refusal:
    return Refusal(Code.NO_PERMISSION, remark, PullForbidden(kind))
