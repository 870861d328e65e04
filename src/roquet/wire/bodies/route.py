"""Bodies in which a name server describes routes, brokers and topics (105, 106, 206, 901 and kin).

Place in the flow: `names.handlers` writes them, brokers and clients read them. Two dialects exist:

    loose      {"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},…     ids are raw numbers: not JSON
    standard   {"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},…   for release 4.9.4 and later

Members stand in Apache's order, absent ones are left out, ids are sorted by number. Literals that a real
5.5.0 sent are in tests/wire/bodies/test_route.py. Knows nothing of who is asking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from roquet.model.route import BrokerData, QueueData, Route
from roquet.wire.bodies import loose_json
from roquet.wire.bodies.registration import LOOSE_BYTES_MAX, BodyError

_encode = msgspec.json.Encoder().encode


class Clusters(msgspec.Struct, frozen=True, rename="camel"):
    """All brokers by name, and the broker names of every cluster (106)."""

    broker_addr_table: dict[str, BrokerData]
    cluster_addr_table: dict[str, list[str]]


def encode_loose(route: Route) -> bytes:
    """Return the route for clients before 4.9.4, the Go client among them."""
    return loose_json.dumps(_members(route))


def encode_standard(route: Route) -> bytes:
    """Return the route for clients that want strict JSON."""
    return loose_json.dumps_standard(_members(route))


def decode(body: bytes) -> Route:
    """Return the route of a body in either dialect; raises BodyError."""
    read = _object(body)
    try:
        return Route(
            tuple(msgspec.convert(read.get("queueDatas") or [], list[QueueData], strict=False)),
            tuple(msgspec.convert(read.get("brokerDatas") or [], list[BrokerData], strict=False)),
            msgspec.convert(read.get("orderTopicConf"), str | None),
            msgspec.convert(read.get("filterServerTable") or {}, dict[str, list[str]]),
        )
    except ValueError as error:
        raise BodyError(f"route: {error}") from None


def encode_clusters(clusters: Clusters) -> bytes:
    """Return the answer to 106: loose for everybody, as Apache has it."""
    return loose_json.dumps(clusters)


def decode_clusters(body: bytes) -> Clusters:
    """Return what 106 answered; raises BodyError."""
    try:
        return msgspec.convert(_object(body), Clusters, strict=False)
    except ValueError as error:
        raise BodyError(f"clusters: {error}") from None


def encode_members(cluster: str, broker_name: str, addresses: Mapping[int, str]) -> bytes:
    """Return the answer to 901: the addresses behind one broker name."""
    group = {"brokerAddrs": addresses, "brokerName": broker_name, "cluster": cluster}
    return loose_json.dumps({"brokerMemberGroup": group})


def decode_members(body: bytes) -> dict[int, str]:
    """Return the addresses behind one broker name, by id (901); raises BodyError."""
    group = _object(body).get("brokerMemberGroup")
    try:
        addresses = group.get("brokerAddrs") if isinstance(group, dict) else None
        return msgspec.convert(addresses or {}, dict[int, str], strict=False)
    except ValueError as error:
        raise BodyError(f"members: {error}") from None


def encode_topics(topics: Iterable[str], broker_address: str = "") -> bytes:
    """Return a list of topic names; with an address it is the answer to 304."""
    listed = {"topicList": list(topics)}
    return _encode({"brokerAddr": broker_address, **listed} if broker_address else listed)


def _members(route: Route) -> dict[str, object]:
    """Return what both dialects write; they leave out what is None and sort ids by number."""
    return {
        "brokerDatas": route.brokers,
        "filterServerTable": route.filter_servers,
        "orderTopicConf": route.order_conf,
        "queueDatas": route.queues,
        "topicQueueMappingByBroker": route.mappings or None,
    }


def _object(body: bytes) -> dict[Any, Any]:
    if len(body) > LOOSE_BYTES_MAX:
        raise BodyError(f"{len(body)} bytes, {LOOSE_BYTES_MAX} are allowed")
    try:
        read = loose_json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BodyError(f"{error}") from None
    if not isinstance(read, dict):
        raise BodyError(f"an object was expected, {type(read).__name__} came")
    return read
