"""The name server's tables, and every transition of them: registering, leaving, falling silent.

Place in the flow: `names.handlers` and `names.app` call in here; nothing here calls out. Time comes as an
argument, what others have to be told comes back as values.

    register ─▶ routes (who serves what) + liveness (who was heard when, over which link) ─▶ route()
    unregister · link closed · silent for too long ─▶ out of all routes at once

A registration costs as much as it brings, a broker that leaves as much as it served. Knows no sockets and
checks no names. Reference: RouteInfoManager of Apache 5.5.0; unlike there, a refused registration leaves
nothing behind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from roquet.model.route import BrokerData, QueueData, Route
from roquet.model.topic import READ_WRITE, DataVersion, Perm, Topic
from roquet.names.expiry import TIMEOUT_MS, Live, Liveness, Place
from roquet.names.routes import MASTER_ID, Routes
from roquet.wire.bodies.registration import Registration

TOPICS_MAX: Final = 1_000_000
"""Topics that the tables hold; a registration beyond it is refused."""


class Rules(NamedTuple):
    """The settings that change what a transition does, by Apache's names."""

    support_acting_master: bool = False
    notify_min_broker_id_changed: bool = False
    delete_topic_with_broker_registration: bool = False


class Joining(NamedTuple):
    """Who registers. A broker that does not speak of acting masters is an old one."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    link: Hashable
    acting_master: bool = False
    is_old: bool = False
    zone: str | None = None
    timeout_ms: int = TIMEOUT_MS


class Leaving(NamedTuple):
    """Who goes away."""

    cluster: str
    broker_name: str
    address: str


class MinIdChange(NamedTuple):
    """The smallest broker id of a name is another one now; `tell` are the members to be told (905)."""

    broker_name: str
    min_id: int
    min_address: str
    tell: tuple[str, ...]
    offline_address: str | None = None
    ha_address: str | None = None


class Verdict(Enum):
    """What became of a registration."""

    REGISTERED = "registered"
    OUTRANKED = "another broker holds the id with a larger state version"
    TOO_EARLY = "one topic alone, and the broker is not registered yet"
    TOO_MANY = "the tables are full"


class Registered(NamedTuple):
    """The end of a registration; master and HA address are those of the sender's live master."""

    verdict: Verdict
    master_address: str | None = None
    ha_address: str | None = None
    notices: tuple[MinIdChange, ...] = ()


class TakenOut(NamedTuple):
    """Brokers that are gone, the links they had registered over, and members to be told."""

    places: tuple[Place, ...] = ()
    links: tuple[Hashable, ...] = ()
    notices: tuple[MinIdChange, ...] = ()


class Table:
    """All that a name server knows of brokers and topics; `routes` is for looking, not for filing."""

    def __init__(self, rules: Rules, topics_max: int = TOPICS_MAX) -> None:
        self.rules = rules
        self.routes = Routes()
        self._topics_max = topics_max
        self._liveness = Liveness()
        self._filters: dict[Place, tuple[str, ...]] = {}

    # --- coming

    def register(self, joining: Joining, brought: Registration, now_ms: int) -> Registered:
        """Take a registration in; nothing is filed when it is refused."""
        place = Place(joining.cluster, joining.address)
        known = self.routes.brokers.get(joining.broker_name)
        before = {} if known is None else known.broker_addrs
        # An address has one id: a slave that became master drops the one it had.
        addresses = {
            each: address
            for each, address in before.items()
            if address != joining.address or each == joining.broker_id
        }
        if known is not None and self._is_outranked(joining, addresses, brought.version):
            self._liveness.drop(place)
            self.routes.file_broker(msgspec.structs.replace(known, broker_addrs=addresses), known.cluster)
            return Registered(Verdict.OUTRANKED)
        is_first = joining.broker_id not in addresses
        if is_first and len(brought.topics) == 1:
            return Registered(Verdict.TOO_EARLY)
        if self._would_overflow(brought.topics):
            return Registered(Verdict.TOO_MANY)
        addresses[joining.broker_id] = joining.address
        cluster = joining.cluster if known is None else known.cluster
        acting_master = joining.acting_master and not joining.is_old
        broker = BrokerData(addresses, joining.broker_name, cluster, acting_master, joining.zone)
        self.routes.file_broker(broker, joining.cluster)
        self._take_topics(joining, brought, broker, is_first)
        self._note(joining, brought, place, now_ms)
        return self._registered(joining, before, addresses)

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> bool:
        """File queues of one topic (217); False, and nothing filed, when a broker of them is unknown."""
        listed = list(queues)
        if any(each.broker_name not in self.routes.brokers for each in listed):
            return False
        if topic not in self.routes and len(self.routes) >= self._topics_max:
            return False
        for each in listed:
            self.routes.file_queues(topic, each)
        return True

    def _is_outranked(self, joining: Joining, addresses: Mapping[int, str], version: DataVersion) -> bool:
        holder = addresses.get(joining.broker_id, joining.address)
        if holder == joining.address:
            return False
        live = self._liveness.get(Place(joining.cluster, holder))
        return live is not None and live.version.state_version > version.state_version

    def _would_overflow(self, topics: Mapping[str, Topic]) -> bool:
        free = self._topics_max - len(self.routes)
        return len(topics) > free and sum(topic not in self.routes for topic in topics) > free

    def _take_topics(
        self, joining: Joining, brought: Registration, broker: BrokerData, is_first: bool
    ) -> None:
        """Rewrite the topics that a master brings, or for want of one the slave with the smallest id."""
        name = joining.broker_name
        is_master = joining.broker_id == MASTER_ID
        if not is_master and (joining.is_old or joining.broker_id != min(broker.broker_addrs)):
            return
        filed = self.routes.topics_of(name)
        if self.rules.delete_topic_with_broker_registration and not brought.mappings:
            for topic in [topic for topic in filed if topic not in brought.topics]:
                self.routes.drop_queues(topic, name)
        live = self._liveness.get(Place(joining.cluster, joining.address))
        is_changed = is_first or live is None or live.version != brought.version
        kept = ~int(Perm.WRITE) if broker.enable_acting_master and not is_master else ~0
        for topic, config in brought.topics.items():
            if is_changed or topic not in filed:
                self.routes.file_queues(topic, _queues(name, config, config.perm & kept))
        if is_changed:
            for topic, mapping in brought.mappings.items():
                self.routes.file_mapping(topic, str(mapping.get("bname", name)), mapping)

    def _note(self, joining: Joining, brought: Registration, place: Place, now_ms: int) -> None:
        live = Live(
            now_ms,
            joining.timeout_ms,
            brought.version,
            joining.link,
            joining.broker_name,
            joining.ha_address,
        )
        self._liveness.file(place, live)
        if brought.filter_servers:
            self._filters[place] = brought.filter_servers
        else:
            self._filters.pop(place, None)

    def _registered(
        self, joining: Joining, before: Mapping[int, str], addresses: Mapping[int, str]
    ) -> Registered:
        done = Registered(Verdict.REGISTERED)
        if joining.broker_id != MASTER_ID and MASTER_ID in addresses:
            master = addresses[MASTER_ID]
            live = self._liveness.get(Place(joining.cluster, master))
            if live is not None:
                done = done._replace(master_address=master, ha_address=live.ha_address)
        if self.rules.notify_min_broker_id_changed and before and joining.broker_id < min(before):
            others = tuple(address for each, address in addresses.items() if each != joining.broker_id)
            notice = MinIdChange(
                joining.broker_name,
                joining.broker_id,
                joining.address,
                others or (joining.address,),
                ha_address=joining.ha_address,
            )
            done = done._replace(notices=(notice,))
        return done

    # --- going

    def unregister(self, leaving: Leaving) -> tuple[MinIdChange, ...]:
        """Take a broker out of all routes at once."""
        place = Place(leaving.cluster, leaving.address)
        self._liveness.drop(place)
        self._filters.pop(place, None)
        broker = self.routes.brokers.get(leaving.broker_name)
        if broker is None:
            return ()
        before = broker.broker_addrs
        addresses = {each: address for each, address in before.items() if address != leaving.address}
        if not addresses:
            self.routes.drop_broker(broker.broker_name)
            return ()
        self.routes.file_broker(msgspec.structs.replace(broker, broker_addrs=addresses), broker.cluster)
        if not broker.enable_acting_master:
            return ()
        if MASTER_ID not in addresses:
            self.wipe_write(broker.broker_name)
        min_id = min(addresses)
        if min_id == min(before) or not self.rules.notify_min_broker_id_changed:
            return ()
        tell = tuple(addresses.values())
        return (MinIdChange(broker.broker_name, min_id, addresses[min_id], tell, leaving.address),)

    def close_link(self, link: Hashable) -> TakenOut:
        """Take out the brokers that registered over a link which is now closed."""
        return self._take_out(self._liveness.of_link(link))

    def expire(self, now_ms: int) -> TakenOut:
        """Take out the brokers that have been silent for too long."""
        return self._take_out(self._liveness.expired(now_ms))

    def _take_out(self, gone: Mapping[Place, Live]) -> TakenOut:
        notices = [
            notice
            for place, live in gone.items()
            for notice in self.unregister(Leaving(place.cluster, live.broker_name, place.address))
        ]
        links = dict.fromkeys(live.link for live in gone.values())
        return TakenOut(tuple(gone), tuple(links), tuple(notices))

    def delete_topic(self, topic: str) -> None:
        """Forget all routes of a topic."""
        for name in self.routes.brokers_of(topic):
            self.routes.drop_queues(topic, name)

    def delete_topic_of_cluster(self, topic: str, cluster: str) -> None:
        """Forget the routes of a topic to one cluster's brokers."""
        for name in self.routes.clusters.get(cluster, ()):
            self.routes.drop_queues(topic, name)

    # --- staying

    def refresh(self, place: Place, now_ms: int) -> None:
        """Note a heartbeat; one of an unknown broker means nothing."""
        self._liveness.refresh(place, now_ms)

    def version_of(self, place: Place) -> DataVersion | None:
        """Return the data version that a broker registered last, None when it is unknown."""
        live = self._liveness.get(place)
        return None if live is None else live.version

    def wipe_write(self, broker_name: str) -> int:
        """Take the write permission from a broker's topics, until its next change; return how many."""
        return self.routes.set_perms(broker_name, lambda perm: perm & ~int(Perm.WRITE))

    def add_write(self, broker_name: str) -> int:
        """Make a broker's topics readable and writable; return how many."""
        return self.routes.set_perms(broker_name, lambda _: READ_WRITE)

    def route(self, topic: str) -> Route | None:
        """Return all that a client must know of a topic, None when nobody serves it."""
        route = self.routes.route(topic, acting_masters=self.rules.support_acting_master)
        if route is None or not self._filters:
            return route
        filters = {
            address: list(self._filters[place])
            for broker in route.brokers
            for address in broker.broker_addrs.values()
            if (place := Place(broker.cluster, address)) in self._filters
        }
        return route._replace(filter_servers=filters)


def _queues(broker_name: str, config: Topic, perm: int) -> QueueData:
    return QueueData(
        broker_name, perm, config.read_queue_nums, config.topic_sys_flag, config.write_queue_nums
    )
