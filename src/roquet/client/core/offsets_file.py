"""The file in which a broadcasting consumer keeps its positions, as Apache's clients write it; pure.

    {⏎⇥"offsetTable":{⏎⇥⇥{⏎⇥⇥⇥"brokerName":"broker-a",⏎⇥⇥⇥"queueId":0,⏎⇥⇥⇥"topic":"t"⏎⇥⇥}:12⏎⇥}⏎}

A table keyed by objects, which is not JSON but what Java's fastjson makes of it; older clients write the
key on one line. Reference: LocalFileOffsetStore of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from roquet.model.route import QueueName
from roquet.wire.bodies import loose_json


def encode(offsets: Mapping[QueueName, int]) -> bytes:
    """Return the text of the file."""
    table = {
        loose_json.ObjectKey(
            {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
        ): offset
        for queue, offset in offsets.items()
    }
    return loose_json.dumps_pretty({"offsetTable": table})


def decode(text: bytes) -> dict[QueueName, int]:
    """Return the positions; raises ValueError when the text is no such table."""
    return read_table(loose_json.loads(text), "offsetTable")


def read_table(body: object, member: str) -> dict[QueueName, int]:
    """Return queue → offset of one member of a body, also in the form of a list that C++ clients know."""
    table = body.get(member) if isinstance(body, dict) else None
    offsets: dict[QueueName, int] = {}
    if isinstance(table, list):
        for row in table:
            if not isinstance(row, Mapping):
                raise ValueError(f"{row!r} in {member} is no queue")
            offsets[_queue(row)] = _number(row.get("offset"))
        return offsets
    if not isinstance(table, dict):
        raise ValueError(f"there is no {member}")
    for key, offset in table.items():
        if isinstance(key, str):  # some releases quote the whole key
            key = loose_json.loads(key)
        if not isinstance(key, Mapping):
            raise ValueError(f"{key!r} in {member} is no queue")
        offsets[_queue(key)] = _number(offset)
    return offsets


def _queue(members: Mapping[str, object]) -> QueueName:
    broker, topic = members.get("brokerName"), members.get("topic")
    if not isinstance(broker, str) or not isinstance(topic, str):
        raise ValueError(f"{dict(members)} is no queue")
    return QueueName(broker, _number(members.get("queueId")), topic)


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is no number")
    return int(value)
