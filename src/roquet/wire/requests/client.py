"""Clients and their groups: heartbeats, members, and what the broker asks of a client."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, header, named, request


@header
class HeartbeatSeen(Header):
    """The answer to a heartbeat; clients learn the broker's version from its frame."""

    supports_v2: bool = named("IS_SUPPORT_HEART_BEAT_V2")
    subscription_changed: bool = named("IS_SUB_CHANGE")


@request(34, "HEART_BEAT", to="broker", reply=HeartbeatSeen, touches=("group", "sub"))
class Heartbeat(Header):
    """Say which groups a client belongs to and what they subscribe; the body has it all."""


@request(35, "UNREGISTER_CLIENT", to="broker", touches=("group", "sub"))
class UnregisterClient(Header):
    """Leave groups at once instead of by time-out."""

    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@request(38, "GET_CONSUMER_LIST_BY_GROUP", to="broker", touches=("group", "sub"))
class GetConsumerList(Header):
    """Name the live members of a group, so that each can work out its share of the queues."""

    consumer_group: str


@request(46, "CHECK_CLIENT_CONFIG", to="broker", touches=("group", "sub"))
class CheckClientConfig(Header):
    """Ask whether a subscription would be understood; the body has it."""


@request(400, "QUERY_ASSIGNMENT", to="broker", touches=("group", "sub"))
class QueryAssignment(Header):
    """Let the broker work out a member's share of the queues; the body says for whom."""


@request(40, "NOTIFY_CONSUMER_IDS_CHANGED", to="client")
class NotifyConsumersChanged(Header):
    """Tell a member that its group has changed: it shares out the queues anew."""

    consumer_group: str


@request(220, "RESET_CONSUMER_CLIENT_OFFSET", to="client")
class ResetClientOffset(Header):
    """Tell a member to go on from other offsets; the body has them."""

    topic: str
    group: str
    timestamp: int
    is_force: bool


@request(221, "GET_CONSUMER_STATUS_FROM_CLIENT", to="client")
class GetClientStatus(Header):
    """Ask a member how far it is in each queue."""

    topic: str
    group: str
    client_addr: str | None = None


@request(307, "GET_CONSUMER_RUNNING_INFO", to=("broker", "client"), touches=("group", "get"))
class GetRunningInfo(Header):
    """Ask a member for its whole state; the broker passes question and answer on."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@request(309, "CONSUME_MESSAGE_DIRECTLY", to=("broker", "client"), touches=("group", "sub"), admin=True)
class ConsumeDirectly(Header):
    """Hand one stored message to one member now; the broker passes it on."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


@request(203, "GET_CONSUMER_CONNECTION_LIST", to="broker", touches=("group", "get"))
class GetConsumerConnections(Header):
    """Show the members of a consumer group and what they subscribe."""

    consumer_group: str


@request(204, "GET_PRODUCER_CONNECTION_LIST", to="broker", touches=("group", "get"))
class GetProducerConnections(Header):
    """Show the live producers of a group."""

    producer_group: str


@request(328, "GET_ALL_PRODUCER_INFO", to="broker", touches=("cluster", "get"))
class GetAllProducers(Header):
    """Show the live producers of every group."""
