"""What a consumer wants of a topic: a tag expression, or SQL over properties; pure.

    "*"                      everything
    "created || paid"        tags: the server compares hashes, so the client compares the text once more
    Sql("amount > 10")       SQL92: the server alone decides (it must have enablePropertyFilter=true)

Reference: FilterAPI of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roquet.client.errors import Misuse
from roquet.model.group import Subscription
from roquet.model.message import java_hash
from roquet.model.names import topic_fault

_TAG = b"TAGS\x01"
_INNER_TAG = b"\x02TAGS\x01"


class Sql(str):
    """A SQL92 expression over the properties of messages."""

    __slots__ = ()


Expression = str | Sql


def parse(topic: str, expression: Expression, version_ms: int) -> Subscription:
    """Return the subscription as heartbeats carry it; raises Misuse for an expression that says nothing."""
    if fault := topic_fault(topic):
        raise Misuse(fault)
    if isinstance(expression, Sql):
        if not expression.strip():
            raise Misuse(f"the SQL expression for {topic} is empty", hint='use "*" for everything')
        return Subscription(
            topic=topic, expression_type="SQL92", sub_string=str(expression), sub_version=version_ms
        )
    if expression.strip() in ("", "*"):
        return Subscription(topic=topic, sub_version=version_ms)
    tags = tuple(dict.fromkeys(tag.strip() for tag in expression.split("||") if tag.strip()))
    if not tags:
        raise Misuse(f"the expression {expression!r} for {topic} names no tag", hint='use "*" for everything')
    codes = tuple(dict.fromkeys(java_hash(tag) for tag in tags))
    return Subscription(
        topic=topic, sub_string=expression, tags_set=tags, code_set=codes, sub_version=version_ms
    )


def as_mapping(subscribe: Mapping[str, Expression] | str | Sequence[str]) -> dict[str, Expression]:
    """Return topic → expression for the short forms: one topic, or several, with everything in them."""
    if isinstance(subscribe, str):
        return {subscribe: "*"}
    if isinstance(subscribe, Mapping):
        return dict(subscribe)
    return dict.fromkeys(subscribe, "*")


def tag_of(properties: bytes) -> bytes:
    """Return the tag in a record's properties; empty when there is none."""
    if properties.startswith(_TAG):
        start = len(_TAG)
    else:
        found = properties.find(_INNER_TAG)
        if found < 0:
            return b""
        start = found + len(_INNER_TAG)
    end = properties.find(b"\x02", start)
    return properties[start:] if end < 0 else properties[start:end]


def wanted_tags(subscription: Subscription) -> frozenset[bytes]:
    """Return the tags to compare each message with; empty when all that the server sends is wanted."""
    return frozenset(tag.encode() for tag in subscription.tags_set)
