"""How far groups are, and moving them: bounds, lag, times, resets, copies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roquet.model.group import Group
from roquet.model.topic import Topic
from roquet.wire.bodies import loose_json
from roquet.wire.requests.groups import QueryTopicsOfGroup
from roquet.wire.requests.offsets import (
    CloneOffset,
    GetAllOffsets,
    GetBrokerConsumeStats,
    GetConsumeStats,
    QueryCorrection,
    QueryTimeSpan,
    ResetOffset,
)
from roquet.wire.requests.topics import GetTopicStats
from tests.broker.handlers.desk import ADDRESS, Desk


async def fill(desk: Desk, counts: tuple[int, ...] = (3, 0), topic: str = "orders") -> list[int]:
    """Create a topic with that many messages in each queue, a second apart; returns the store times."""
    desk.topics.put(Topic(topic_name=topic, read_queue_nums=len(counts), write_queue_nums=len(counts)))
    times = []
    for queue_id, count in enumerate(counts):
        for _ in range(count):
            times.append((await desk.append(topic, queue_id, b"body")).store_ms)
            await desk.pass_time(1)
    return times


def by_queue_id(table: Any) -> dict[int, Any]:
    return {int(key["queueId"]): value for key, value in table.items()}


def loads(body: bytes) -> Any:
    return loose_json.loads(body)


def test_bounds_of_queues_look_like_apaches() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            times = await fill(desk)
            answer = await desk.ask(GetTopicStats("orders"))
            assert answer.body == (
                b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:'
                b'{"lastUpdateTimestamp":%d,"maxOffset":3,"minOffset":0},'
                b'{"brokerName":"broker-a","queueId":1,"topic":"orders"}:'
                b'{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0.0}' % times[2]
            )
            unknown = await desk.ask(GetTopicStats("NoSuchTopic"))
            assert (unknown.code, unknown.remark) == (17, "topic[NoSuchTopic] not exist")

        desk.run(scenario())


def test_progress_shows_lag_time_and_what_is_in_flight() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            times = await fill(desk)
            desk.offsets.commit("g", "orders", 0, 2)
            desk.offsets.pull_seen("g", "orders", 0, 3)
            read = loads((await desk.ask(GetConsumeStats("g"))).body)
            assert read["consumeTps"] == 0.0
            assert by_queue_id(read["offsetTable"]) == {
                0: {"brokerOffset": 3, "consumerOffset": 2, "lastTimestamp": times[1], "pullOffset": 3},
                1: {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0, "pullOffset": 0},
            }
            nobody = await desk.ask(GetConsumeStats("ghost"))
            assert nobody.body == b'{"consumeTps":0.0,"offsetTable":{}}'

        desk.run(scenario())


def test_progress_is_filtered_by_what_a_live_group_subscribes() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await fill(desk, (1,))
            await fill(desk, (1,), "left")
            desk.offsets.commit("g", "orders", 0, 1)
            desk.offsets.commit("g", "left", 0, 1)
            await desk.member("g", "orders")

            async def shown(**fields: str) -> set[str]:
                read = loads((await desk.ask(GetConsumeStats("g", **fields))).body)
                return {key["topic"] for key in read["offsetTable"]}

            assert await shown() == {"orders"}
            assert await shown(topic="left") == set()
            assert await shown(topic_list="left;orders;NoSuchTopic;") == {"left", "orders"}

        desk.run(scenario())


def test_the_whole_brokers_progress_sums_lag() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await fill(desk, (3, 2))
            desk.groups.put(Group(group_name="g"))
            desk.offsets.commit("g", "orders", 0, 1)
            desk.offsets.pull_seen("g", "orders", 0, 3)
            read = loads((await desk.ask(GetBrokerConsumeStats(False))).body)
            assert read["brokerAddr"] == ADDRESS
            assert (read["totalDiff"], read["totalInflightDiff"]) == (4, 2)
            groups = {name: stats for each in read["consumeStatsList"] for name, stats in each.items()}
            assert set(groups) == set(desk.groups.table)
            assert groups["TOOLS_CONSUMER"] == []
            assert by_queue_id(groups["g"][0]["offsetTable"])[1]["brokerOffset"] == 2
            ordered = loads((await desk.ask(GetBrokerConsumeStats(True))).body)
            assert {"g": []} in ordered["consumeStatsList"]

        desk.run(scenario())


def test_time_spans_tell_which_time_a_position_stands_for() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            times = await fill(desk)
            desk.offsets.commit("g", "orders", 0, 2)
            asked_ms = desk.clock.now_ms()
            spans = loads((await desk.ask(QueryTimeSpan("orders", "g"))).body)["consumeTimeSpanSet"]
            first, empty = spans
            assert first["minTimeStamp"] == times[0]
            assert first["consumeTimeStamp"] == times[1]
            assert first["maxTimeStamp"] == times[2]
            assert 0 <= first["delayTime"] - (asked_ms - times[2]) < 1_000
            assert first["messageQueue"] == {"brokerName": "broker-a", "queueId": 0, "topic": "orders"}
            assert first["minTimeStampStr"].endswith(f":{times[0] % 1000:03d}")
            assert empty["maxTimeStamp"] == empty["consumeTimeStamp"] == -1
            assert empty["minTimeStampStr"] == "1969-12-31#23:59:59:999"
            assert empty["delayTime"] == 0
            assert (await desk.ask(QueryTimeSpan("NoSuchTopic", "g"))).code == 17

        desk.run(scenario())


def test_correction_compares_groups_and_deletes_nothing() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            desk.offsets.commit("fast", "orders", 0, 9)
            desk.offsets.commit("fast", "orders", 1, 4)
            desk.offsets.commit("slow", "orders", 0, 2)
            both = await desk.ask(QueryCorrection("fast", "orders"))
            assert both.body == b'{"correctionOffsets":{0:2,1:4}}'
            without = await desk.ask(QueryCorrection("slow", "orders", "slow"))
            assert without.body == b'{"correctionOffsets":{0:9223372036854775807,1:4}}'
            assert desk.offsets.query("slow", "orders", 0) == 2

        desk.run(scenario())


def test_the_whole_offset_table_and_the_topics_of_a_group() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            desk.offsets.commit("obsG", "obsT", 0, 2)
            desk.offsets.commit("obsG", "obsT", 3, 1)
            desk.offsets.pull_seen("obsG", "obsT", 0, 5)
            whole = (await desk.ask(GetAllOffsets())).body
            assert whole.endswith(
                b'"groupTopicMap":{"obsG":["obsT"]},"offsetTable":{"obsT@obsG":{0:2,3:1}},'
                b'"pullOffsetTable":{"obsT@obsG":{0:5}}}'
            )
            listed = await desk.ask(QueryTopicsOfGroup("obsG"))
            assert listed.body == b'{"brokerAddr":"%s","topicList":["obsT"]}' % ADDRESS.encode()

        desk.run(scenario())


def reset(**changes: Any) -> ResetOffset:
    fields: dict[str, Any] = {"topic": "orders", "group": "g", "timestamp": 0, "is_force": True}
    return ResetOffset(**(fields | changes))


async def moved(desk: Desk, **fields: Any) -> dict[int, int]:
    """Reset group g and return where each queue is now."""
    answer = await desk.ask(reset(**fields))
    assert answer.code == 0, answer.remark
    return by_queue_id(loads(answer.body)["offsetTable"])


def test_a_reset_by_time_moves_every_queue() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            times = await fill(desk, (3, 2))
            desk.groups.put(Group(group_name="g"))
            assert await moved(desk) == {0: 0, 1: 0}
            assert await moved(desk, timestamp=times[2]) == {0: 2, 1: 0}
            assert await moved(desk, timestamp=-1) == {0: 3, 1: 2}
            assert desk.offsets.query("g", "orders", 1) == 2
            desk.offsets.commit("g", "orders", 0, 1)  # still under way: must not undo the reset
            assert desk.offsets.take_reset("g", "orders", 0) == 3

        desk.run(scenario())


def test_a_reset_of_one_queue_may_name_an_offset() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await fill(desk, (3, 2))
            desk.groups.put(Group(group_name="g"))
            assert await moved(desk, queue_id=0, offset=2) == {0: 2}
            assert await moved(desk, queue_id=1, offset=-1, timestamp=-1) == {1: 2}
            assert desk.offsets.query("g", "orders", 0) == 2

        desk.run(scenario())


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "NoSuchTopic"}, 17, "Topic NoSuchTopic does not exist"),
        ({"group": "ghost"}, 26, "Group ghost does not exist"),
        ({"queue_id": 0, "offset": 4}, 1, "Target offset 4 not in consume queue range [0-3]"),
        ({"queue_id": 0, "offset": -2}, 1, "Target offset -2 not in consume queue range [0-3]"),
        ({"queue_id": 2}, 1, None),
    ],
)
def test_a_reset_that_makes_no_sense_is_refused(
    fields: dict[str, Any], code: int, remark: str | None
) -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await fill(desk, (3, 2))
            desk.groups.put(Group(group_name="g"))
            answer = await desk.ask(reset(**fields))
            assert answer.code == code
            assert answer.remark if remark is None else answer.remark == remark
            assert desk.offsets.committed == {}

        desk.run(scenario())


def test_a_group_gets_the_positions_of_another() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            for topic in ("orders", "left"):
                await fill(desk, (3,), topic)
                desk.offsets.commit("g", topic, 0, 2)
            desk.offsets.commit("g", "gone", 0, 7)
            await desk.member("g", "orders")
            assert (await desk.ask(CloneOffset("g", "copy"))).code == 0
            assert desk.offsets.topics_of("copy") == ["orders"]
            assert (await desk.ask(CloneOffset("g", "copy", "left", True))).code == 0
            assert desk.offsets.query("copy", "left", 0) == 2
            assert (await desk.ask(CloneOffset("g", "bad group!"))).code == 29
            assert json.dumps(desk.offsets.committed).count("bad") == 0

        desk.run(scenario())
