"""A send on its way: one request's worth of messages, and what became of them.

A `Parcel` holds what stays the same over all attempts; the request is written anew for each, since queue and
broker change. `receipts` reads the answer. Knows neither connections nor how often to try.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roquet.client.core.sending import Rules, item_of, text_of
from roquet.client.message import Outgoing, Receipt
from roquet.model.names import AUTO_CREATE_TOPIC
from roquet.model.route import QueueName
from roquet.wire.codes import Code
from roquet.wire.header import Frame
from roquet.wire.requests.reply import SendReplyV2
from roquet.wire.requests.send import SendBatch, SendV2, StageHalves

QUEUES_WANTED: Final = 4
"""Queues that a topic gets when a first message creates it."""

STORED: Final = {
    int(Code.SUCCESS): "ok",
    int(Code.FLUSH_DISK_TIMEOUT): "flush-disk-timeout",
    int(Code.SLAVE_NOT_AVAILABLE): "slave-not-available",
    int(Code.FLUSH_SLAVE_TIMEOUT): "flush-slave-timeout",
}
"""Answers that mean stored, and how well."""

AnySend = SendV2 | SendBatch | StageHalves | SendReplyV2


@dataclass(slots=True)
class Parcel:
    """What one request carries. `pairs` are the properties of each message, which hooks may add to."""

    topic: str
    """the topic's name on the wire"""
    messages: Sequence[Outgoing]
    ids: Sequence[str]
    pairs: Sequence[dict[str, str]]
    kind: str
    body: bytes
    born_ms: int
    sys_flag: int = 0
    form: type[AnySend] = SendV2
    delay_ms: int = 0
    text: str = ""
    """the property text of a single message that was written before; `pairs` are then empty"""
    count: int = 1
    """the messages in a body that was written column by column; `messages` has one for all of them"""

    def request(self, group: str, queue: QueueName, extra: Mapping[str, str]) -> AnySend:
        """Write the header of one attempt; `extra` are properties that depend on the broker."""
        is_batch = issubclass(self.form, SendBatch)
        if self.text:
            text = self.text + text_of(extra) if extra else self.text
        else:
            text = "" if is_batch else text_of({**self.pairs[0], **extra} if extra else self.pairs[0])
        return self.form(
            group,
            self.topic,
            AUTO_CREATE_TOPIC,
            QUEUES_WANTED,
            queue.queue_id,
            self.sys_flag,
            self.born_ms,
            self.messages[0].flag,
            text,
            0,
            False,
            None,
            is_batch,
            queue.broker_name,
        )

    def write_again(self, rules: Rules) -> None:
        """Write a batch's body anew after hooks have added to its properties."""
        if self.form is SendBatch:
            items = zip(self.messages, self.pairs, strict=True)
            self.body = b"".join([item_of(message, pairs, rules) for message, pairs in items])

    def receipts(self, broker: str, answer: Frame) -> list[Receipt]:
        """Return where each message went, from an answer that means stored."""
        ext = answer.ext
        status = STORED[answer.code]
        queue_id = int(ext.get("queueId", "-1"))
        queue_offset = int(ext.get("queueOffset", "-1"))
        region = ext.get("MSG_REGION", "DefaultRegion")
        is_traced = ext.get("TRACE_ON", "true") != "false"
        offset_ids = ext.get("msgId", "")
        if len(self.messages) == 1:
            return [
                Receipt(
                    self.ids[0],
                    offset_ids,
                    self.messages[0].topic,
                    broker,
                    queue_id,
                    queue_offset,
                    status,
                    ext.get("transactionId", ""),
                    ext.get("recallHandle", ""),
                    region,
                    is_traced,
                )
            ]
        topic = self.messages[0].topic
        places = offset_ids.split(",")
        if len(places) != len(self.ids):  # stored as one record: all of them lie there
            places = [offset_ids] * len(self.ids)
        return [
            Receipt(message_id, place, topic, broker, queue_id, offset, status, "", "", region, is_traced)
            for offset, (message_id, place) in enumerate(zip(self.ids, places, strict=True), queue_offset)
        ]
