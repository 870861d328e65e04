"""A stored message made into one to send again: what goes with it and what is left behind; pure.

Body, keys, tags, users' properties and the unique key stay. Orders to the broker that were carried out (a
delay, a transaction, a wait) go: given again they would be carried out again. The count of tries starts
anew, else the first failure would bury a dead letter again; what happened before is kept in properties:

    ORIGIN_MESSAGE_ID · RETRY_TOPIC · RECONSUME_TIME · DLQ_ORIGIN_TOPIC · DLQ_ORIGIN_MESSAGE_ID
"""

from __future__ import annotations

from typing import Final, NamedTuple

from roquet.client.errors import Misuse
from roquet.client.message import Message
from roquet.model import names
from roquet.model.message import SysFlag, format_properties
from roquet.wire.requests.send import SendV2

GROUP: Final = "roquet-admin"

SPENT: Final = frozenset(
    {
        *("DELAY", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "WAIT", "CLUSTER", "MSG_REGION", "TRACE_ON"),
        *("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES"),
        *("MAX_RECONSUME_TIMES", "POP_CK", "1ST_POP_TIME", "CONSUME_START_TIME", "__CRC32#"),
    }
)

_KEPT_FLAGS: Final = int(SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK | SysFlag.MULTI_TAGS)


class Again(NamedTuple):
    """What to send."""

    topic: str
    properties: str
    body: bytes
    sys_flag: int
    flag: int
    born_ms: int

    def request(self, queue_id: int) -> SendV2:
        """Return the request that stores it in a queue."""
        return SendV2(
            GROUP,
            self.topic,
            names.AUTO_CREATE_TOPIC,
            4,
            queue_id,
            self.sys_flag,
            self.born_ms,
            self.flag,
            self.properties,
            0,
            False,
        )


def first_topic(message: Message) -> str:
    """Return the topic that a dead letter was first sent to; raises Misuse when it does not say."""
    stored_in = message.record.topic
    if not names.is_dead_letter(stored_in):
        raise Misuse(f"{stored_in} holds no dead letters", hint=f"their topics begin with {names.DLQ_PREFIX}")
    topic = message.properties.get("RETRY_TOPIC") or message.properties.get("DLQ_ORIGIN_TOPIC", "")
    if names.topic_fault(topic) or names.is_retry(topic) or names.is_dead_letter(topic):
        raise Misuse(
            f"the dead letter {message.message_id} does not say where it was sent first",
            hint="resend it with a topic of your choice: admin.messages.resend(message, topic=…)",
        )
    return topic


def again(message: Message, topic: str) -> Again:
    """Return a message as it is sent again to a topic."""
    record = message.record
    kept = {name: value for name, value in message.properties.items() if name not in SPENT}
    origin = kept.setdefault("ORIGIN_MESSAGE_ID", message.offset_id)
    if record.reconsume_times:
        kept["RECONSUME_TIME"] = str(record.reconsume_times)
    if names.is_dead_letter(record.topic):
        kept |= {"DLQ_ORIGIN_TOPIC": first_or(message, topic), "DLQ_ORIGIN_MESSAGE_ID": origin}
    return Again(
        topic,
        format_properties(kept),
        bytes(record.body),
        record.sys_flag & _KEPT_FLAGS,
        record.flag,
        record.born_ms,
    )


def first_or(message: Message, topic: str) -> str:
    """Return where a dead letter came from, or the given topic when it does not say."""
    try:
        return first_topic(message)
    except Misuse:
        return topic
