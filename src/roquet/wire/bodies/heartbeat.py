"""The body of a heartbeat: which groups a client belongs to and what they subscribe."""

from __future__ import annotations

import msgspec

from roquet.model.group import Subscription
from roquet.wire.bodies import loose_json


class ProducerBeat(msgspec.Struct, rename="camel"):
    group_name: str = ""


class ConsumerBeat(msgspec.Struct, rename="camel"):
    group_name: str = ""
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[Subscription] = []
    unit_mode: bool = False


class HeartbeatBody(msgspec.Struct, rename="camel"):
    """`heartbeat_fingerprint` ≠ 0 marks the second form, which may leave the subscriptions out."""

    client_id: str = msgspec.field(name="clientID", default="")
    producer_data_set: list[ProducerBeat] = []
    consumer_data_set: list[ConsumerBeat] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = msgspec.field(name="withoutSub", default=False)


_strict = msgspec.json.Decoder(HeartbeatBody)


def read_heartbeat(data: bytes) -> HeartbeatBody:
    """Return the heartbeat; raises ValueError when it is none."""
    try:
        return _strict.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.convert(loose_json.loads(data), HeartbeatBody, strict=False)
