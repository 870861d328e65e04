"""Request and reply: 324 and 325 carry an answer to the broker, 326 carries it on to whoever asked."""

from __future__ import annotations

from roquet.wire.requests.send import Send, SendV2, Sent
from roquet.wire.row import Header, Int32, request


@request(324, "SEND_REPLY_MESSAGE", to="broker", reply=Sent, touches=("topic", "pub"))
class SendReply(Send):
    """Hand an answer to the client that its property REPLY_TO_CLIENT names; the fields are those of 10."""


@request(325, "SEND_REPLY_MESSAGE_V2", to="broker", reply=Sent, touches=("topic", "pub"))
class SendReplyV2(SendV2):
    """The same as 324 with the shorter keys of 310."""


@request(326, "PUSH_REPLY_MESSAGE_TO_CLIENT", to="client")
class PushReply(Header):
    """An answer for a producer of this connection; the body is the message's, compressed as `sys_flag` says.

    The client finds who waits for it by the property CORRELATION_ID.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    born_host: str
    store_host: str
    store_timestamp: int
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
