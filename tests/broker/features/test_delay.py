"""The pure parts of the delay levels: the rewrites, the judgement of what is due, the offsets on disk."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.broker.core.redraft import Stored, reopen
from roquet.broker.features.delay import drafts
from roquet.broker.features.delay.due import Due
from roquet.broker.features.delay.progress import LOG_GROWTH_BYTES_MAX, Progress
from roquet.model.message import Draft, Host, SysFlag, format_properties, parse_properties
from roquet.store.format import record

HOST = Host(b"\x7f\0\0\1", 10911)


def a_draft(properties: dict[str, str], topic: str = "orders", queue_id: int = 3) -> Draft:
    return Draft(topic, queue_id, b"body", format_properties(properties).encode(), 5, 0, 1_000, HOST, 2)


def stored(draft: Draft, queue_offset: int = 7, log_offset: int = 512) -> Stored:
    return reopen(record.encode(draft, queue_offset, log_offset, 2_000, HOST))


def parked(properties: dict[str, str], level: int = 2) -> Stored:
    return stored(drafts.park(a_draft(properties), properties, level).draft)


def test_a_parked_draft_says_where_it_belongs_and_a_level_wins_over_a_time() -> None:
    properties = {"UNIQ_KEY": "U", "TAGS": "A", "DELAY": "99", "TIMER_DELAY_MS": "5", "TIMER_DELIVER_MS": "6"}
    rewritten = drafts.park(a_draft(properties), properties, 2)
    assert (rewritten.draft.topic, rewritten.draft.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    expected = {"UNIQ_KEY": "U", "TAGS": "A", "DELAY": "2", "REAL_TOPIC": "orders", "REAL_QID": "3"}
    assert rewritten.properties == expected
    assert parse_properties(rewritten.draft.properties.decode()) == expected


def test_a_delivery_has_everything_that_was_sent_and_the_properties_that_apache_leaves() -> None:
    waiting = parked({"UNIQ_KEY": "U", "TAGS": "A", "KEYS": "k"})
    draft = drafts.back(waiting, store_v6=False)
    assert (draft.topic, draft.queue_id, draft.body, draft.flag) == ("orders", 3, b"body", 5)
    assert (draft.born_ms, draft.born_host, draft.reconsume_times) == (1_000, HOST, 2)
    assert draft.properties == waiting.draft.properties
    assert draft.tag_code == 65
    assert draft.prepared_log_offset == waiting.log_offset
    assert drafts.back(waiting, store_v6=True).sys_flag == SysFlag.STORE_HOST_V6


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "ord\0\0", "REAL_QID": "1"},
        {"REAL_TOPIC": "../up", "REAL_QID": "1"},
        {"REAL_TOPIC": "orders", "REAL_QID": "-1"},
        {"REAL_TOPIC": "orders", "REAL_QID": "x"},
        {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
        {"REAL_TOPIC": "SCHEDULE_TOPIC_XXXX", "REAL_QID": "0"},
    ],
)
def test_a_parked_record_without_a_usable_target_is_lost(properties: dict[str, str]) -> None:
    with pytest.raises(drafts.Lost):
        drafts.back(stored(a_draft(properties, "SCHEDULE_TOPIC_XXXX", 1)), store_v6=False)


@pytest.mark.parametrize(
    ("text", "level"), [("1", 1), ("18", 18), ("19", 18), ("9" * 30, 18), ("0", 0), ("-5", 0)]
)
def test_levels_beyond_the_last_are_the_last_and_those_below_one_are_none(text: str, level: int) -> None:
    assert drafts.level_of(text, 18) == level


@pytest.mark.parametrize("text", ["", "one", "1.5", "--1", "1_0", "\u0661", "1s"])
def test_what_is_no_number_is_no_level(text: str) -> None:
    with pytest.raises(ValueError):
        drafts.level_of(text, 18)


@pytest.mark.parametrize(
    ("topic", "queue_id", "prepared", "unique_key", "delay", "is_it"),
    [
        ("orders", 3, 512, "U", "2", True),
        ("other", 3, 512, "U", "2", False),
        ("orders", 4, 512, "U", "2", False),
        ("orders", 3, 0, "U", "2", False),
        ("orders", 3, 512, "V", "2", False),
        ("orders", 3, 512, "U", "3", False),
    ],
)
def test_a_delivery_is_known_by_the_parked_record_that_it_names(
    topic: str, queue_id: int, prepared: int, unique_key: str, delay: str, is_it: bool
) -> None:
    waiting = parked({"UNIQ_KEY": "U"})
    properties = {"UNIQ_KEY": unique_key, "DELAY": delay}
    assert drafts.is_delivery_of(waiting, topic, queue_id, prepared, properties) is is_it
    elsewhere = waiting._replace(draft=waiting.draft._replace(topic="orders"))
    assert not drafts.is_delivery_of(elsewhere, topic, queue_id, prepared, properties), (
        "a record of another topic was never parked"
    )


def test_an_entry_is_due_when_the_wall_clock_says_so() -> None:
    due = Due()
    assert due.wait_s(0, 10_000, 5_000, 5_000, 0.0, 1) == 5.0
    assert due.wait_s(0, 10_000, 5_000, 9_999, 4.999, 1) == pytest.approx(0.001)
    assert due.wait_s(0, 10_000, 5_000, 10_000, 5.0, 1) == 0
    assert due.wait_s(0, 10_000, 5_000, 99_000, 0.0, 1) < 0  # the clock was set forward


def test_a_clock_that_was_set_back_costs_one_more_delay_and_never_an_early_delivery() -> None:
    due = Due()
    hour_ms = 3_600_000
    assert due.wait_s(0, 10_000 + hour_ms, 5_000, 5_000, 100.0, 3) == 5.0
    assert due.wait_s(0, 10_000 + hour_ms, 5_000, 9_000, 104.0, 3) == 1.0
    assert due.wait_s(0, 10_000 + hour_ms, 5_000, 10_000, 105.0, 3) == 0
    assert due.wait_s(2, 12_000 + hour_ms, 5_000, 10_000, 105.0, 5) == 0, "seen together with the first"
    assert due.wait_s(3, 13_000 + hour_ms, 5_000, 10_000, 105.0, 5) == 5.0, "seen only now"


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.integers(1, 4_000), st.integers(-8_000, 8_000)), max_size=30),
)
@settings(max_examples=100)
def test_under_any_jumps_an_entry_waits_its_delay_by_one_of_the_clocks(
    delay_ms: int, steps: list[tuple[int, int]]
) -> None:
    """Real time passes in steps, the wall clock jumps between them."""
    due, now_ms, real_ms = Due(), 1_000_000, 0
    due_ms = now_ms + delay_ms
    waited = due.wait_s(0, due_ms, delay_ms, now_ms, 0.0, 1)
    assert waited == delay_ms / 1000
    for passed_ms, jump_ms in steps:
        real_ms += passed_ms
        now_ms += passed_ms + jump_ms
        if due.wait_s(0, due_ms, delay_ms, now_ms, real_ms / 1000, 1) <= 0:
            assert now_ms >= due_ms or real_ms >= delay_ms
            return
    assert now_ms < due_ms


def test_offsets_are_saved_once_their_deliveries_are_on_disk() -> None:
    progress = Progress(200)
    progress.begin(100)
    progress.end()
    progress.move(1, 5, 100, 200, 0)
    progress.move(2, 1, 200, 300, 0)
    progress.begin(300)
    saved = progress.dump(250)
    assert (saved["offsetTable"], saved["logOffset"]) == ({1: 5}, 200)
    progress.saved()
    assert progress.is_changed, "level 2 is not saved yet"
    saved = progress.dump(400)
    assert (saved["offsetTable"], saved["logOffset"]) == ({1: 5, 2: 1}, 300), "one is on its way"
    progress.saved()
    assert not progress.is_changed
    progress.end()
    assert progress.dump(400)["logOffset"] == 400


def test_a_save_is_due_after_a_delivery_or_when_the_log_has_grown_far() -> None:
    progress = Progress(200)
    progress.load({"offsetTable": {}, "logOffset": 1_000})
    assert not progress.is_save_wanted(2_000)
    assert progress.is_save_wanted(1_001 + LOG_GROWTH_BYTES_MAX)
    progress.move(1, 1, 1_500, 1_600, 0)
    assert progress.is_save_wanted(2_000)


def test_the_version_counts_every_200th_step() -> None:
    progress = Progress(200)
    for step in range(1, 401):
        progress.move(1, step, step, step + 1, now_ms=77)
    assert (progress.version.counter, progress.version.timestamp) == (2, 77)


def test_what_was_saved_is_loaded_and_nonsense_in_it_is_not() -> None:
    progress = Progress(200)
    version = {"counter": 3, "stateVersion": 0, "timestamp": 9}
    progress.load({"dataVersion": version, "offsetTable": {1: 4, 2: -7, -3: 1, "4": "2"}})
    assert progress.offsets == {1: 4, 4: 2}
    assert progress.log_offset is None
    assert progress.version.counter == 3
    assert progress.dump(10) == {"dataVersion": version, "logOffset": 10, "offsetTable": {1: 4, 4: 2}}
