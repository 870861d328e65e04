"""What a live consumer tells of itself (307), and what became of a message it was handed directly (309).

Place in the flow: a consumer writes them, the broker passes them on unread, tools read them. The tables of
queues have raw objects as keys, which is not JSON; Go and Python clients leave out members that Java writes,
so every member has a default:

    {"jstack":…,"mqPopTable":{},"mqTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"cachedMsgCount":0,…}},
     "properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY",…},"statusTable":{"T":{"pullRT":0.5,…}},
     "subscriptionSet":[{"subString":"*","topic":"T",…}],"userConsumerInfo":{}}

Reference: ConsumerRunningInfo, ProcessQueueInfo and ConsumeMessageDirectlyResult of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from roquet.model.group import Subscription
from roquet.model.route import QueueName
from roquet.wire.bodies import admin, answers
from roquet.wire.bodies.registration import BodyError

_encode = msgspec.json.Encoder().encode


class QueueState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One queue that a consumer holds: what is cached, locked, done. Times in milliseconds, 0 for never."""

    cached_msg_count: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_size_in_mib: int = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    commit_offset: int = 0
    dropped: bool = msgspec.field(name="droped", default=False)
    last_consume_timestamp: int = 0
    last_lock_timestamp: int = 0
    last_pull_timestamp: int = 0
    locked: bool = False
    transaction_msg_count: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_min_offset: int = 0
    try_unlock_times: int = 0


class TopicPace(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a consumer is in one topic: milliseconds and messages a second; failures of the last hour."""

    consume_failed_msgs: int = msgspec.field(name="consumeFailedMsgs", default=0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)


class RunningInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The whole state of one consumer."""

    jstack: str = ""
    queues: Mapping[QueueName, QueueState] = {}
    properties: Mapping[str, str] = {}
    paces: Mapping[str, TopicPace] = {}
    subscriptions: tuple[Subscription, ...] = ()


class ConsumedDirectly(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What became of a message that was handed over by order.

    `consume_result` is CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION or CR_RETURN_NULL.
    """

    auto_commit: bool = True
    consume_result: str = "CR_SUCCESS"
    order: bool = False
    remark: str | None = None
    spent_time_mills: int = 0


def encode_running(info: RunningInfo) -> bytes:
    """Return the answer to 307."""
    return _encode(
        {
            **({"jstack": info.jstack} if info.jstack else {}),
            "mqPopTable": {},
            "mqTable": admin.by_queue(info.queues),
            "properties": info.properties,
            "statusTable": info.paces,
            "subscriptionSet": info.subscriptions,
            "userConsumerInfo": {},
        }
    )


def decode_running(body: bytes) -> RunningInfo:
    """Return what 307 was answered with; raises BodyError."""
    read = answers.members(body)
    try:
        return RunningInfo(
            jstack=str(read.get("jstack") or ""),
            queues=answers.by_queue(read.get("mqTable"), QueueState, _named),
            properties={
                str(name): str(value) for name, value in answers.table(read.get("properties")).items()
            },
            paces={
                str(topic): msgspec.convert(pace, TopicPace, strict=False)
                for topic, pace in answers.table(read.get("statusTable")).items()
            },
            subscriptions=tuple(
                msgspec.convert(each, Subscription, strict=False)
                for each in answers.rows(read.get("subscriptionSet"))
            ),
        )
    except (ValueError, TypeError) as error:
        raise BodyError(f"running info: {error}") from None


def _named(state: dict[str, Any]) -> dict[str, Any]:
    """Return the members under Java's names: Go spells one of them right."""
    if "dropped" in state:
        return {**state, "droped": state["dropped"]}
    return state


def encode_consumed(result: ConsumedDirectly) -> bytes:
    """Return the answer to 309; an absent remark is left out."""
    members = msgspec.to_builtins(result)
    return _encode({name: value for name, value in members.items() if value is not None})


def decode_consumed(body: bytes) -> ConsumedDirectly:
    """Return what 309 was answered with; raises BodyError."""
    return answers.decode(body, ConsumedDirectly)
