"""Retries: a consumer hands back a message that it could not use."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, request


@request(36, "CONSUMER_SEND_MSG_BACK", to="broker", touches=("group", "sub"))
class SendBack(Header):
    """Deliver a message again later, or put it with the dead letters; `offset` is its place in the log."""

    offset: int
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
