"""Every answer of a name server, through real frames on simulated connections."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.topic import DataVersion, Topic
from roquet.runtime.settings import NamesSettings
from roquet.sim.world import World
from roquet.wire.bodies import registration
from roquet.wire.codes import Code
from roquet.wire.header import Frame
from roquet.wire.requests import names as rows
from roquet.wire.row import TABLE, Header
from tests.names.node import SETTINGS, TOPICS, Asker, serve

Story = Callable[[Asker], Coroutine[Any, Any, None]]


def tell(story: Story, settings: NamesSettings = SETTINGS) -> None:
    """Run a story with an asker on the name server's own host."""
    with World(1) as world:

        async def main() -> None:
            world.start("names", serve(world.ports("names"), settings))
            asker = Asker(world.ports("names"))
            await asker.sleep(0.1)
            await story(asker)
            asker.dialer.close()

        world.run(main())


def told(story: Callable[[Asker], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a story."""

    def test() -> None:
        tell(story)  # type: ignore[arg-type]

    test.__name__ = story.__name__
    return test


def test_every_row_for_a_name_server_is_answered() -> None:
    requests = [row for row in TABLE.values() if "names" in row.to]

    async def story(asker: Asker) -> None:
        for row in requests:
            link = await asker.dialer.link(asker.address)
            answer = await link.call_frame(Frame(row.code), 5.0)
            assert answer.code != Code.REQUEST_CODE_NOT_SUPPORTED, row.name

    tell(story)


@told
async def test_a_registration_gives_a_route(asker: Asker) -> None:
    done = await asker.register()
    assert (done.code, dict(done.ext), done.body) == (0, {}, b"")
    found = await asker.route("t")
    assert found is not None
    assert found.brokers[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert found.queues[0].read_queue_nums == 4


@told
async def test_dialects_go_by_the_release_of_the_client(asker: Asker) -> None:
    await asker.register()
    for version, strict_only, quoted in (
        (317, False, False),
        (399, False, False),
        (401, False, True),
        (317, True, True),
    ):
        body = (await asker.ask(rows.GetRoute("t", strict_only), version=version)).body
        assert (b'{"0":' in body, b"{0:" in body) == (quoted, not quoted)


@told
async def test_an_unknown_topic_is_17_with_apaches_words(asker: Asker) -> None:
    answer = await asker.ask(rows.GetRoute("X"))
    assert answer.code == 17
    assert answer.remark == (
        "No topic route info in name server for the topic: X"
        "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    )


@told
async def test_a_slave_is_told_its_master(asker: Asker) -> None:
    await asker.register()
    done = await asker.register(address="10.0.0.2:10911", broker_id=1)
    assert dict(done.ext) == {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}


@told
async def test_a_wrong_checksum_is_refused(asker: Asker) -> None:
    done = await asker.register(body_crc32=7)
    assert (done.code, done.remark) == (1, "crc32 not match")
    body = registration.encode(registration.Registration(DataVersion(1), TOPICS))
    assert (await asker.register(body_crc32=registration.crc32(body))).code == 0


@told
async def test_one_topic_before_the_first_registration_is_refused(asker: Asker) -> None:
    done = await asker.register(topics={"t": TOPICS["t"]})
    assert (done.code, done.remark.startswith("register broker failed")) == (1, True)


@told
async def test_a_deflated_body_that_says_it_is_not_is_taken(asker: Asker) -> None:
    pieces = (b"{}", 2, b"t 4 4 6 SINGLE_TAG {}", b"u 4 4 6 SINGLE_TAG {}", b"[]", 0)
    laid = b"".join(
        piece.to_bytes(4, "big") if isinstance(piece, int) else len(piece).to_bytes(4, "big") + piece
        for piece in pieces
    )
    request = rows.RegisterBroker("a", "h:1", "c", "h:2", 0)
    assert (await asker.ask(request, zlib.compress(laid, 9))).code == 0
    assert await asker.route("u") is not None


@pytest.mark.parametrize(
    "change",
    [
        {"broker_name": ""},
        {"broker_name": "a/b"},
        {"cluster_name": "x\ny"},
        {"cluster_name": "c" * 128},
        {"broker_addr": "no port"},
        {"broker_addr": "h:0"},
        {"broker_addr": "h:65536"},
        {"broker_addr": "a b:1"},
        {"broker_addr": ""},
        {"ha_server_addr": "nowhere"},
        {"broker_id": -1},
    ],
    ids=repr,
)
def test_bad_names_are_refused(change: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    async def story(asker: Asker) -> None:
        done = await asker.register(**change)  # type: ignore[arg-type]
        assert done.code == 1
        assert done.remark
        assert json.loads((await asker.ask(rows.ListTopics())).body) == {"topicList": []}

    tell(story)
    assert len([record for record in caplog.records if record.name == "roquet.names"]) == 1


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("%RETRY%g", 0),
        ("host.example.org", 0),
        ("rmq_sys_SYNC_BROKER_MEMBER_host.example.org", 0),
        ("a.b_REPLY_TOPIC", 0),
        ("../etc", 1),
        ("x.y", 1),
        ("t" * 128, 1),
        ("t\x00", 1),
    ],
)
def test_topics_must_be_topics_or_named_after_their_broker_or_cluster(topic: str, code: int) -> None:
    async def story(asker: Asker) -> None:
        topics = {**TOPICS, topic: Topic(topic_name=topic)}
        done = await asker.register("host.example.org", topics=topics, cluster_name="a.b")
        assert done.code == code

    tell(story)


@pytest.mark.parametrize("queues", [-1, 65_537, 2**40])
def test_numbers_of_queues_have_bounds(queues: int) -> None:
    async def story(asker: Asker) -> None:
        topics = {**TOPICS, "v": Topic(topic_name="v", read_queue_nums=queues)}
        assert (await asker.register(topics=topics)).code == 1

    tell(story)


@told
async def test_leaving_takes_the_routes_away(asker: Asker) -> None:
    await asker.register()
    answer = await asker.ask(rows.UnregisterBroker("broker-a", "10.0.0.1:10911", "DefaultCluster", 0))
    assert answer.code == 0
    assert await asker.route("t") is None


@told
async def test_versions_are_compared(asker: Asker) -> None:
    request = rows.QueryDataVersion("broker-a", "10.0.0.1:10911", "DefaultCluster", 0)
    answer = await asker.ask(request, b'{"counter":1,"stateVersion":0,"timestamp":0}')
    assert (answer.ext, answer.body) == ({"changed": "true"}, b"")
    await asker.register()
    for counter, changed in ((1, "false"), (2, "true")):
        answer = await asker.ask(request, f'{{"counter":{counter},"stateVersion":0,"timestamp":0}}'.encode())
        assert answer.ext == {"changed": changed}
        assert answer.body == b'{"counter":1,"stateVersion":0,"timestamp":0}'
    assert (await asker.ask(request, b"[")).code == 1


@told
async def test_clusters_are_shown_loosely_to_everybody(asker: Asker) -> None:
    empty = b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    assert (await asker.ask(rows.GetClusters())).body == empty
    await asker.register()
    for _ in range(2):
        assert (await asker.ask(rows.GetClusters())).body == (
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a",'
            b'"cluster":"DefaultCluster","enableActingMaster":false}},'
            b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
        )
    await asker.ask(rows.UnregisterBroker("broker-a", "10.0.0.1:10911", "DefaultCluster", 0))
    assert (await asker.ask(rows.GetClusters())).body == empty


@told
async def test_members_of_a_name(asker: Asker) -> None:
    await asker.register()
    await asker.register(address="10.0.0.2:10911", broker_id=1)
    assert (await asker.ask(rows.GetMembers("DefaultCluster", "broker-a"))).body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},'
        b'"brokerName":"broker-a","cluster":"DefaultCluster"}}'
    )
    assert b'"brokerAddrs":{},' in (await asker.ask(rows.GetMembers("DefaultCluster", "nobody"))).body


@told
async def test_write_permission_comes_and_goes(asker: Asker) -> None:
    await asker.register()
    assert (await asker.ask(rows.WipeWrite("broker-a"))).ext == {"wipeTopicCount": "2"}
    found = await asker.route("t")
    assert found is not None and found.queues[0].perm == 4
    assert (await asker.ask(rows.AddWrite("broker-a"))).ext == {"addTopicCount": "2"}
    found = await asker.route("t")
    assert found is not None and found.queues[0].perm == 6


@told
async def test_single_topics_are_added_and_deleted(asker: Asker) -> None:
    await asker.register()
    queue = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 1, "topicSysFlag": 0, "writeQueueNums": 1}
    body = json.dumps({"queueDatas": [queue]}).encode()
    assert (await asker.ask(rows.RegisterTopic("new"), body)).code == 0
    assert await asker.route("new") is not None
    assert (await asker.ask(rows.RegisterTopic("no/topic"), body)).code == 1
    assert (await asker.ask(rows.RegisterTopic("other"), b"[")).code == 1
    unknown = body.replace(b"broker-a", b"broker-z")
    assert (await asker.ask(rows.RegisterTopic("other"), unknown)).code == 0
    assert await asker.route("other") is None
    assert (await asker.ask(rows.DeleteRoute("new", "DefaultCluster"))).code == 0
    assert (await asker.ask(rows.DeleteRoute("t"))).code == 0
    assert [await asker.route(topic) for topic in ("new", "t")] == [None, None]


@told
async def test_lists_of_topics(asker: Asker) -> None:
    flagged = {f"f{flag}": Topic(topic_name=f"f{flag}", topic_sys_flag=flag) for flag in range(4)}
    await asker.register(topics=flagged)
    lists: list[tuple[Header, set[str]]] = [
        (rows.ListTopics(), set(flagged)),
        (rows.ListTopicsOfCluster("DefaultCluster"), set(flagged)),
        (rows.ListTopicsOfCluster("nowhere"), set()),
        (rows.ListUnitTopics(), {"f1", "f3"}),
        (rows.ListUnitSubTopics(), {"f2", "f3"}),
        (rows.ListUnitSubOnlyTopics(), {"f2"}),
        (rows.ListSystemTopics(), {"DefaultCluster", "broker-a"}),
    ]
    for request, expected in lists:
        assert set(json.loads((await asker.ask(request)).body)["topicList"]) == expected
    assert json.loads((await asker.ask(rows.ListSystemTopics())).body)["brokerAddr"] == "10.0.0.1:10911"


def test_lists_can_be_switched_off() -> None:
    async def story(asker: Asker) -> None:
        await asker.register()
        for request in (rows.ListTopics(), rows.ListTopicsOfCluster("c"), rows.ListUnitTopics()):
            answer = await asker.ask(request)
            assert (answer.code, answer.remark) == (1, "disable")

    tell(story, dataclasses.replace(SETTINGS, enable_all_topic_list=False, enable_topic_list=False))


@told
async def test_values(asker: Asker) -> None:
    absent = await asker.ask(rows.GetValue("ns", "k"))
    assert (absent.code, absent.remark) == (22, "No config item, Namespace: ns Key: k")
    absent = await asker.ask(rows.GetValues("ns"))
    assert (absent.code, absent.remark) == (22, "No config item, Namespace: ns")
    assert (await asker.ask(rows.PutValue("ns", "k", "v"))).code == 0
    assert (await asker.ask(rows.GetValue("ns", "k"))).ext == {"value": "v"}
    assert (await asker.ask(rows.GetValues("ns"))).body == b'{"table":{"k":"v"}}'
    assert (await asker.ask(rows.DeleteValue("ns", "k"))).code == 0
    assert (await asker.ask(rows.GetValue("ns", "k"))).code == 22


def test_order_topics_reach_brokers_and_clients() -> None:
    async def story(asker: Asker) -> None:
        await asker.ask(rows.PutValue("ORDER_TOPIC_CONFIG", "t", "broker-a:4"))
        assert (await asker.register()).body == b'{"table":{"t":"broker-a:4"}}'
        found, other = await asker.route("t"), await asker.route("u")
        assert found is not None and other is not None
        assert (found.order_conf, other.order_conf) == ("broker-a:4", None)

    tell(story, dataclasses.replace(SETTINGS, order_message_enable=True))


@told
async def test_zones_narrow_the_route(asker: Asker) -> None:
    await asker.register("near", "10.0.0.1:1", zone_name="East")
    await asker.register("far", "10.0.0.2:1", zone_name="west")
    await asker.register("lost", "10.0.0.3:1", broker_id=1, zone_name="west")
    for zone, expected in (
        ("east", ["near", "lost"]),
        ("nowhere", ["lost"]),
        ("  ", ["near", "far", "lost"]),
    ):
        body = (await asker.ask(rows.GetRoute("t", False, zone, True))).body
        names = [name for name in ("near", "far", "lost") if f'"brokerName":"{name}"'.encode() in body]
        assert names == expected
        assert (b"{0:" in body or b"{1:" in body) == bool(zone.strip())
    assert b'"far"' in (await asker.ask(rows.GetRoute("t", False, "east", False))).body


def test_routes_may_have_to_wait() -> None:
    async def story(asker: Asker) -> None:
        await asker.register()
        answer = await asker.ask(rows.GetRoute("t"))
        assert (answer.code, answer.remark) == (1, "name server not ready")
        await asker.sleep(45)
        assert await asker.route("t") is not None

    tell(story, dataclasses.replace(SETTINGS, need_wait_for_service=True))


@told
async def test_settings_are_shown_and_a_few_of_them_changed(asker: Asker) -> None:
    shown = (await asker.ask(rows.GetNamesSettings())).body.decode()
    assert "enableTopicList=true\n" in shown
    assert shown.splitlines() == sorted(shown.splitlines())
    assert (await asker.ask(rows.UpdateNamesSettings(), b"enableTopicList=false\n")).code == 0
    assert "enableTopicList=false\n" in (await asker.ask(rows.GetNamesSettings())).body.decode()
    assert (await asker.ask(rows.ListUnitTopics())).code == 1
    assert (await asker.ask(rows.UpdateNamesSettings())).code == 0


def test_changed_settings_are_written_where_the_operator_said() -> None:
    with World(1) as world:
        disk = world.disk("names")
        disk.write_file("/names.conf", b"# ours\nlistenPort=9876\n")

        async def main() -> None:
            settings = dataclasses.replace(SETTINGS, config_path="/names.conf")
            world.start("names", serve(world.ports("names"), settings))
            asker = Asker(world.ports("names"))
            await asker.sleep(0.1)
            change = b"enableTopicList=false\nscanNotActiveBrokerInterval=1000"
            assert (await asker.ask(rows.UpdateNamesSettings(), change)).code == 0
            asker.dialer.close()

        world.run(main())
        assert disk.read_file("/names.conf") == (
            b"# ours\nlistenPort=9876\nenableTopicList=false\nscanNotActiveBrokerInterval=1000\n"
        )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"kvConfigPath=/etc/passwd", 16),
        (b"configStorePath=/etc/cron.d/x", 16),
        (b"configBlackList=", 16),
        (b"rocketmqHome=/x", 16),
        (b"enableTopicList=false\nlistenPort=1", 16),
        (b"adminFromAnywhere=true", 16),
        (b"enableTopicList=perhaps", 16),
        (b"noSuchKey=1", 16),
        (b"\xff=1", 1),
        (b"a=\\u12", 1),
    ],
)
def test_other_changes_are_refused_as_a_whole(body: bytes, code: int) -> None:
    async def story(asker: Asker) -> None:
        before = (await asker.ask(rows.GetNamesSettings())).body
        answer = await asker.ask(rows.UpdateNamesSettings(), body)
        assert (answer.code, bool(answer.remark)) == (code, True)
        assert (await asker.ask(rows.GetNamesSettings())).body == before

    tell(story)


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4), st.binary(max_size=64))
def test_noise_in_a_registration_is_answered(ext: dict[str, str], body: bytes) -> None:
    async def story(asker: Asker) -> None:
        known = rows.RegisterBroker("a", "h:1", "c", "h:2", 0).encode()
        link = await asker.dialer.link(asker.address)
        answer = await link.call_frame(Frame(103, ext=known | ext, body=body), 5.0)
        assert answer.code in (0, 1)

    tell(story)
