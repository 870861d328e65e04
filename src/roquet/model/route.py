"""Routes: which brokers serve which queues of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec


class QueueData(msgspec.Struct, frozen=True, rename="camel"):
    """How many queues of a topic one broker name serves, in Apache's order."""

    broker_name: str
    perm: int
    read_queue_nums: int
    topic_sys_flag: int
    write_queue_nums: int


class BrokerData(msgspec.Struct, frozen=True, rename="camel"):
    """The addresses behind one broker name; id 0 is the master."""

    broker_addrs: dict[int, str]
    broker_name: str
    cluster: str
    enable_acting_master: bool = False
    zone_name: str | None = None


class Route(NamedTuple):
    """All that a client must know to send to a topic and read from it."""

    queues: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    order_conf: str | None = None
    filter_servers: dict[str, list[str]] = {}
    mappings: Mapping[str, Mapping[Any, Any]] = {}


class QueueName(NamedTuple):
    """One queue of one topic on one broker name; a key of tables and of lock requests."""

    broker_name: str
    queue_id: int
    topic: str
