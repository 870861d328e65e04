"""What becomes of a message that a consumer hands back: a draft of its next try or dead letter; pure.

Both carry where the message came from: RETRY_TOPIC is its first topic, ORIGIN_MESSAGE_ID its first record,
`reconsume_times` counts the tries. Reference: AbstractSendMessageProcessor of Apache 5.5.0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from roquet.broker.core.redraft import draft_of
from roquet.model import names
from roquet.model.ids import offset_id
from roquet.model.message import Draft, SysFlag, format_properties
from roquet.store.format.record import Record

_STORE_V6: Final = int(SysFlag.STORE_HOST_V6)

HIDDEN_TOPICS: Final = frozenset(
    {
        names.SCHEDULE_TOPIC,
        names.TIMER_TOPIC,
        names.HALF_TOPIC,
        names.OP_HALF_TOPIC,
        names.ROCKSDB_HALF_TOPIC,
        names.ROCKSDB_OP_HALF_TOPIC,
    }
)
"""Where messages wait that no consumer has seen: a hand-back from there would show them too early."""


class Target(NamedTuple):
    """Where a message that was handed back goes."""

    topic: str
    queue_id: int
    delay_level: int


class HandedBack(NamedTuple):
    """A draft and its properties."""

    draft: Draft
    properties: dict[str, str]


def hand_back(record: Record, target: Target, store_v6: bool) -> HandedBack:
    """Return the draft that tries a stored message again, or puts it aside."""
    draft, properties = draft_of(record)
    properties.setdefault("RETRY_TOPIC", record.topic)
    properties.setdefault("ORIGIN_MESSAGE_ID", offset_id(record.store_host, record.log_offset))
    properties["WAIT"] = "false"
    properties["DELAY"] = str(target.delay_level)
    changed = draft._replace(
        topic=target.topic,
        queue_id=target.queue_id,
        properties=format_properties(properties).encode(),
        sys_flag=draft.sys_flag & ~_STORE_V6 | (_STORE_V6 if store_v6 else 0),
        reconsume_times=record.reconsume_times + 1,
        prepared_log_offset=0,
    )
    return HandedBack(changed, properties)


def group_of(retry_topic: str) -> str:
    """Return the group of a retry topic; those of pop consumers also name the topic, behind a plus."""
    return retry_topic.removeprefix(names.RETRY_PREFIX).partition("+")[0]
