"""Consumer groups: their settings, and what a member subscribes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ConsumeType = Literal["CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"]
MessageModel = Literal["BROADCASTING", "CLUSTERING"]


class RetryPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """How long a failed message waits before it comes again; what is unset is not written."""

    type: str = "CUSTOMIZED"
    customized_retry_policy: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    exponential_retry_policy: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class Group(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The settings of one consumer group on one broker, in Apache's order."""

    attributes: dict[str, str] = {}
    broker_id: int = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    group_name: str
    group_retry_policy: RetryPolicy = RetryPolicy()
    group_sys_flag: int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1
    subscription_data_set: list[dict[str, Any]] | msgspec.UnsetType | None = msgspec.UNSET
    which_broker_when_consume_slowly: int = 1


class Subscription(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a group wants of one topic: a tag expression with its hashes, or SQL."""

    class_filter_mode: bool = False
    code_set: tuple[int, ...] = ()
    expression_type: str = "TAG"
    sub_string: str = "*"
    sub_version: int = 0
    tags_set: tuple[str, ...] = ()
    topic: str
