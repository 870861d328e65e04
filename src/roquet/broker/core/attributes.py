"""Attributes of topics: the per-topic settings, how they change, and what they forbid a message.

    +message.type=FIFO,-reserve.time        the form in which a change comes (17; 18 as a map)

    message.type             what kind of messages the topic takes; checked only where it is set
    reserve.time             hours that messages stay visible; -1 for as long as the store keeps them
    roquet.retention.bytes   bytes of messages that stay visible, of all queues on this broker; -1 for all
    roquet.max.message.size  longest body in bytes; -1 for the broker's own limit
    queue.type, cleanup.policy   fixed once the topic is made; only the plain kinds exist here

The names with `roquet.` are ours: an Apache 5.5.0 that opens the same topics.json keeps them and does not
mind. Its brokers check no message type, only its proxy does. Pure. Reference: TopicAttributes 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from roquet.model.topic import (
    ATTRIBUTE_CLEANUP_POLICY,
    ATTRIBUTE_MESSAGE_TYPE,
    ATTRIBUTE_QUEUE_TYPE,
    ATTRIBUTE_RESERVE_TIME,
)

RETENTION_BYTES: Final = "roquet.retention.bytes"
MESSAGE_BYTES_MAX: Final = "roquet.max.message.size"

LONG_MAX: Final = 2**63 - 1

_ANY_TYPE: Final = frozenset({"", "UNSPECIFIED", "MIXED"})
_DELAY_NAMES: Final = ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC")
_SHARDING_KEY: Final = "__SHARDINGKEY"


class Allowed(NamedTuple):
    """What an attribute may be: one of `words`, or a number up to `number_max`, where -1 means unset."""

    words: frozenset[str] = frozenset()
    number_max: int = 0
    is_mutable: bool = True

    def fault(self, value: str) -> str:
        """Return what is wrong with a value; empty when nothing is."""
        if self.words:
            return "" if value in self.words else f"allowed are {sorted(self.words)}"
        found = number(value)
        if value == "-1" or (found is not None and found <= self.number_max):
            return ""
        return f"it must be a whole number from -1 to {self.number_max}"


ALLOWED: Final = {
    ATTRIBUTE_MESSAGE_TYPE: Allowed(
        frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})
    ),
    ATTRIBUTE_QUEUE_TYPE: Allowed(frozenset({"SimpleCQ"}), is_mutable=False),
    ATTRIBUTE_CLEANUP_POLICY: Allowed(frozenset({"DELETE"}), is_mutable=False),
    ATTRIBUTE_RESERVE_TIME: Allowed(number_max=LONG_MAX),
    RETENTION_BYTES: Allowed(number_max=LONG_MAX),
    MESSAGE_BYTES_MAX: Allowed(number_max=2**31 - 1),
}


def change_attributes(current: Mapping[str, str], text: str) -> dict[str, str]:
    """Return the attributes after a change such as `+message.type=FIFO,-reserve.time`.

    Raises ValueError that names the key. Immutable keys may be set only when the topic is new.
    """
    changed = dict(current)
    for change in filter(None, (part.strip() for part in text.split(","))):
        sign, rest = change[0], change[1:]
        key, _, value = rest.partition("=")
        if sign not in "+-" or not key:
            raise ValueError(f"wrong format of attribute change {change!r}: write +key=value or -key")
        allowed = ALLOWED.get(key)
        if allowed is None:
            raise ValueError(f"unsupported key: {key}")
        if not allowed.is_mutable and current and key not in current:
            raise ValueError(f"attribute {key} cannot be changed after the topic was made")
        if sign == "-":
            changed.pop(key, None)
            continue
        fault = allowed.fault(value)
        if fault:
            raise ValueError(f"value {value!r} of {key} is not supported; {fault}")
        changed[key] = value
    return changed


def number(text: str) -> int | None:
    """Return a number that is not negative; None when the text, perhaps of someone else's file, is none."""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return None
    return int(text)


def retention_bytes(attributes: Mapping[str, str]) -> int | None:
    """Return how many bytes of a topic's messages stay visible; None for all."""
    return number(attributes.get(RETENTION_BYTES, ""))


def kind_of(properties: Mapping[str, str]) -> str:
    """Return the type of a message as its properties show it, as Apache's proxy tells them apart."""
    if properties.get("TRAN_MSG", "").lower() == "true":
        return "TRANSACTION"
    if any(name in properties for name in _DELAY_NAMES):
        return "DELAY"
    return "FIFO" if _SHARDING_KEY in properties else "NORMAL"


def message_fault(
    attributes: Mapping[str, str], properties: Mapping[str, str], body_bytes: int, checks_type: bool
) -> str:
    """Return why a topic with these attributes does not take a message; empty when it does."""
    bytes_max = number(attributes.get(MESSAGE_BYTES_MAX, ""))
    if bytes_max is not None and body_bytes > bytes_max:
        return f"the body has {body_bytes} bytes, the topic takes at most {bytes_max} ({MESSAGE_BYTES_MAX})"
    declared = attributes.get(ATTRIBUTE_MESSAGE_TYPE, "")
    if not checks_type or declared in _ANY_TYPE:
        return ""
    kind = kind_of(properties)
    # A client that chooses the queue itself sends ordered messages that look like any other.
    if kind == declared or (declared == "FIFO" and kind == "NORMAL"):
        return ""
    return f"the topic takes {declared} messages ({ATTRIBUTE_MESSAGE_TYPE}), this one is {kind}"
