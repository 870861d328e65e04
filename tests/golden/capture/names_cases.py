"""What is asked of Apache's name server: routes, registration, permissions, key-value settings, refusals.

Called by `frames.py` with a connection and an album. State matters (a route needs a registered topic), so
these are steps in order, not a set. Reference: org.apache.rocketmq.namesrv.processor, release 5.5.0.
"""

import json
import zlib
from typing import Any

from tests.golden.capture.album import Album
from tests.golden.capture.raw import BINARY_TYPE, Wire

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
OTHER = {"clusterName": CLUSTER, "brokerName": "broker-b", "brokerAddr": "127.0.0.3:10911", "brokerId": 0}


def ask_names(names: Wire, album: Album, topic: str) -> None:
    """Go through the whole list; `topic` is one that the live broker has registered."""
    _routes(names, album, topic)
    _registration(names, album)
    _lists(names, album)
    _permissions(names, album)
    _settings(names, album)
    _topics(names, album, topic)
    album.keep("unknown", names.ask(9999), "names")


def _routes(names: Wire, album: Album, topic: str) -> None:
    for version in (317, 513):
        taken = names.ask(105, {"topic": topic}, version=version)
        album.keep("get_routeinfo_by_topic", taken, f"version-{version}")
    strict = {"topic": topic, "acceptStandardJsonOnly": True}
    album.keep("get_routeinfo_by_topic", names.ask(105, strict, version=317), "standard-json-only")
    album.keep("get_routeinfo_by_topic", names.ask(105, {"topic": "NoSuchTopic"}), "unknown-topic")
    binary = names.ask(105, {"topic": topic}, kind=BINARY_TYPE)
    album.keep("get_routeinfo_by_topic", binary, "binary-request")


def registration_body(*topics: str) -> bytes:
    """Return the body of a registration with these topics."""
    table = {name: topic_config(name) for name in topics}
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    wrapper: dict[str, Any] = {
        "dataVersion": version,
        "mappingDataVersion": version,
        "topicConfigTable": table,
    }
    wrapper |= {"topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {}}
    return compact({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def topic_config(name: str, queues: int = 4) -> dict[str, Any]:
    """Return a topic's settings as Apache writes them."""
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }


def compact(value: object) -> bytes:
    """Write JSON without white space, as Apache does."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _registration(names: Wire, album: Album) -> None:
    body = registration_body("TopicB1", "TopicB2")
    crc = zlib.crc32(body) & 0x7FFFFFFF
    shared = {"haServerAddr": "127.0.0.3:10912", "enableActingMaster": False, "compressed": False}
    master = {**OTHER, **shared, "bodyCrc32": crc}
    album.keep("register_broker", names.ask(103, master, body), "master")
    album.keep("register_broker", names.ask(103, {**master, "bodyCrc32": crc ^ 1}, body), "wrong-crc")
    slave = {**master, "brokerId": 1, "brokerAddr": "127.0.0.4:10911", "haServerAddr": "127.0.0.4:10912"}
    album.keep("register_broker", names.ask(103, slave, body), "slave")
    stranger = {**master, "brokerName": "broker-c", "brokerAddr": "127.0.0.5:10911", "bodyCrc32": 0}
    album.keep("register_broker", names.ask(103, stranger, registration_body("Alone")), "one-topic-first")

    same = compact({"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000})
    album.keep("query_data_version", names.ask(322, OTHER, same), "same")
    newer = compact({"counter": 2, "stateVersion": 0, "timestamp": 1_700_000_000_001})
    album.keep("query_data_version", names.ask(322, OTHER, newer), "changed")
    album.keep("broker_heartbeat", names.ask(904, OTHER))
    group = {"clusterName": CLUSTER, "brokerName": "broker-b"}
    album.keep("get_broker_member_group", names.ask(901, group))
    album.keep("get_broker_member_group", names.ask(901, {**group, "brokerName": "nobody"}), "unknown")
    both = names.ask(105, {"topic": "TopicB1"})
    album.keep("get_routeinfo_by_topic", both, "master-and-slave")
    album.keep(
        "get_routeinfo_by_topic", names.ask(105, {"topic": "TopicB1"}, version=317), "master-and-slave-317"
    )


def _lists(names: Wire, album: Album) -> None:
    album.keep("get_broker_cluster_info", names.ask(106))
    album.keep("get_all_topic_list_from_nameserver", names.ask(206))
    album.keep("get_topics_by_cluster", names.ask(224, {"cluster": CLUSTER}))
    album.keep("get_topics_by_cluster", names.ask(224, {"cluster": "NoSuchCluster"}), "unknown")
    album.keep("get_system_topic_list_from_ns", names.ask(304))
    album.keep("get_unit_topic_list", names.ask(311))
    album.keep("get_has_unit_sub_topic_list", names.ask(312))
    album.keep("get_has_unit_sub_ununit_topic_list", names.ask(313))


def _permissions(names: Wire, album: Album) -> None:
    album.keep("wipe_write_perm_of_broker", names.ask(205, {"brokerName": "broker-b"}))
    album.keep("get_routeinfo_by_topic", names.ask(105, {"topic": "TopicB1"}), "write-wiped")
    album.keep("add_write_perm_of_broker", names.ask(327, {"brokerName": "broker-b"}))


def _settings(names: Wire, album: Album) -> None:
    key = {"namespace": "ORDER_TOPIC_CONFIG", "key": "TopicB1"}
    album.keep("get_kv_config", names.ask(101, key), "absent")
    album.keep("get_kvlist_by_namespace", names.ask(219, {"namespace": "NoSuchSpace"}), "absent")
    album.keep("put_kv_config", names.ask(100, {**key, "value": "broker-b:4"}))
    album.keep("get_kv_config", names.ask(101, key))
    album.keep("get_kvlist_by_namespace", names.ask(219, {"namespace": "ORDER_TOPIC_CONFIG"}))
    body = registration_body("TopicB1", "TopicB2")
    master = {**OTHER, "haServerAddr": "127.0.0.3:10912", "compressed": False, "bodyCrc32": 0}
    album.keep("register_broker", names.ask(103, master, body), "answer-with-order-config")
    album.keep("delete_kv_config", names.ask(102, key))
    album.keep("get_namesrv_config", names.ask(319))
    album.keep("update_namesrv_config", names.ask(318, None, b"orderMessageEnable=false\n"))
    album.keep("update_namesrv_config", names.ask(318, None, b"kvConfigPath=x\n"), "forbidden")


def _topics(names: Wire, album: Album, topic: str) -> None:
    queue = {"brokerName": BROKER, "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}
    route = compact({"brokerDatas": [], "filterServerTable": {}, "queueDatas": [queue]})
    album.keep("register_topic_in_namesrv", names.ask(217, {"topic": "PlacedByName"}, route))
    album.keep("get_routeinfo_by_topic", names.ask(105, {"topic": "PlacedByName"}), "registered-by-217")
    album.keep("delete_topic_in_namesrv", names.ask(216, {"topic": "PlacedByName"}))
    album.keep(
        "delete_topic_in_namesrv", names.ask(216, {"topic": "TopicB2", "clusterName": CLUSTER}), "cluster"
    )
    album.keep("unregister_broker", names.ask(104, OTHER))
