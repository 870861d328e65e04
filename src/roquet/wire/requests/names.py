"""What brokers, clients and tools ask of a name server."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, header, named, request


@header
class ValueFound(Header):
    value: str | None = None


@header
class Registered(Header):
    """The master of the sender's name, when the sender is not it."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@header
class Wiped(Header):
    wipe_topic_count: Int32


@header
class Added(Header):
    add_topic_count: Int32


@header
class VersionCompared(Header):
    changed: bool


@request(100, "PUT_KV_CONFIG", to="names", touches=("cluster", "update"), admin=True)
class PutValue(Header):
    """Store a value under a namespace and a key."""

    namespace: str
    key: str
    value: str


@request(101, "GET_KV_CONFIG", to="names", reply=ValueFound, touches=("cluster", "get"))
class GetValue(Header):
    """Read a stored value."""

    namespace: str
    key: str


@request(102, "DELETE_KV_CONFIG", to="names", touches=("cluster", "update"), admin=True)
class DeleteValue(Header):
    """Forget a stored value."""

    namespace: str
    key: str


@request(219, "GET_KVLIST_BY_NAMESPACE", to="names", touches=("cluster", "get"))
class GetValues(Header):
    """Read all values of a namespace."""

    namespace: str


@request(103, "REGISTER_BROKER", to="names", reply=Registered, touches=("cluster", "update"))
class RegisterBroker(Header):
    """Say which topics a broker serves, and that it lives."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = named("bodyCrc32", default=0)
    zone_name: str | None = named("__ZONE_NAME", default=None)


@request(104, "UNREGISTER_BROKER", to="names", touches=("cluster", "update"))
class UnregisterBroker(Header):
    """Take a broker out of the routes at once."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@request(105, "GET_ROUTEINFO_BY_TOPIC", to="names", touches=("topic", "get"))
class GetRoute(Header):
    """Say which brokers serve a topic, with how many queues."""

    topic: str
    accept_standard_json_only: bool = False
    zone_name: str | None = named("__ZONE_NAME", default=None)
    zone_mode: bool = named("__ZONE_MODE", default=False)


@request(106, "GET_BROKER_CLUSTER_INFO", to="names", touches=("cluster", "get"))
class GetClusters(Header):
    """Show all clusters and brokers."""


@request(205, "WIPE_WRITE_PERM_OF_BROKER", to="names", reply=Wiped, touches=("cluster", "update"), admin=True)
class WipeWrite(Header):
    """Send producers away from a broker until it registers a change."""

    broker_name: str


@request(327, "ADD_WRITE_PERM_OF_BROKER", to="names", reply=Added, touches=("cluster", "update"), admin=True)
class AddWrite(Header):
    """Let producers come back to a broker."""

    broker_name: str


@request(206, "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", to="names", touches=("cluster", "get"))
class ListTopics(Header):
    """Name all topics."""


@request(216, "DELETE_TOPIC_IN_NAMESRV", to="names", touches=("topic", "delete"), admin=True)
class DeleteRoute(Header):
    """Forget a topic's routes, of one cluster or all."""

    topic: str
    cluster_name: str | None = None


@request(217, "REGISTER_TOPIC_IN_NAMESRV", to="names", touches=("topic", "create"))
class RegisterTopic(Header):
    """Add a topic's routes; the body has them."""

    topic: str


@request(224, "GET_TOPICS_BY_CLUSTER", to="names", touches=("cluster", "get"))
class ListTopicsOfCluster(Header):
    """Name the topics that a cluster serves."""

    cluster: str


@request(304, "GET_SYSTEM_TOPIC_LIST_FROM_NS", to="names", touches=("cluster", "get"))
class ListSystemTopics(Header):
    """Name the clusters and brokers, which are topics too."""


@request(311, "GET_UNIT_TOPIC_LIST", to="names", touches=("cluster", "get"))
class ListUnitTopics(Header):
    """Name the topics with the unit flag."""


@request(312, "GET_HAS_UNIT_SUB_TOPIC_LIST", to="names", touches=("cluster", "get"))
class ListUnitSubTopics(Header):
    """Name the topics with the unit-subscription flag."""


@request(313, "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", to="names", touches=("cluster", "get"))
class ListUnitSubOnlyTopics(Header):
    """Name the topics with the unit-subscription flag alone."""


@request(318, "UPDATE_NAMESRV_CONFIG", to="names", touches=("cluster", "update"), admin=True)
class UpdateNamesSettings(Header):
    """Change settings of the name server while running; the body is properties text."""


@request(319, "GET_NAMESRV_CONFIG", to="names", touches=("cluster", "get"))
class GetNamesSettings(Header):
    """Show all settings of the name server as properties text."""


@request(322, "QUERY_DATA_VERSION", to="names", reply=VersionCompared, touches=("cluster", "get"))
class QueryDataVersion(Header):
    """Compare a broker's data version with the registered one; counts as a heartbeat."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@request(901, "GET_BROKER_MEMBER_GROUP", to="names", touches=("cluster", "get"))
class GetMembers(Header):
    """Show master and slaves of one broker name."""

    cluster_name: str
    broker_name: str


@request(904, "BROKER_HEARTBEAT", to="names", touches=("cluster", "update"))
class BrokerHeartbeat(Header):
    """Say that a broker lives."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None


@request(905, "NOTIFY_MIN_BROKER_ID_CHANGE", to="broker", touches=("cluster", "update"))
class NotifyMinBrokerId(Header):
    """Tell the brokers of a name that the smallest id among them has changed."""

    min_broker_id: int
    broker_name: str
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
