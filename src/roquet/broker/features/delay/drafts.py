"""The two rewrites of a delayed message: into its parking queue, and back to where it was sent; pure.

    topic T, queue 3, DELAY 2  ─park▶  SCHEDULE_TOPIC_XXXX, queue 1, REAL_TOPIC T, REAL_QID 3
                               ◀back─  the same properties; `prepared_log_offset` names the parked record

Apache leaves DELAY, REAL_TOPIC and REAL_QID in what it delivers, and so do we. It leaves 0 where we name
the parked record: nobody reads that field of a message without a transaction, and after a crash it tells
what was delivered already. Reference: HookUtils and ScheduleMessageService of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from roquet.broker.core.pipeline import Rewrite, rewrite
from roquet.broker.core.redraft import Stored
from roquet.model import names
from roquet.model.message import Draft, SysFlag

_PREPARED: Final = int(SysFlag.TRANSACTION_PREPARED)
_STORE_V6: Final = int(SysFlag.STORE_HOST_V6)
_TIMER_PROPERTIES: Final = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")


class Lost(ValueError):
    """A parked record that cannot say where it belongs."""


def level_of(text: str, level_max: int) -> int:
    """Return the level that a DELAY property asks for, 0 for none; raises ValueError."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"{text[:40]!r} is no number")
    return min(max(int(text), 0), level_max)


def park(draft: Draft, properties: Mapping[str, str], level: int) -> Rewrite:
    """Return the draft as it waits; a level wins over a time that was given as well."""
    put = {"REAL_TOPIC": draft.topic, "REAL_QID": str(draft.queue_id)}
    if properties.get("DELAY") != (text := str(level)):
        put["DELAY"] = text
    return rewrite(
        draft, properties, put, drop=_TIMER_PROPERTIES, topic=names.SCHEDULE_TOPIC, queue_id=level - 1
    )


def is_parked_elsewhere(draft: Draft) -> bool:
    """True for halves and rolled-back transactions, which wait for other things than time."""
    return bool(draft.sys_flag & _PREPARED)


def back(parked: Stored, store_v6: bool) -> Draft:
    """Return a parked record as the draft of its delivery; raises Lost."""
    draft, properties = parked.draft, parked.properties
    topic, queue_text = properties.get("REAL_TOPIC", ""), properties.get("REAL_QID", "")
    # A power cut can leave a record with half its properties: the checksum covers the body alone. Retry
    # topics of pop consumers have a plus in their names.
    if names.topic_fault(topic.replace("+", "_")) or not queue_text.isdecimal():
        raise Lost(f"REAL_TOPIC {topic[:80]!r} and REAL_QID {queue_text[:20]!r} name no queue")
    if topic in (names.HALF_TOPIC, names.SCHEDULE_TOPIC):
        raise Lost(f"{topic} is no topic that a message is delayed for")
    return Draft(
        topic,
        int(queue_text),
        draft.body,
        draft.properties,
        draft.flag,
        draft.sys_flag & ~_STORE_V6 | (_STORE_V6 if store_v6 else 0),
        draft.born_ms,
        draft.born_host,
        draft.reconsume_times,
        parked.log_offset,
        draft.tag_code,
        draft.keys,
    )


def is_delivery_of(
    parked: Stored, topic: str, queue_id: int, prepared_log_offset: int, properties: Mapping[str, str]
) -> bool:
    """True when a record with these fields is what `back` made of the parked one."""
    if parked.draft.topic != names.SCHEDULE_TOPIC or parked.log_offset != prepared_log_offset:
        return False
    waiting = parked.properties
    return (
        waiting.get("REAL_TOPIC") == topic
        and waiting.get("REAL_QID") == str(queue_id)
        and waiting.get("UNIQ_KEY") == properties.get("UNIQ_KEY")
        and waiting.get("DELAY") == properties.get("DELAY")
    )
