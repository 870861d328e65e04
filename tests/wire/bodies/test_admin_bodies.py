"""Administrative bodies, byte for byte as a real 5.5.0 broker sent them (tests/golden/frames)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from roquet.model.group import Group
from roquet.model.route import QueueName
from roquet.model.topic import Topic
from roquet.wire.bodies import admin, loose_json
from roquet.wire.frame import split

FRAMES = Path(__file__).parents[2] / "golden" / "frames"


def golden(stem: str) -> bytes:
    """Return the body of a captured answer."""
    (frame,), _ = split((FRAMES / f"{stem}.res.bin").read_bytes())
    return frame.body


@pytest.mark.parametrize(
    ("stem", "shape"),
    [
        ("21-get_all_topic_config", admin.TopicTable),
        ("21-get_all_topic_config-page", admin.TopicTable),
        ("201-get_all_subscriptiongroup_config", admin.GroupTable),
        ("351-get_topic_config", Topic),
        ("352-get_subscriptiongroup_config", Group),
        ("353-update_and_get_group_forbidden", admin.Forbidden),
        ("203-get_consumer_connection_list", admin.ConsumerConnections),
        ("345-query_subscription_by_consumer", admin.SubscriptionOf),
        ("321-query_consume_queue", admin.QueueWalk),
        ("321-query_consume_queue-no-group", admin.QueueWalk),
        ("315-view_broker_stats_data", admin.StatsLines),
        ("907-get_broker_ha_status", admin.ReplicationStatus),
    ],
)
def test_what_apache_wrote_is_what_we_write(stem: str, shape: type) -> None:
    assert admin.encode(msgspec.json.decode(golden(stem), type=shape)) == golden(stem)


def test_lists_of_bodies_keep_apaches_form() -> None:
    spans = msgspec.json.decode(golden("303-query_consume_time_span"), type=dict[str, list[admin.TimeSpan]])
    assert admin.encode(spans) == golden("303-query_consume_time_span")
    producers = golden("328-get_all_producer_info")
    read = msgspec.json.decode(producers, type=dict[str, dict[str, list[admin.Producer]]])
    assert admin.encode(read) == producers


def test_a_table_by_queue_has_raw_object_keys() -> None:
    captured = golden("202-get_topic_stats_info")
    rows = re.findall(
        rb'"queueId":(\d+),"topic":"GoldenTopic"}:{"lastUpdateTimestamp":(\d+),"maxOffset":(\d+),"minOffset":(\d+)}',
        captured,
    )
    bounds = {
        QueueName("broker-a", int(queue_id), "GoldenTopic"): admin.QueueBounds(
            last_update_timestamp=int(last_ms), max_offset=int(high), min_offset=int(low)
        )
        for queue_id, last_ms, high, low in rows
    }
    tps = float(captured.rpartition(b'"topicPutTps":')[2][:-1])
    assert len(bounds) == 4
    assert admin.encode({"offsetTable": admin.by_queue(bounds), "topicPutTps": tps}) == captured


def test_progress_and_resets_are_tables_by_queue_too() -> None:
    empty = admin.ConsumeStats(consume_tps=0.0, offset_table=admin.by_queue({}))
    assert admin.encode(empty) == golden("208-get_consume_stats-unknown-group")
    moved = {QueueName("broker-a", number, "GoldenTopic"): 0 for number in (0, 2, 1, 3)}
    assert admin.encode_offset_table(moved) == golden("222-invoke_broker_to_reset_offset")
    captured = golden("208-get_consume_stats")
    last_ms = max(int(ms) for ms in re.findall(rb'"lastTimestamp":(\d+)', captured))
    line = admin.Progress(broker_offset=6, consumer_offset=2, last_timestamp=last_ms, pull_offset=6)
    assert admin.encode(line) in captured


def test_a_table_by_number_has_raw_number_keys() -> None:
    assert admin.encode({"correctionOffsets": admin.by_number({0: 2})}) == golden(
        "308-query_correction_offset"
    )


def test_the_offset_table_keeps_apaches_form() -> None:
    body = golden("43-get_all_consumer_offset")
    read = loose_json.loads(body)
    assert isinstance(read, dict)
    assert admin.encode_offsets(read) == body


def test_a_clients_own_table_goes_on_as_it_came() -> None:
    body = golden("223-invoke_broker_to_get_consumer_status")
    table = body[body.index(b":{{") + 1 : body.index(b',"messageQueueTable":{}}') - 1]
    answer = b'{"consumerTable":{},"messageQueueTable":' + table + b"}"
    state = admin.read_client_state(answer)
    client_id = body.removeprefix(b'{"consumerTable":{"').partition(b'"')[0].decode()
    assert admin.encode_client_states({client_id: state}) == body


@pytest.mark.parametrize("body", [b"", b"[]", b'{"messageQueueTable":7}', b"{", b"\xff"])
def test_a_client_that_answers_nonsense_is_told_apart(body: bytes) -> None:
    with pytest.raises(ValueError):
        admin.read_client_state(body)


def test_a_body_is_read_in_javas_dialect_too() -> None:
    strict = b'{"topicConfigList":[{"topicName":"T","readQueueNums":2,"unknown":1}]}'
    assert admin.decode(strict, admin.TopicList).topic_config_list[0].read_queue_nums == 2
    loose = b"{'topicConfigList':[{'topicName':'T','perm':'4'},]}"
    assert admin.decode(loose, admin.TopicList).topic_config_list[0].perm == 4


@pytest.mark.parametrize("body", [b"nonsense", b'{"topicConfigList":[{}]}', b"[" * 100_000, b"\xff\xfe"])
def test_a_body_that_cannot_be_read_says_so(body: bytes) -> None:
    with pytest.raises(ValueError):
        admin.decode(body, admin.TopicList)
