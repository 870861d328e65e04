"""Timed messages: taking one back before it is due."""

from __future__ import annotations

from roquet.wire.row import Header, header, named, request


@header
class Recalled(Header):
    """The unique key of the message that a marker now cancels."""

    msg_id: str
    region: str = named("MSG_REGION")


@header
class RecallRefused(Header):
    """What an answer carries even when nothing was recalled."""

    region: str = named("MSG_REGION")


@request(370, "RECALL_MESSAGE", to="broker", reply=Recalled, touches=("topic", "pub"))
class Recall(Header):
    """Take back a timed message that is not due yet, by the handle that its send was answered with."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
