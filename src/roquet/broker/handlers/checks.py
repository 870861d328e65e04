"""Checks that several handlers share: names, bodies, and whether a topic or group is there.

Each refuses with the code and the words that Apache uses, so that tools say the same of both.
"""

from __future__ import annotations

from typing import TypeVar

from roquet.broker.core.topics import Topics
from roquet.model import names
from roquet.model.topic import Topic
from roquet.wire.bodies import admin
from roquet.wire.codes import Code
from roquet.wire.reply import Refusal

Shape = TypeVar("Shape")


def check_topic_name(topic: str) -> None:
    """Refuse a name that cannot be a topic's."""
    fault = names.topic_fault(topic)
    if fault:
        raise Refusal(Code.INVALID_PARAMETER, fault)


def check_group_name(group: str) -> None:
    """Refuse a name that cannot be a group's."""
    fault = names.group_fault(group)
    if fault:
        raise Refusal(Code.INVALID_PARAMETER, fault)


def check_not_own(topics: Topics, topic: str) -> None:
    """Refuse to touch a topic that belongs to the broker."""
    if topics.is_own(topic):
        raise Refusal(Code.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")


def find_topic(topics: Topics, topic: str) -> Topic:
    """Return a topic that must be there."""
    found = topics.get(topic)
    if found is None:
        raise Refusal(Code.TOPIC_NOT_EXIST, f"topic[{topic[:255]}] not exist")
    return found


def read_body(body: bytes, shape: type[Shape]) -> Shape:
    """Read a JSON body that must be there."""
    if not body:
        raise Refusal(Code.SYSTEM_ERROR, "the request has no body; send the settings as JSON")
    try:
        return admin.decode(body, shape)
    except ValueError as error:
        raise Refusal(Code.SYSTEM_ERROR, f"the body cannot be read: {error}") from None
