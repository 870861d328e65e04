"""Which broker names serve which topics, with how many queues, at which addresses; and the views of that.

Place in the flow: `names.table` decides what is filed here, `names.handlers` shows it.

    queues   topic → broker name → QueueData        topics    broker name → its topics (the way back)
    brokers  broker name → BrokerData               clusters  cluster → broker names

QueueData and BrokerData never change once filed (a change files a new one), so a route is put together
without copying and stays consistent. A broker's topics are found without a walk over all topics. Knows no
time and no liveness. Reference: RouteInfoManager of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from roquet.model.route import BrokerData, QueueData, Route
from roquet.model.topic import SYS_UNIT, SYS_UNIT_SUB, Perm

MASTER_ID: Final = 0
MEMBER_TOPIC_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Brokers find each other by the routes of these topics, so nobody is passed off as master there."""


class Routes:
    """Topics, brokers and clusters as they are now."""

    def __init__(self) -> None:
        self.members_version = 0  # raised whenever brokers or clusters change: a key for caches
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._mappings: dict[str, dict[str, Mapping[Any, Any]]] = {}

    # --- filing, for the table

    def file_broker(self, broker: BrokerData, cluster: str) -> None:
        """File a broker name with all its addresses, as a member of a cluster."""
        assert broker.broker_addrs, "a broker name without addresses is dropped, not filed"
        names = self._clusters.setdefault(cluster, {})
        if self._brokers.get(broker.broker_name) != broker or broker.broker_name not in names:
            self._brokers[broker.broker_name] = broker
            names[broker.broker_name] = None
            self.members_version += 1

    def drop_broker(self, broker_name: str) -> None:
        """Forget a broker name, its queues, and its cluster when it was the last one there."""
        self._brokers.pop(broker_name, None)
        self.members_version += 1
        for topic in list(self._topics.get(broker_name, ())):
            self.drop_queues(topic, broker_name)
        for cluster, names in list(self._clusters.items()):
            names.pop(broker_name, None)
            if not names:
                del self._clusters[cluster]

    def file_queues(self, topic: str, queues: QueueData) -> None:
        """File how many queues of a topic a broker name serves."""
        by_broker = self._queues.get(topic)
        if by_broker is None:
            by_broker = self._queues[topic] = {}
        by_broker[queues.broker_name] = queues
        self._topics.setdefault(queues.broker_name, {})[topic] = None

    def drop_queues(self, topic: str, broker_name: str) -> None:
        """Forget that a broker name serves a topic, and the topic when nobody else does."""
        by_broker = self._queues.get(topic)
        if by_broker is None or by_broker.pop(broker_name, None) is None:
            return
        if not by_broker:
            del self._queues[topic]
        topics = self._topics[broker_name]
        del topics[topic]
        if not topics:
            del self._topics[broker_name]
        mappings = self._mappings.get(topic)
        if mappings is not None:
            mappings.pop(broker_name, None)
            if not mappings:
                del self._mappings[topic]

    def file_mapping(self, topic: str, broker_name: str, mapping: Mapping[Any, Any]) -> None:
        """File a static topic's queue mapping for its clients."""
        if topic in self.topics_of(broker_name):
            self._mappings.setdefault(topic, {})[broker_name] = mapping

    def set_perms(self, broker_name: str, change: Callable[[int], int]) -> int:
        """Change the permission of all topics of a broker name; return how many it has."""
        topics = self.topics_of(broker_name)
        for topic in topics:
            by_broker = self._queues[topic]
            queues = by_broker[broker_name]
            perm = change(queues.perm)
            if perm != queues.perm:
                by_broker[broker_name] = msgspec.structs.replace(queues, perm=perm)
        return len(topics)

    # --- views

    def __contains__(self, topic: object) -> bool:
        return topic in self._queues

    def __len__(self) -> int:
        """Return how many topics there are."""
        return len(self._queues)

    @property
    def brokers(self) -> Mapping[str, BrokerData]:
        return self._brokers

    @property
    def clusters(self) -> Mapping[str, Mapping[str, None]]:
        """The broker names of every cluster, in order of arrival."""
        return self._clusters

    def topics_of(self, broker_name: str) -> Mapping[str, None]:
        return self._topics.get(broker_name, {})

    def brokers_of(self, topic: str) -> tuple[str, ...]:
        return tuple(self._queues.get(topic, ()))

    def topics(self) -> Iterator[str]:
        return iter(self._queues)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = self._clusters.get(cluster, {})
        return list(dict.fromkeys(topic for name in names for topic in self.topics_of(name)))

    def unit_topics(self) -> list[str]:
        return [topic for topic, flag in self._flags() if flag & SYS_UNIT]

    def unit_sub_topics(self) -> list[str]:
        return [topic for topic, flag in self._flags() if flag & SYS_UNIT_SUB]

    def unit_sub_only_topics(self) -> list[str]:
        return [topic for topic, flag in self._flags() if flag & (SYS_UNIT | SYS_UNIT_SUB) == SYS_UNIT_SUB]

    def some_address(self) -> str:
        """Return the address of some broker, empty when there is none."""
        return next((next(iter(each.broker_addrs.values())) for each in self._brokers.values()), "")

    def route(self, topic: str, *, acting_masters: bool) -> Route | None:
        """Return who serves a topic, None when nobody does; slaves may stand in for absent masters."""
        by_broker = self._queues.get(topic)
        if by_broker is None:
            return None
        brokers = [self._brokers[name] for name in by_broker if name in self._brokers]
        if not brokers:
            return None
        if acting_masters and not topic.startswith(MEMBER_TOPIC_PREFIX):
            brokers = [_with_acting_master(broker, by_broker[broker.broker_name]) for broker in brokers]
        return Route(tuple(by_broker.values()), tuple(brokers), mappings=self._mappings.get(topic, {}))

    def _flags(self) -> Iterator[tuple[str, int]]:
        for topic, by_broker in self._queues.items():
            yield topic, next(iter(by_broker.values())).topic_sys_flag


def _with_acting_master(broker: BrokerData, queues: QueueData) -> BrokerData:
    """Show the smallest id as the master's when there is none and nobody may write."""
    addresses = broker.broker_addrs
    if MASTER_ID in addresses or not broker.enable_acting_master or queues.perm & Perm.WRITE:
        return broker
    acting = min(addresses)
    shown = {MASTER_ID if each == acting else each: address for each, address in addresses.items()}
    return msgspec.structs.replace(broker, broker_addrs=shown)
