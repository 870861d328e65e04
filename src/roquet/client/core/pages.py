"""A pull answer cut into messages: records one behind the other, as they lie in the log; pure.

Bodies and properties stay bytes until somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Collection

from roquet.client.core.namespace import unwrap
from roquet.client.core.subscription import tag_of
from roquet.client.message import Delivery, Message
from roquet.model.message import parse_properties
from roquet.model.names import is_retry
from roquet.store.format.page import read_page
from roquet.store.format.record import Record


class BadPage(ValueError):
    """A server sent something that is no run of records."""


def records_of(data: bytes) -> list[Record]:
    """Return the records of an answer; raises BadPage."""
    try:
        return read_page(data)
    except ValueError as error:
        raise BadPage(str(error)) from None


def messages_of(
    records: Collection[Record], broker: str, delivery: Delivery | None, namespace: str = ""
) -> list[Message]:
    """Return the messages of records; in a namespace their topics lose its prefix."""
    if namespace:
        records = [_without(namespace, each) for each in records]
    return [Message(each, broker, delivery) for each in records]


def with_tags(records: Collection[Record], tags: Collection[bytes]) -> list[Record]:
    """Return the records with one of the tags: a server has compared only their hashes."""
    return [each for each in records if tag_of(each.properties) in tags]


def _without(namespace: str, each: Record) -> Record:
    topic = each.topic
    if is_retry(topic):  # its own topic is then in a property, and wrapped there too
        pairs = parse_properties(str(each.properties, "utf-8", "replace"))
        topic = pairs.get("RETRY_TOPIC", topic)
    return each._replace(topic=unwrap(namespace, topic))
