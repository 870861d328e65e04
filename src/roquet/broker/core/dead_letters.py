"""Dead letters, and how one is sent again to the topic it first came from; pure.

A dead letter lies in %DLQ%<group> and is read and counted like any message. `revive` makes the draft of
its new life: body, keys, tags, user properties, birth and unique key as they were, a fresh count of tries
(else the first failure would bury it again), and what happened before in properties: ORIGIN_MESSAGE_ID,
RETRY_TOPIC, RECONSUME_TIME, DLQ_ORIGIN_TOPIC and DLQ_ORIGIN_MESSAGE_ID (a gRPC proxy shows the last two).
"""

from __future__ import annotations

from typing import Final

from roquet.broker.core.redraft import draft_of
from roquet.model import names
from roquet.model.ids import offset_id
from roquet.model.message import Draft, SysFlag, format_properties
from roquet.store.format.record import Record

_SPENT: Final = frozenset(
    {
        "DELAY",
        "REAL_TOPIC",
        "REAL_QID",
        "TRAN_MSG",
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS",
        "TIMER_OUT_MS",
        "MAX_RECONSUME_TIMES",
        "POP_CK",
        "1ST_POP_TIME",
        "WAIT",
    }
)
"""Orders to the broker that were carried out: given again, they would delay or half-send the message."""

_KEPT_FLAGS: Final = int(
    SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK | SysFlag.MULTI_TAGS | SysFlag.BORN_HOST_V6
)


class NotDead(ValueError):
    """The record is no dead letter, or does not say where it came from."""


def first_topic(record: Record) -> str:
    """Return the topic that a dead letter was first sent to; raises NotDead."""
    if not names.is_dead_letter(record.topic):
        raise NotDead(f"{record.topic} holds no dead letters: their topics begin with {names.DLQ_PREFIX}")
    _, properties = draft_of(record)
    topic = properties.get("RETRY_TOPIC", "")
    if names.topic_fault(topic) or names.is_retry(topic) or names.is_dead_letter(topic):
        raise NotDead(f"RETRY_TOPIC {topic[:80]!r} of the dead letter names no topic to send it to")
    return topic


def revive(record: Record, queue_id: int) -> Draft:
    """Return the draft that sends a dead letter to a queue of its first topic; raises NotDead."""
    topic = first_topic(record)
    draft, properties = draft_of(record)
    kept = {name: value for name, value in properties.items() if name not in _SPENT}
    origin = kept.setdefault("ORIGIN_MESSAGE_ID", offset_id(record.store_host, record.log_offset))
    kept |= {
        "RECONSUME_TIME": str(record.reconsume_times),
        "DLQ_ORIGIN_TOPIC": topic,
        "DLQ_ORIGIN_MESSAGE_ID": origin,
    }
    return draft._replace(
        topic=topic,
        queue_id=queue_id,
        properties=format_properties(kept).encode(),
        sys_flag=draft.sys_flag & _KEPT_FLAGS,
        reconsume_times=0,
        prepared_log_offset=0,
    )
