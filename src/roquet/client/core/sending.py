"""From a user's message to what goes over the wire: checks, properties, compression, batches; pure.

    Outgoing ─▶ check ─▶ pairs (name → value) ─▶ hooks may add ─▶ `name 01 value 02 …` in the request's header
                         body ─▶ compressed when it is long ────▶ the request's body
    several  ─▶ runs that fit one request ─▶ total 4 · 0 4 · 0 4 · flag 4 · body 4+n · properties 2+n, each

What breaks a rule of the protocol is refused here, in words, before anything is sent. Knows nothing of
brokers and queues. Reference: Validators and MessageDecoder of Apache 5.5.0.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from roquet.client.compression import Compression, deflate, flag_of
from roquet.client.core.levels import WAITS_S, level_for
from roquet.client.core.namespace import wrap
from roquet.client.errors import BadMessage, Misuse
from roquet.client.message import Outgoing
from roquet.model.message import SysFlag
from roquet.model.names import NO_SEND_TOPICS, is_retry, topic_fault
from roquet.wire.bodies.batch import join_item
from roquet.wire.codes import Code

Body = bytes | bytearray | memoryview | str

PROPERTIES_BYTES_MAX: Final = 32_767
RECORD_BYTES: Final = 91
"""What a stored record takes beside topic, body and properties: brokers of 4.x count it in a batch."""
BATCH_MESSAGES_MAX: Final = 1_000
"""Messages of one request: the answer names each of them in a header of 64 KiB."""
BATCH_TOPIC_CHARS_MAX: Final = 127

OURS: Final = {
    "KEYS": "give keys=",
    "TAGS": "give tag=",
    "DELAY": "give delay=",
    "TIMER_DELAY_SEC": "give delay=",
    "TIMER_DELAY_MS": "give delay=",
    "TIMER_DELIVER_MS": "give deliver_at=",
    "__SHARDINGKEY": "give ordering_key=",
    "TRAN_MSG": "use Producer.transaction",
    "PGROUP": "use Producer.transaction",
    "CORRELATION_ID": "use Producer.request",
    "REPLY_TO_CLIENT": "use Producer.request",
    "TTL": "use Producer.request",
    "UNIQ_KEY": "the producer makes it",
} | dict.fromkeys(
    ("RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES")
    + ("MIN_OFFSET", "MAX_OFFSET", "MSG_REGION", "TRACE_ON", "CLUSTER", "INSTANCE_ID", "POP_CK", "MSG_TYPE")
    + ("CONSUME_START_TIME", "TIMER_DEL_UNIQKEY", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"),
    "the servers make it",
)  # fmt: skip
"""Names that mean something to the protocol, and what a user does instead."""


class Rules(NamedTuple):
    """What a producer is told once."""

    namespace: str
    message_bytes_max: int
    compress_above_bytes: int | None
    compression: Compression


def as_bytes(body: Body) -> bytes:
    """Return the body's bytes; text becomes UTF-8. Raises Misuse for anything else."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    raise Misuse(
        f"a body is bytes or text, not {type(body).__name__}", hint="encode it, for example with json.dumps"
    )


def check_topic(topic: str, namespace: str) -> str:
    """Return the topic's name on the wire; raises BadMessage when nobody can send to it."""
    name = wrap(namespace, topic)
    if fault := topic_fault(name):
        raise BadMessage(
            fault, code=Code.MESSAGE_ILLEGAL, hint="letters, digits, _ - % | and at most 127 of them"
        )
    if name in NO_SEND_TOPICS:
        raise BadMessage(
            f"{name} belongs to the servers", code=Code.NO_PERMISSION, hint="choose another topic"
        )
    return name


def check_body(body: bytes, rules: Rules) -> None:
    """Raise BadMessage when no server would take the body."""
    if not body:
        raise BadMessage("the body is empty", code=Code.MESSAGE_ILLEGAL, hint="send at least one byte")
    if len(body) > rules.message_bytes_max:
        raise _too_large(len(body), rules)


def pairs_of(message: Outgoing, message_id: str, namespace: str) -> dict[str, str]:
    """Return the properties of a message, all but those of its delay; raises BadMessage."""
    pairs = {"UNIQ_KEY": message_id}
    if message.properties:
        _check_properties(message.properties)
        pairs.update(message.properties)
    if message.tag:
        pairs["TAGS"] = message.tag
    if message.keys:
        pairs["KEYS"] = _keys_text(keys_of(message))
    if message.ordering_key is not None:
        if not message.ordering_key:
            raise BadMessage(
                "the ordering key is empty", code=Code.MESSAGE_ILLEGAL, hint="leave it out, or name it"
            )
        pairs["__SHARDINGKEY"] = message.ordering_key
    if namespace:
        pairs["INSTANCE_ID"] = namespace
    return pairs


def keys_of(message: Outgoing) -> Sequence[str]:
    """Return the keys of a message; one text may hold several, with spaces between."""
    return message.keys.split() if isinstance(message.keys, str) else message.keys


def text_of(pairs: Mapping[str, str]) -> str:
    """Return the property text; raises BadMessage when a name or a value cannot be written."""
    text = "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()])
    count = len(pairs)
    if text.count("\x01") != count or text.count("\x02") != count:
        raise BadMessage(
            "a property, key or tag holds the character 1 or 2",
            code=Code.MESSAGE_ILLEGAL,
            hint="these two separate properties on the wire: take them out",
        )
    # A character is at most three bytes: most texts need not be encoded to know that they fit.
    if len(text) * 3 > PROPERTIES_BYTES_MAX and len(text.encode()) > PROPERTIES_BYTES_MAX:
        raise BadMessage(
            f"the properties take {len(text.encode())} bytes, allowed are {PROPERTIES_BYTES_MAX}",
            code=Code.MESSAGE_ILLEGAL,
            hint="put it into the body",
        )
    return text


def pack_body(body: bytes, rules: Rules) -> tuple[bytes, int]:
    """Return the body as it is sent and the flags that say how; raises BadMessage."""
    check_body(body, rules)
    above = rules.compress_above_bytes
    if above is not None and len(body) > above:
        packed = deflate(body, rules.compression)
        if len(packed) < len(body):
            return packed, flag_of(rules.compression)
    return body, 0


def check_delay(message: Outgoing, now_ms: int) -> int:
    """Return in how many ms the message is due, 0 for now; raises Misuse."""
    if message.delay is not None and message.deliver_at is not None:
        raise Misuse("delay and deliver_at exclude each other", hint="give one of them")
    if message.delay is not None:
        if message.delay < timedelta(0):
            raise Misuse(f"the delay is negative: {message.delay}")
        return message.delay // timedelta(milliseconds=1)
    if message.deliver_at is not None:
        return max(_epoch_ms(message.deliver_at) - now_ms, 0)
    return 0


def timer_pairs(message: Outgoing) -> dict[str, str]:
    """Return the properties that brokers from 5.0 on read a delay from, to the millisecond."""
    if message.deliver_at is not None:
        return {"TIMER_DELIVER_MS": str(_epoch_ms(message.deliver_at))}
    assert message.delay is not None
    return {"TIMER_DELAY_MS": str(message.delay // timedelta(milliseconds=1))}


def level_pairs(delay_ms: int) -> dict[str, str]:
    """Return the property that older brokers read: the next level up; raises BadMessage beyond the last."""
    delay = timedelta(milliseconds=delay_ms)
    longest = timedelta(seconds=WAITS_S[-1])
    if delay > longest:
        raise BadMessage(
            f"the broker is older than 5.0 and cannot delay for {delay}",
            code=Code.MESSAGE_ILLEGAL,
            hint=f"at most {longest}",
        )
    return {"DELAY": str(level_for(delay))}


def check_batch(topic: str, messages: Sequence[Outgoing]) -> None:
    """Raise Misuse when the messages cannot share a request."""
    if is_retry(topic) or len(topic) > BATCH_TOPIC_CHARS_MAX:
        raise Misuse(f"{topic} takes no batches", hint="send the messages one by one")
    for message in messages:
        if message.delay is not None or message.deliver_at is not None:
            raise Misuse(
                "a message of a batch cannot have a delay", hint="send it by itself, or use send_many"
            )


def item_of(message: Outgoing, pairs: Mapping[str, str], rules: Rules) -> bytes:
    """Return one message of a batch; raises BadMessage."""
    check_body(message.body, rules)
    return join_item(message.flag, message.body, text_of(pairs).encode())


def runs(items: Sequence[bytes], extra_bytes: int, bytes_max: int) -> list[slice]:
    """Return how to cut a batch so that each request is within the limits; one item alone always goes.

    `extra_bytes` is what each item grows by when it is stored.
    """
    found = []
    start = size_bytes = 0
    for place, item in enumerate(items):
        item_bytes = len(item) + extra_bytes
        if place > start and (size_bytes + item_bytes > bytes_max or place - start >= BATCH_MESSAGES_MAX):
            found.append(slice(start, place))
            start, size_bytes = place, 0
        size_bytes += item_bytes
    if start < len(items):
        found.append(slice(start, len(items)))
    return found


def transaction_pairs(group: str) -> dict[str, str]:
    """Return the properties that make a half message of a plain one; its flag is `HALF_FLAG`."""
    return {"TRAN_MSG": "true", "PGROUP": group}


HALF_FLAG: Final = int(SysFlag.TRANSACTION_PREPARED)


def recall_broker(handle: str) -> str:
    """Return the name of the broker that a recall handle leads to; raises Misuse when it is none.

    A handle is `v1 topic broker-name due-ms unique-key` in URL-safe base64.
    """
    try:
        version, _, broker, _, _ = (
            base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)).decode().split(" ")
        )
    except ValueError:
        version = ""
    if version != "v1":
        raise Misuse(f"{handle!r} is not a recall handle", hint="take it from Receipt.recall_handle")
    return broker


def _keys_text(keys: Sequence[str]) -> str:
    text = " ".join(keys)
    if len(text.split()) != len(keys):
        raise BadMessage(
            f"a key is empty or has a space in it: {list(keys)!r}",
            code=Code.MESSAGE_ILLEGAL,
            hint="spaces separate keys on the wire: replace them",
        )
    return text


def _check_properties(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if name in OURS:
            raise BadMessage(
                f"the property {name} means something to the protocol",
                code=Code.MESSAGE_ILLEGAL,
                hint=OURS[name],
            )
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadMessage(
                f"the property {name!r} is not text", code=Code.MESSAGE_ILLEGAL, hint="use str()"
            )
        if not name or not value:
            raise BadMessage(
                f"the property {name!r} has no name or no value",
                code=Code.MESSAGE_ILLEGAL,
                hint="the protocol has no empty ones: leave it out",
            )


def _epoch_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise Misuse(f"deliver_at has no time zone: {moment}", hint="datetime.now(UTC) + timedelta(...)")
    return round(moment.timestamp() * 1000)


def _too_large(size_bytes: int, rules: Rules) -> BadMessage:
    return BadMessage(
        f"the body has {size_bytes} bytes, allowed are {rules.message_bytes_max}",
        code=Code.MESSAGE_ILLEGAL,
        hint="split it, or raise max_message_bytes here and maxMessageSize at the brokers",
    )
