"""What tools read of a broker: answers that a real 5.5.0 sent, answers of 4.9, and nonsense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.model.group import Subscription
from roquet.model.route import QueueName
from roquet.wire.bodies import admin, answers, route, running
from roquet.wire.bodies.registration import BodyError
from roquet.wire.frame import split

FRAMES = Path(__file__).parents[2] / "golden" / "frames"


def golden(stem: str) -> bytes:
    """Return the body of a captured answer."""
    (frame,), _ = split((FRAMES / f"{stem}.res.bin").read_bytes())
    return frame.body


def test_bounds() -> None:
    bounds = answers.decode_bounds(golden("202-get_topic_stats_info"))
    assert [queue.queue_id for queue in bounds.queues] == [0, 1, 2, 3]
    assert {queue.topic for queue in bounds.queues} == {"GoldenTopic"}
    assert bounds.put_tps > 0
    assert all(row.min_offset <= row.max_offset for row in bounds.queues.values())


def test_progress() -> None:
    progress = answers.decode_progress(golden("208-get_consume_stats"))
    first = progress.queues[QueueName("broker-a", 0, "GoldenTopic")]
    assert (first.broker_offset, first.consumer_offset, first.pull_offset) == (6, 2, 6)
    assert progress.consume_tps == 2.4
    assert answers.decode_progress(golden("208-get_consume_stats-unknown-group")).queues == {}


def test_progress_of_4_9_has_no_pull_position() -> None:
    body = (
        b'{"consumeTps":0,"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:'
        b'{"brokerOffset":6,"consumerOffset":2,"lastTimestamp":5}}}'
    )
    (row,) = answers.decode_progress(body).queues.values()
    assert row.pull_offset == 2


def test_progress_of_a_whole_broker() -> None:
    found = answers.decode_broker_progress(golden("317-get_broker_consume_stats"))
    assert found.groups["TOOLS_CONSUMER"].queues == {}
    assert found.groups["golden_group"].queues[QueueName("broker-a", 0, "GoldenTopic")].broker_offset == 6
    assert found.lag > 0


def test_offsets() -> None:
    dump = answers.decode_offsets(golden("43-get_all_consumer_offset"))
    assert dump.committed["JavaTopic", "java_push"] == {0: 1, 1: 2, 2: 2, 3: 4}
    assert dump.pulled["GoldenTopic", "golden_group"] == {0: 6, 3: 0}
    assert answers.by_number(answers.members(golden("45-get_all_delay_offset"))["offsetTable"]) == {
        1: 2,
        3: 1,
    }
    corrected = answers.members(golden("308-query_correction_offset"))["correctionOffsets"]
    assert answers.by_number(corrected) == {0: 2}


def test_resets_come_as_a_table_and_as_a_list() -> None:
    moved = answers.decode_moved(golden("222-invoke_broker_to_reset_offset"))
    assert moved == {QueueName("broker-a", number, "GoldenTopic"): 0 for number in range(4)}
    assert answers.decode_moved(admin.encode_offset_list(moved)) == moved


def test_positions_of_live_clients() -> None:
    ((client_id, found),) = answers.decode_client_positions(
        golden("223-invoke_broker_to_get_consumer_status")
    ).items()
    assert "@" in client_id
    assert found[QueueName("broker-a", 3, "JavaTopic")] == 4
    assert answers.decode_positions(answers.encode_positions(found)) == found


def test_times_by_queue() -> None:
    times = answers.decode_times(golden("303-query_consume_time_span"))
    assert [row.queue.queue_id for row in times] == sorted(row.queue.queue_id for row in times)
    assert any(row.first_ms > 0 for row in times)


def test_names_counts_and_members() -> None:
    assert answers.texts(golden("300-query_topic_consume_by_who"), "groupList") == ["golden_group"]
    assert answers.decode_timer_counts(golden("61-get_timer_metrics"))["GoldenTopic"] == 1
    assert route.decode_members(golden("901-get_broker_member_group")) == {
        0: "127.0.0.3:10911",
        1: "127.0.0.4:10911",
    }


def test_the_running_info_of_a_java_consumer() -> None:
    info = running.decode_running(golden("307-get_consumer_running_info-relayed-to-java"))
    assert info.properties["PROP_CONSUME_TYPE"].startswith("CONSUME_")
    assert info.queues and info.subscriptions
    assert {queue.topic for queue in info.queues} == {"JavaTopic"}
    assert set(info.paces) <= {each.topic for each in info.subscriptions}


def test_running_info_comes_back_as_it_was() -> None:
    info = running.RunningInfo(
        queues={QueueName("a", 1, "T"): running.QueueState(commit_offset=5, locked=True, dropped=True)},
        properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
        paces={"T": running.TopicPace(pull_rt=1.5, consume_failed_msgs=2)},
        subscriptions=(Subscription(topic="T"),),
    )
    assert running.decode_running(running.encode_running(info)) == info


def test_go_spells_dropped_right() -> None:
    body = b'{"mqTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"dropped":true}}}'
    (state,) = running.decode_running(body).queues.values()
    assert state.dropped


def test_a_message_that_was_handed_over() -> None:
    result = running.ConsumedDirectly(consume_result="CR_LATER", spent_time_mills=3)
    assert b"remark" not in running.encode_consumed(result)
    assert running.decode_consumed(running.encode_consumed(result)) == result


READERS: list[Callable[[bytes], object]] = [
    answers.decode_bounds,
    answers.decode_progress,
    answers.decode_broker_progress,
    answers.decode_moved,
    answers.decode_positions,
    answers.decode_client_positions,
    answers.decode_offsets,
    answers.decode_times,
    answers.decode_timer_counts,
    running.decode_running,
    running.decode_consumed,
    route.decode_members,
    lambda body: answers.texts(body, "topicList"),
]

WORDS = [
    *("offsetTable", "messageQueueTable", "consumerTable", "mqTable", "statusTable", "consumeStatsList"),
    *("consumeTimeSpanSet", "timingCount", "brokerMemberGroup", "topicList", "properties", "subscriptionSet"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "7"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*WORDS, "a@b", "1"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("read", READERS)
@given(value=st.dictionaries(st.sampled_from(WORDS), JSON, max_size=4))
@settings(max_examples=40, deadline=None)
def test_nonsense_is_refused_in_words(read: Callable[[bytes], object], value: object) -> None:
    try:
        read(admin.encode(value))
    except BodyError as error:
        assert str(error)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"offsetTable":{1:2}}'[:-1]])
def test_what_is_no_body_at_all_is_refused(read: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(BodyError):
        read(body)
