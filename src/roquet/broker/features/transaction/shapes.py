"""The forms that a transactional message takes in the log, one function each; pure.

    sent ─▶ half ─┬─ asked about ─▶ half again, with one more TRANSACTION_CHECK_TIMES
                  ├─ commit ───────▶ committed, in the real topic; its record names the half's place
                  ├─ given up ─────▶ TRANS_CHECK_MAX_TIME_TOPIC ─ resumed ─▶ half
                  └─ any end ──────▶ op: "17,23," the queue offsets of halves that are done

Reference: what Apache 5.5.0 leaves in a store (tests/golden/store/clean), TransactionalMessageBridge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from roquet.broker.core.pipeline import Rewrite, rewrite
from roquet.broker.core.redraft import draft_of
from roquet.model.message import (
    Draft,
    Host,
    SysFlag,
    format_properties,
    java_hash,
    parse_properties,
)
from roquet.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TOPIC, topic_fault
from roquet.model.properties import edit_properties
from roquet.store.format.record import Record, encode

PREPARED: Final = "TRAN_MSG"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE: Final = "REAL_QID"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
FIRST_OFFSET: Final = "ROQUET_HALF_OFFSET"
"""Of a half that we stored again: the queue offset that its producer knows."""
FIRST_OFFSET_OF_APACHE: Final = "TRAN_PREPARED_QUEUE_OFFSET"
"""The same of a half that Apache stored again while it was too young to be asked about. An op record for
that offset ends the half; for one of ours it says no more than that the old record is done."""
IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
GROUP: Final = "PGROUP"
UNIQUE_KEY: Final = "UNIQ_KEY"
TRANSACTION_ID: Final = "__transactionId__"

BITS: Final = int(SysFlag.TRANSACTION_MASK)
COMMIT: Final = int(SysFlag.TRANSACTION_COMMIT)
ROLLBACK: Final = BITS

_OF_HALF: Final = (REAL_TOPIC, REAL_QUEUE, FIRST_OFFSET, FIRST_OFFSET_OF_APACHE)
_DONE_TAG: Final = "d"
_OP_PROPERTIES: Final = format_properties({"WAIT": "true", "TAGS": _DONE_TAG}).encode()
_OP_TAG_CODE: Final = java_hash(_DONE_TAG)


def is_half(draft: Draft, properties: Mapping[str, str]) -> bool:
    """Say whether a draft with TRAN_MSG opens a transaction.

    A committed message keeps that property, so what the broker itself puts back (a retry, a dead letter) is
    told by the commit bits, and a retry that a client sends by its tries and its delay.
    """
    if properties[PREPARED].lower() != "true" or draft.sys_flag & BITS == COMMIT:
        return False
    return not (draft.reconsume_times > 0 and _number(properties.get("DELAY", ""), 0) > 0)


def half(draft: Draft, properties: Mapping[str, str]) -> Rewrite:
    """Return the draft as a half: no other feature sees it before it is committed."""
    put = {REAL_TOPIC: draft.topic, REAL_QUEUE: str(draft.queue_id)}
    if properties.get(UNIQUE_KEY):
        put[TRANSACTION_ID] = properties[UNIQUE_KEY]
    return rewrite(
        draft,
        properties,
        put,
        # How often it was asked about is our affair; a producer that says so itself could lose its message.
        drop=(CHECK_TIMES, FIRST_OFFSET, FIRST_OFFSET_OF_APACHE),
        topic=HALF_TOPIC,
        queue_id=0,
        sys_flag=draft.sys_flag & ~BITS,
        is_final=True,
    )


def commit(draft: Draft, properties: dict[str, str], half_log_offset: int) -> Draft:
    """Return a half's message for its real topic. Takes the properties over: they lose what made it a half,
    so that the features see what it was sent as."""
    topic, queue_id = real_place(properties)
    for name in _OF_HALF:
        properties.pop(name, None)
    # TRAN_MSG stays in the text: consumers of Apache's get it, too.
    properties.pop(PREPARED, None)
    return Draft(
        topic,
        queue_id,
        draft.body,
        edit_properties(draft.properties, {}, _OF_HALF),
        draft.flag,
        draft.sys_flag & ~BITS | COMMIT,
        draft.born_ms,
        draft.born_host,
        draft.reconsume_times,
        half_log_offset,
        draft.tag_code,
        draft.keys,
    )


def parked(draft: Draft) -> Draft:
    """Return a committed message that a feature has put aside: no longer a wish, or its return would make
    a half of it again."""
    return draft._replace(properties=edit_properties(draft.properties, {}, (PREPARED,)))


def again(record: Record, first_queue_offset: int, check_times: int) -> Draft:
    """Return a half to be stored once more, so that the offset of the half queue can pass the old one."""
    draft, properties = draft_of(record)
    properties.pop(FIRST_OFFSET_OF_APACHE, None)
    properties[FIRST_OFFSET] = str(first_queue_offset)
    if check_times:
        properties[CHECK_TIMES] = str(check_times)
    return draft._replace(properties=format_properties(properties).encode())


def given_up(record: Record) -> Draft:
    """Return a half for the topic of those that nobody could decide."""
    draft, _ = draft_of(record)
    return draft._replace(topic=TRANS_CHECK_MAX_TOPIC, queue_id=0)


def resumed(record: Record) -> Draft:
    """Return what was given up as a new half that has not been asked about."""
    draft, properties = draft_of(record)
    for name in (FIRST_OFFSET, FIRST_OFFSET_OF_APACHE):
        properties.pop(name, None)
    properties[CHECK_TIMES] = "0"
    return draft._replace(
        topic=HALF_TOPIC, queue_id=0, properties=format_properties(properties).encode(), prepared_log_offset=0
    )


def op(half_queue_offsets: Iterable[int], now_ms: int, host: Host) -> Draft:
    """Return the record that says which halves are done."""
    body = "".join(f"{offset}," for offset in half_queue_offsets).encode()
    return Draft(OP_HALF_TOPIC, 0, body, _OP_PROPERTIES, 0, 0, now_ms, host, tag_code=_OP_TAG_CODE)


def op_offsets(record: Record) -> list[int]:
    """Return the halves that an op record ends: a list with commas (5.x) or one number (4.9)."""
    if parse_properties(bytes(record.properties).decode(errors="replace")).get("TAGS") != _DONE_TAG:
        return []
    words = bytes(record.body).decode(errors="replace").split(",")
    return [int(word) for word in words if word.isascii() and word.isdecimal() and len(word) <= 19]


def question(stored: Draft, queue_offset: int, log_offset: int, store_ms: int, host: Host) -> bytes:
    """Return the half as a producer is asked about it: whole, under its real topic."""
    topic, queue_id = real_place(parse_properties(stored.properties.decode(errors="replace")))
    named = stored._replace(topic=topic, queue_id=queue_id)
    return encode(named, queue_offset, log_offset, store_ms, host)


def real_place(properties: Mapping[str, str]) -> tuple[str, int]:
    """Return topic and queue that a half is meant for; the topic is empty when it does not say."""
    return properties.get(REAL_TOPIC, ""), max(_number(properties.get(REAL_QUEUE, ""), 0), 0)


def is_torn(properties: Mapping[str, str]) -> bool:
    """Say whether a half lacks what a commit needs: a power cut may have torn the end of its record off."""
    whole = (REAL_TOPIC, REAL_QUEUE, GROUP)
    return any(name not in properties for name in whole) or bool(topic_fault(properties[REAL_TOPIC]))


def immunity_ms(properties: Mapping[str, str], timeout_ms: int) -> int:
    """Return how long after its birth a half is left alone."""
    return max(_number(properties.get(IMMUNITY, ""), 0) * 1000, timeout_ms)


def check_times(properties: Mapping[str, str]) -> int:
    return max(_number(properties.get(CHECK_TIMES, ""), 0), 0)


def first_offset(properties: Mapping[str, str], queue_offset: int) -> int:
    """Return the queue offset under which a half was first stored; its own when this is the first."""
    text = properties.get(FIRST_OFFSET) or properties.get(FIRST_OFFSET_OF_APACHE, "")
    first = _number(text, queue_offset)
    return first if 0 <= first < queue_offset else queue_offset


def _number(text: str, otherwise: int) -> int:
    if not text:
        return otherwise
    digits = text[1:] if text[0] == "-" else text
    if len(digits) <= 18 and digits.isascii() and digits.isdecimal():
        return int(text)
    return otherwise
