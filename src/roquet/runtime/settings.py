"""What the programs can be told: one frozen dataclass for the name server, one for the broker.

Defaults are Apache's unless a comment says why not. `keys` maps the keys of Java's configuration files
to these fields, `config` reads files, environment and flags into them. What the store can be told is
`roquet.store.settings`. Units are in the names; nothing here reads a file or the environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Endpoint(NamedTuple):
    """A host, by name or address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Role(Enum):
    """What a broker is to its replicas."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@dataclass(frozen=True, slots=True)
class NamesSettings:
    """All settings of a name server."""

    listen_port: int = 9876
    bind_address: str = ""
    """Address to listen on; empty: 127.0.0.1."""
    admin_from_anywhere: bool = False
    """Answer requests that change or reveal things from other hosts too."""
    kv_config_path: str = ""
    """File of the KV table; empty: nothing is kept."""
    config_path: str = ""
    """File that changed settings are written back to; empty: they last until the end of the process."""
    scan_interval_ms: int = 5_000
    """How often silent brokers are looked for."""
    unregister_queue_max: int = 3_000
    """Unregistrations that may wait; more are refused."""
    server_idle_s: int = 120
    """A connection with neither reads nor writes for this time is closed."""
    connections_max: int = 10_000
    """Connections that may be open at the same time; more are closed at once."""
    product_env_name: str = "center"
    cluster_test: bool = False
    order_message_enable: bool = False
    return_order_config_to_broker: bool = True
    support_acting_master: bool = False
    notify_min_broker_id_changed: bool = False
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    need_wait_for_service: bool = False
    """Refuse routes until `wait_for_service_s` after the start, while brokers register."""
    wait_for_service_s: int = 45
    delete_topic_with_registration: bool = False
    """A full registration also removes topics that the broker no longer has."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """All settings of a broker but those of its store."""

    # Who it is and where.
    cluster_name: str = "DefaultCluster"
    broker_name: str = "DEFAULT_BROKER"
    broker_id: int = 0
    role: Role = Role.ASYNC_MASTER
    region_id: str = "DefaultRegion"
    namesrv_addresses: tuple[Endpoint, ...] = ()
    listen_port: int = 10911
    bind_address: str = ""
    """Address to listen on; empty: loopback, and brokerIP1 when that is set (see `addresses`)."""
    broker_ip1: str = ""
    """Address that clients are told to use; empty: found out (see `addresses`)."""
    broker_ip2: str = ""
    """Address that slaves are told to use; empty: the same as clients."""
    ha_listen_port: int = 0
    """Port for slaves; 0: listen_port + 1."""
    config_path: str = ""
    """File that changed settings are written back to; empty: they last until the end of the process."""

    # Connections and requests.
    server_idle_s: int = 120
    """A connection with neither reads nor writes for this time is closed."""
    connections_max: int = 10_000
    """Connections that may be open at the same time; more are closed at once."""
    requests_in_flight_max: int = 10_000
    """Requests that may be under work at the same time; more are answered SYSTEM_BUSY."""
    connect_timeout_ms: int = 3_000
    admin_from_anywhere: bool = False
    """Answer requests that change or reveal things from other hosts too."""
    start_accept_send_ms: int = 0
    """Wall clock time before which sends are refused."""

    # Topics and groups.
    permission: int = 6
    """4 read + 2 write; what is registered and what sends and pulls are checked against."""
    default_topic_queue_nums: int = 8
    auto_create_topic: bool = True
    auto_create_group: bool = True
    cluster_topic: bool = True
    broker_topic: bool = True
    trace_topic: bool = False
    trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    trace_on: bool = True
    reject_transaction: bool = False
    transaction_timeout_ms: int = 6_000
    """A half message is asked about when it has been undecided for this time."""
    transaction_check_interval_ms: int = 30_000
    """How often undecided half messages are looked through."""
    transaction_check_max: int = 15
    """Questions after which a half message is given up."""
    store_reply: bool = True
    mixed_message_type: bool = False
    """Topics may be declared to take messages of every type."""
    message_type_check: bool = True
    """Refuse messages of another type than their topic declares; Apache leaves that to its proxy."""

    recall_message: bool = False
    """Let senders take timed messages back."""
    recall_when_not_writable: bool = True

    # Consumers.
    long_polling: bool = True
    short_polling_ms: int = 1_000
    lite_pull: bool = True
    property_filter: bool = False
    """Allow SQL92 subscriptions."""
    filter_support_retry: bool = False
    filter_data_keep_ms: int = 24 * 3_600_000
    """How long the selector of a group that is gone is remembered."""
    filter_bit_map: bool = False
    """Note of each message which groups' selectors it matches (with `queue_ext_enable`)."""
    bloom_error_percent: int = 20
    bloom_group_count: int = 32
    disable_slow_groups: bool = False
    """Switch groups off that read far behind the end of the log."""
    slow_behind_bytes_max: int = 16 * 1024**3
    notify_group_changes: bool = True
    use_server_side_reset: bool = True
    channel_expired_ms: int = 120_000
    """A client without a heartbeat for this time is forgotten and its connection closed."""
    client_scan_interval_ms: int = 10_000
    lock_live_ms: int = 60_000
    """A queue lock that is not renewed ends after this time."""
    offsets_flush_interval_ms: int = 5_000
    offsets_version_step: int = 500
    """Commits after which the version of the offset table goes up."""
    delay_offsets_flush_interval_ms: int = 10_000
    delay_offsets_version_step: int = 200

    # Registration.
    register_period_ms: int = 30_000
    register_timeout_ms: int = 24_000
    split_registration: bool = False
    """Register topics in pieces of the size that follows, always; very large tables are split anyway."""
    split_registration_size: int = 800

    @property
    def fast_port(self) -> int:
        """Return the port without pull requests that clients may use to send."""
        return self.listen_port - 2

    @property
    def ha_port(self) -> int:
        """Return the port for slaves."""
        return self.ha_listen_port or self.listen_port + 1
