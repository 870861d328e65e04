"""Administration of topics: what is created, refused, listed and deleted, with Apache's codes and words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roquet.model.topic import DataVersion, Topic
from roquet.wire.requests.topics import (
    CleanQueues,
    CleanTopics,
    DeleteExpiredLog,
    DeleteTopic,
    GetAllTopics,
    GetSystemTopics,
    GetTopic,
    QueryGroupsOfTopic,
    UpdateTopic,
    UpdateTopics,
)
from tests.broker.handlers.desk import Desk


def update(topic: str = "orders", **changes: Any) -> UpdateTopic:
    fields: dict[str, Any] = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6}
    return UpdateTopic(topic, **(fields | changes))


def test_a_topic_is_created_and_registered_once() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            assert (await desk.ask(update(attributes="+message.type=FIFO"))).code == 0
            assert desk.topics.table["orders"] == Topic(
                topic_name="orders",
                read_queue_nums=4,
                write_queue_nums=4,
                attributes={"message.type": "FIFO"},
            )
            again = await desk.ask(update(attributes="+message.type=FIFO"))
            assert again.code == 0
            assert desk.changed_topics == ["orders"]
            await desk.ask(update(write_queue_nums=0, perm=4, order=True))
            assert desk.topics.table["orders"].write_queue_nums == 0
            assert desk.topics.table["orders"].attributes == {"message.type": "FIFO"}

        desk.run(scenario())


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (
            update("bad topic!"),
            29,
            "The specified topic: bad topic!, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        (update(" "), 29, "The specified topic is blank."),
        (update("../../etc"), 29, None),
        (update("TBW102"), 29, "The topic[TBW102] is conflict with system topic."),
        (update("DefaultCluster"), 29, "The topic[DefaultCluster] is conflict with system topic."),
        (update("broker-a"), 29, None),
        (update("rmq_sys_mine"), 29, None),
        (update(perm=8), 29, None),
        (update(perm=-1), 29, None),
        (update(read_queue_nums=-1), 29, None),
        (update(write_queue_nums=2_000_000), 29, None),
        (update(topic_filter_type="NONE"), 29, None),
        (update(attributes="+message.tipe=FIFO"), 1, "unsupported key: message.tipe"),
        (update(attributes="+message.type=MIXED"), 29, "MIXED message type is not supported."),
    ],
)
def test_a_topic_that_cannot_be_is_refused(request_: UpdateTopic, code: int, remark: str | None) -> None:
    with Desk() as desk:

        async def scenario() -> None:
            before = dict(desk.topics.table)
            answer = await desk.ask(request_)
            assert answer.code == code
            assert answer.remark if remark is None else answer.remark == remark
            assert desk.topics.table == before

        desk.run(scenario())


def test_a_list_is_taken_whole_or_not_at_all() -> None:
    good = {
        "topicName": "one",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "attributes": {"+message.type": "FIFO"},
    }
    bad = {"topicName": "TBW102"}
    with Desk() as desk:

        async def scenario() -> None:
            refused = await desk.ask(UpdateTopics(), json.dumps({"topicConfigList": [good, bad]}).encode())
            assert refused.code == 29
            assert desk.topics.get("one") is None
            other = good | {"topicName": "two", "attributes": {}}
            body = json.dumps({"topicConfigList": [good, other]}).encode()
            assert (await desk.ask(UpdateTopics(), body)).code == 0
            assert desk.topics.table["one"].attributes == {"message.type": "FIFO"}
            assert desk.changed_topics == ["one", "two"]
            assert (await desk.ask(UpdateTopics())).code == 1
            assert (await desk.ask(UpdateTopics(), b"nonsense")).code == 1

        desk.run(scenario())


def test_all_topics_come_whole_or_by_pages() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            everything = await desk.ask(GetAllTopics())
            body = json.loads(everything.body)
            assert everything.ext == {"totalTopicNum": "15"}
            assert list(body["topicConfigTable"]) == list(desk.topics.table)
            assert body["dataVersion"] == {
                "counter": 0,
                "stateVersion": 0,
                "timestamp": body["dataVersion"]["timestamp"],
            }
            first = await desk.ask(GetAllTopics(0, 3))
            names = sorted(desk.topics.table)
            assert list(json.loads(first.body)["topicConfigTable"]) == names[:3]
            assert first.ext == {"totalTopicNum": "15"}
            version = json.dumps(json.loads(first.body)["dataVersion"])
            second = await desk.ask(GetAllTopics(3, 3, version))
            assert list(json.loads(second.body)["topicConfigTable"]) == names[3:6]
            desk.topics.version = DataVersion(9, 0, 0)
            again = await desk.ask(GetAllTopics(3, 3, version))
            assert list(json.loads(again.body)["topicConfigTable"]) == names[:3]
            beyond = await desk.ask(GetAllTopics(99, None, json.dumps({"counter": 9})))
            assert json.loads(beyond.body)["topicConfigTable"] == {}
            assert (await desk.ask(GetAllTopics(-5, -1, "nonsense"))).code == 0

        desk.run(scenario())


def test_one_topic_is_shown_as_apache_shows_it() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await desk.ask(update("GoldenTopic"))
            shown = await desk.ask(GetTopic("GoldenTopic"))
            assert shown.body == (
                b'{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
                b'"topicName":"GoldenTopic","topicSysFlag":0,"writeQueueNums":4}'
            )
            unknown = await desk.ask(GetTopic("NoSuchTopic"))
            assert (unknown.code, unknown.remark) == (17, "No topic in this broker. topic: NoSuchTopic")

        desk.run(scenario())


def test_deleting_a_topic_takes_all_that_hangs_on_it() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            for name in ("orders", "kept", "%RETRY%g_orders", "%RETRY%g+orders", "%RETRY%g"):
                desk.topics.put(Topic(topic_name=name))
                await desk.append(name, 0, b"x")
                desk.offsets.commit("g", name, 0, 1)
            desk.stats.put("orders", 0, 1, 1)
            assert (await desk.ask(DeleteTopic("orders"))).code == 0
            left = ["%RETRY%g", "kept"]
            assert sorted(set(desk.topics.table) - desk.topics.own_names) == left
            assert desk.store.topics() == left
            assert sorted(desk.offsets.topics_of("g")) == left
            assert desk.stats.view("TOPIC_PUT_NUMS", "orders") is None
            assert desk.disk.list_dir("/store/consumequeue/orders") == []

        desk.run(scenario())


@pytest.mark.parametrize(
    ("topic", "code", "remark"),
    [
        ("TBW102", 29, "The topic[TBW102] is conflict with system topic."),
        (" ", 29, "The specified topic is blank."),
        ("../commitlog", 29, None),
        ("NeverSeen", 0, ""),
    ],
)
def test_deleting_what_is_not_a_users_topic(topic: str, code: int, remark: str | None) -> None:
    with Desk() as desk:

        async def scenario() -> None:
            answer = await desk.ask(DeleteTopic(topic))
            assert answer.code == code
            assert remark is None or answer.remark == remark

        desk.run(scenario())


def test_groups_of_a_topic_are_subscribers_and_those_with_offsets() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            desk.offsets.commit("offline", "orders", 0, 1)
            await desk.member("online", "orders")
            answer = await desk.ask(QueryGroupsOfTopic("orders"))
            assert answer.body == b'{"groupList":["offline","online"]}'

        desk.run(scenario())


def test_the_brokers_own_topics_are_listed() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            listed = json.loads((await desk.ask(GetSystemTopics())).body)["topicList"]
            # As captured from 5.5.0 (tests/golden/frames/305-…), there in hash order.
            assert listed == sorted(
                [
                    "RMQ_SYS_TRANS_HALF_TOPIC", "BenchmarkTest", "TRANS_CHECK_MAX_TIME_TOPIC",
                    "OFFSET_MOVED_EVENT", "TBW102", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
                    "rmq_sys_REVIVE_LOG_DefaultCluster", "SELF_TEST_TOPIC", "DefaultCluster",
                    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC", "DefaultCluster_REPLY_TOPIC",
                    "rmq_sys_wheel_timer", "CHECKPOINT_TOPIC", "rmq_sys_SYNC_BROKER_MEMBER_broker-a",
                    "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", "broker-a",
                ]
            )  # fmt: skip

        desk.run(scenario())


def test_cleaning_removes_only_queues_without_a_topic() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            desk.topics.put(Topic(topic_name="kept"))
            for name in ("kept", "orphan", "SCHEDULE_TOPIC_XXXX"):
                await desk.append(name, 0, b"x")
            assert (await desk.ask(CleanTopics())).code == 0
            assert desk.store.topics() == ["SCHEDULE_TOPIC_XXXX", "kept"]
            assert (await desk.ask(CleanQueues())).code == 0
            assert (await desk.ask(DeleteExpiredLog())).code == 0
            assert desk.store.max_offset("kept", 0) == 1

        desk.run(scenario())
