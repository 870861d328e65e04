"""Counters: what is derived from puts and gets, Apache's windows, bounds, and what is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.broker.core import stats as stats_module
from roquet.broker.core.series import Snapshot
from roquet.broker.core.stats import Stats

CLUSTER = "DefaultCluster"
START_MS = 1_700_000_000_000


def make() -> Stats:
    stats = Stats(CLUSTER, START_MS)
    stats.sample(START_MS)
    return stats


def test_one_put_moves_every_counter_that_apache_has_for_it() -> None:
    stats = make()
    stats.put("orders", 2, 3, 600)
    stats.sample(START_MS + 10_000)
    for name, key, snapshot in (
        ("TOPIC_PUT_NUMS", "orders", Snapshot(3, 0.3, 3.0)),
        ("TOPIC_PUT_SIZE", "orders", Snapshot(600, 60.0, 600.0)),
        ("QUEUE_PUT_NUMS", "orders@2", Snapshot(3, 0.3, 3.0)),
        ("QUEUE_PUT_SIZE", "orders@2", Snapshot(600, 60.0, 600.0)),
        ("BROKER_PUT_NUMS", CLUSTER, Snapshot(3, 0.3, 0.0)),
        ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER, Snapshot(3, 0.3, 0.0)),
    ):
        view = stats.view(name, key)
        assert view is not None and view.minute == snapshot, name


def test_one_get_moves_the_counters_of_topic_group_and_queue() -> None:
    stats = make()
    stats.get("orders", 2, "billing", 4, 800)
    stats.get("orders", 3, "billing", 1, 200)
    stats.sample(START_MS + 10_000)
    grouped = stats.view("GROUP_GET_NUMS", "orders@billing")
    queued = stats.view("QUEUE_GET_SIZE", "orders@2@billing")
    assert grouped is not None and grouped.minute == Snapshot(5, 0.5, 2.5)
    assert queued is not None and queued.minute == Snapshot(800, 80.0, 800.0)
    assert stats.get_tps("orders", "billing") == 0.5
    assert stats.get_tps("orders", "nobody") == 0.0


def test_the_brokers_own_topics_are_left_out_of_the_days_totals() -> None:
    stats = make()
    stats.put("orders", 0, 2, 10)
    stats.put("SCHEDULE_TOPIC_XXXX", 0, 5, 10)
    stats.get("orders", 0, "g", 1, 5)
    stats.get("rmq_sys_wheel_timer", 0, "g", 7, 5)
    assert (stats.user_puts(), stats.user_gets()) == (2, 1)
    totals = stats.totals()
    assert (totals.put_messages, totals.put_bytes, totals.get_messages, totals.get_found) == (7, 20, 8, 2)


def test_a_counter_is_there_at_once_with_empty_windows() -> None:
    stats = make()
    assert stats.view("TOPIC_PUT_NUMS", "orders") is None
    stats.put("orders", 0, 1, 1)
    assert stats.view("TOPIC_PUT_NUMS", "orders") == (Snapshot(), Snapshot(), Snapshot())
    assert stats.view("NO_SUCH_STATS", "orders") is None


def test_a_minute_is_seven_points_of_ten_seconds() -> None:
    stats = make()
    for step in range(1, 20):
        stats.put("orders", 0, 1, 100)
        stats.sample(START_MS + step * 10_000)
        view = stats.view("TOPIC_PUT_NUMS", "orders")
        assert view is not None
        assert view.minute == Snapshot(min(step, 6), 0.1, 1.0)


def test_what_was_counted_long_ago_leaves_the_minute_but_not_the_hour() -> None:
    stats = make()
    stats.put("orders", 0, 60, 100)
    for step in range(1, 61):
        stats.sample(START_MS + step * 10_000)
    view = stats.view("TOPIC_PUT_NUMS", "orders")
    assert view is not None
    assert view.minute == Snapshot(0, 0.0, 0.0)
    assert view.hour == Snapshot(60, 0.1, 60.0)
    assert view.day == Snapshot()


def test_the_day_shows_after_the_first_whole_hour() -> None:
    stats = make()
    stats.put("orders", 0, 7_200, 100)
    stats.sample(START_MS + 3_600_000)
    view = stats.view("TOPIC_PUT_NUMS", "orders")
    assert view is not None and view.day == Snapshot(7_200, 2.0, 7_200.0)


def test_sampling_every_second_gives_the_same_windows() -> None:
    often, seldom = make(), make()
    for second in range(1, 61):
        for stats in (often, seldom):
            stats.put("orders", 0, 1, 1)
        often.sample(START_MS + second * 1_000)
        if second % 10 == 0:
            seldom.sample(START_MS + second * 1_000)
    assert often.view("TOPIC_PUT_NUMS", "orders") == seldom.view("TOPIC_PUT_NUMS", "orders")


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    stats = make()
    stats.put("orders", 0, 1, 1)
    stats.sample(START_MS + 10_000)
    stats.put("orders", 0, 1, 1)
    stats.sample(START_MS - 3_600_000)
    view = stats.view("TOPIC_PUT_NUMS", "orders")
    assert view is not None and view.minute.sum == 2 and view.minute.tps == 0.0


def test_other_counters_move_by_name() -> None:
    stats = make()
    stats.add("SNDBCK_PUT_NUMS", "orders@billing", 2)
    stats.sample(START_MS + 10_000)
    view = stats.view("SNDBCK_PUT_NUMS", "orders@billing")
    assert view is not None and view.minute.sum == 2
    with pytest.raises(AssertionError):
        stats.add("NO_SUCH_STATS", "key", 1)


def test_a_deleted_topic_or_group_loses_its_counters_and_no_others() -> None:
    stats = make()
    stats.put("orders", 0, 1, 1)
    stats.put("other", 0, 1, 1)
    stats.get("orders", 0, "billing", 1, 1)
    stats.get("other", 0, "orders", 1, 1)
    stats.forget_topic("orders")
    assert stats.view("TOPIC_PUT_NUMS", "orders") is None
    assert stats.view("QUEUE_GET_NUMS", "orders@0@billing") is None
    assert stats.view("GROUP_GET_NUMS", "other@orders") is not None
    stats.forget_group("orders")
    assert stats.view("GROUP_GET_NUMS", "other@orders") is None
    assert stats.view("TOPIC_PUT_NUMS", "other") is not None
    assert stats.view("BROKER_PUT_NUMS", CLUSTER) is not None


def test_idle_counters_are_dropped_after_a_day() -> None:
    stats = make()
    stats.put("orders", 0, 1, 1)
    stats.sample(START_MS + 10_000)
    for hour in range(1, 28):
        stats.sample(START_MS + hour * 3_600_000)
    assert stats.view("TOPIC_PUT_NUMS", "orders") is None
    assert stats.user_puts() == 1


def test_the_number_of_counters_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "SERIES_MAX", 100)
    monkeypatch.setattr(stats_module, "EVICTED_AT_ONCE", 10)
    stats = make()
    for step in range(50):
        stats.put(f"topic{step}", 0, 1, 1)
        stats.sample(START_MS + (step + 1) * 10_000)
        assert len(stats._series) <= 100
    assert stats.view("TOPIC_PUT_NUMS", "topic49") is not None
    assert stats.view("TOPIC_PUT_NUMS", "topic0") is None


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_the_window_equals_one_that_keeps_every_point(counts: list[int]) -> None:
    """Marks only where a counter moved must show what Apache's full lists show."""
    stats = make()
    points: list[int] = []
    total = 0
    for step, count in enumerate(counts, 1):
        if count:
            stats.put("orders", 0, count, count)
            total += count
        if total:
            points = (points or [0]) + [total]
            del points[:-7]
        stats.sample(START_MS + step * 10_000)
    view = stats.view("TOPIC_PUT_NUMS", "orders")
    if not total:
        assert view is None
        return
    assert view is not None
    grown = points[-1] - points[0]
    assert view.minute.sum == grown
    assert view.minute.tps == pytest.approx(grown / (10 * (len(points) - 1)))
