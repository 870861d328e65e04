"""Pulls: 11, and 361 which differs only in the thread pool that Apache serves it from.
`bulk` is Roquet's own: a reader of millions of messages says with it that the limits for consumers (32
messages, 8 of those on disk) are not meant for it. The answer then holds what `maxMsgNums` and `maxMsgBytes`
allow, up to the broker's setting `maxTransferBytesOnBulkPull`. Apache's clients never send it, and Apache's
brokers do not look at it.
"""

from __future__ import annotations

from enum import IntFlag

from roquet.wire.row import Header, Int32, header, request


class PullFlag(IntFlag):
    """Bits of a pull's sysFlag."""

    COMMIT_OFFSET = 0x1
    SUSPEND = 0x2
    SUBSCRIPTION = 0x4
    CLASS_FILTER = 0x8
    LITE = 0x10


@header
class Pulled(Header):
    """What was found, and where to go on."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


@header
class PullForbidden(Header):
    """Why a pull was refused: 1 broker, 2 group, 3 topic, 4 broadcast, 5 subscription."""

    forbidden_type: Int32 | None = None


@request(11, "PULL_MESSAGE", to="broker", reply=Pulled, touches=("topic", "sub"))
class Pull(Header):
    """Read a run of messages from one queue; park the request when there are none yet."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    bulk: bool | None = None


@request(361, "LITE_PULL_MESSAGE", to="broker", reply=Pulled, touches=("topic", "sub"))
class LitePull(Pull):
    """Read a run of messages for a consumer that keeps its own positions."""
