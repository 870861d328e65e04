"""Sends: 10, 310 with one-letter keys, the batch 320, and its sibling of ours for halves."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, header, named, request


@header
class Sent(Header):
    """Where the message went; `msg_id` is the offset id, comma-joined for a batch."""

    msg_id: str
    queue_id: Int32
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None
    region: str | None = named("MSG_REGION", default=None)
    trace_on: str | None = named("TRACE_ON", default=None)


@header
class Refused(Header):
    """What a send answer carries even when nothing was stored."""

    region: str = named("MSG_REGION")
    trace_on: str = named("TRACE_ON")


@request(10, "SEND_MESSAGE", to="broker", reply=Sent, touches=("topic", "pub"))
class Send(Header):
    """Store one message."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str = ""
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool = False


@request(310, "SEND_MESSAGE_V2", to="broker", reply=Sent, touches=("topic", "pub"))
class SendV2(Header):
    """Store one message; the same as 10 with shorter keys."""

    producer_group: str = named("a")
    topic: str = named("b")
    default_topic: str = named("c")
    default_topic_queue_nums: Int32 = named("d")
    queue_id: Int32 = named("e")
    sys_flag: Int32 = named("f")
    born_timestamp: int = named("g")
    flag: Int32 = named("h")
    properties: str = named("i", default="")
    reconsume_times: Int32 | None = named("j", default=None)
    unit_mode: bool | None = named("k", default=None)
    max_reconsume_times: Int32 | None = named("l", default=None)
    batch: bool = named("m", default=False)
    broker_name: str | None = named("n", default=None)


@request(320, "SEND_BATCH_MESSAGE", to="broker", reply=Sent, touches=("topic", "pub"))
class SendBatch(SendV2):
    """Store several messages of one topic and queue as a whole; the body holds them one after another."""


@request(30_038, "STAGE_HALVES", to="broker", reply=Sent, touches=("topic", "pub"))
class StageHalves(SendBatch):
    """Store several half messages of one topic and queue as a whole; Roquet's own.

    The body is that of a batch, the answer too; `queue_offset` is the first half's, the others lie behind it.
    Refused unless every message opens a transaction: others would be visible at once.
    """
