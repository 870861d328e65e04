"""Routes in both dialects, byte for byte as a real 5.5.0 name server sent them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.route import BrokerData, QueueData, Route
from roquet.wire.bodies import route
from roquet.wire.bodies.registration import BodyError

BROKER = BrokerData({0: "127.0.0.2:20911"}, "broker-a", "DefaultCluster")
QUEUES = QueueData("broker-a", 6, 4, 0, 4)

LOOSE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.2:20911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
    b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
CLUSTERS = (
    b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.2:20911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
)


def test_old_clients_get_raw_ids() -> None:
    assert route.encode_loose(Route((QUEUES,), (BROKER,))) == LOOSE


def test_new_clients_get_quoted_ids() -> None:
    assert route.encode_standard(Route((QUEUES,), (BROKER,))) == LOOSE.replace(b"{0:", b'{"0":')


def test_ids_are_sorted_by_number_and_nothing_is_escaped() -> None:
    addresses = {10: "j", 2**60: "z", 9: "i", 0: "a"}
    body = route.encode_standard(Route((), (BrokerData(addresses, "brö/k<€", "c"),)))
    members = '"brokerAddrs":{"0":"a","9":"i","10":"j","1152921504606846976":"z"},"brokerName":"brö/k<€"'
    assert members.encode() in body


def test_a_route_without_brokers_keeps_its_empty_members() -> None:
    assert route.encode_loose(Route((), ())) == b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}'


def test_optional_members_come_in_apaches_order() -> None:
    full = Route(
        (QUEUES,),
        (BrokerData({0: "h:1"}, "broker-a", "c", True, "east"),),
        "broker-a:4",
        {"h:1": ["f:1"]},
        {"broker-a": {"bname": "broker-a", "currIdMap": {0: 3}}},
    )
    assert list(json.loads(route.encode_standard(full))) == [
        "brokerDatas",
        "filterServerTable",
        "orderTopicConf",
        "queueDatas",
        "topicQueueMappingByBroker",
    ]
    assert b'"currIdMap":{0:3}' in route.encode_loose(full)
    assert b'"currIdMap":{"0":3}' in route.encode_standard(full)
    assert b'"enableActingMaster":true,"zoneName":"east"}' in route.encode_standard(full)


def test_clusters() -> None:
    clusters = route.Clusters({"broker-a": BROKER}, {"DefaultCluster": ["broker-a"]})
    assert route.encode_clusters(clusters) == CLUSTERS
    assert route.decode_clusters(CLUSTERS) == clusters


def test_members() -> None:
    assert route.encode_members("DefaultCluster", "broker-a", {1: "h:2", 0: "h:1"}) == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster"}}'
    )


def test_topic_lists() -> None:
    assert route.encode_topics(["a", "b"]) == b'{"topicList":["a","b"]}'
    assert route.encode_topics(["c"], "h:1") == b'{"brokerAddr":"h:1","topicList":["c"]}'


names = st.text(min_size=1, max_size=12)
routes = st.builds(
    Route,
    st.lists(
        st.builds(
            QueueData, names, st.integers(0, 7), st.integers(0, 64), st.integers(0, 3), st.integers(0, 64)
        )
    ).map(tuple),
    st.lists(
        st.builds(
            BrokerData,
            st.dictionaries(st.integers(0, 2**62), names),
            names,
            names,
            st.booleans(),
            st.none() | names,
        )
    ).map(tuple),
    st.none() | names,
    st.dictionaries(names, st.lists(names)),
    st.just({}),
)


@given(routes)
def test_both_dialects_read_back_to_the_same_route(value: Route) -> None:
    assert route.decode(route.encode_loose(value)) == value
    assert route.decode(route.encode_standard(value)) == value
    json.loads(route.encode_standard(value))


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"queueDatas":7}', b'{"brokerDatas":[{"brokerAddrs":{"x":"a"}}]}', b"\xff"],
)
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        route.decode(body)
