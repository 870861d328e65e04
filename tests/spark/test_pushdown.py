"""Conditions that readers take over or decline: which, what is said about them, and Hypothesis on ranges."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from roquet.spark import pushdown
from roquet.spark.batch import PUSHED
from roquet.spark.plan import Range, narrowed
from roquet.spark.pushdown import OFFERING_MODULE, decline, take
from tests.spark.shop import queue

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_what_no_plan_can_answer_is_given_back() -> None:
    left: list[Filter] = [
        EqualTo(("body",), b"x"),
        EqualTo(("properties", "a"), "x"),
        EqualTo(("topic",), None),
        StringStartsWith(("topic",), "ord"),
        GreaterThan(("store_time",), AT),
        GreaterThanOrEqual(("store_time",), AT + timedelta(microseconds=1)),
        EqualTo(("queue_offset",), "7"),
    ]
    wanted, back = take(left, PUSHED)
    assert back == left
    assert wanted == pushdown.Conditions()


def test_what_is_taken_and_what_is_declined_is_said(caplog: pytest.LogCaptureFixture) -> None:
    filters: list[Filter] = [
        IsNotNull(("topic",)),
        EqualTo(("topic",), "orders"),
        In(("queue_id",), (0, 1)),
        LessThan(("store_time",), AT),
        EqualTo(("body",), b"x"),
    ]
    words = "topic = 'orders' and queue_id in (0, 1) and store_time < '2026-01-02 03:04:05+00:00'"
    with caplog.at_level(logging.INFO, "roquet.spark"):
        assert take(filters, PUSHED)[1] == filters[-1:]
        assert decline(filters, PUSHED) == filters
        assert decline([IsNotNull(("topic",)), EqualTo(("body",), b"x")], PUSHED)
        assert take([], PUSHED) == (pushdown.Conditions(), [])
    first, second = caplog.messages
    assert first == f"pushed down: {words}"
    assert second.startswith(f"not pushed down: {words}; ")
    assert 'option("pushdown", "true")' in second


def test_the_line_is_shown_where_spark_plans(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In that process nobody has set up logging, and a line of level INFO would be lost."""
    alone = logging.Logger("alone")
    monkeypatch.setattr(pushdown, "log", alone)
    decline([EqualTo(("queue_id",), 1)], PUSHED)
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(__import__("sys").modules, OFFERING_MODULE, pushdown)
    for _ in range(2):
        decline([EqualTo(("queue_id",), 1)], PUSHED)
    assert capsys.readouterr().err.count("INFO alone: not pushed down: queue_id = 1;") == 2


COMPARED: dict[type[Any], Any] = {
    EqualTo: lambda offset, value: offset == value,
    EqualNullSafe: lambda offset, value: offset == value,
    GreaterThan: lambda offset, value: offset > value,
    GreaterThanOrEqual: lambda offset, value: offset >= value,
    LessThan: lambda offset, value: offset < value,
    LessThanOrEqual: lambda offset, value: offset <= value,
}


@given(
    st.lists(st.tuples(st.sampled_from(list(COMPARED)), st.integers(-3, 23)), max_size=4),
    st.integers(0, 10),
    st.integers(0, 20),
)
def test_ranges_of_offsets_are_those_that_meet_the_conditions(
    compared: list[tuple[type[Any], int]], start: int, length: int
) -> None:
    wanted, left = take([kind(("queue_offset",), value) for kind, value in compared], PUSHED)
    assert left == []
    found = narrowed([Range(queue("orders"), start, start + length)] if length else [], wanted)
    assert [offset for each in found for offset in range(each.start, each.end)] == [
        offset
        for offset in range(start, start + length)
        if all(COMPARED[kind](offset, value) for kind, value in compared)
    ]


@given(st.lists(st.sets(st.sampled_from("abc")), max_size=3))
def test_conditions_on_a_name_meet_in_what_all_allow(names: list[set[str]]) -> None:
    wanted, _ = take([In(("topic",), tuple(sorted(each))) for each in names], PUSHED)
    ranges = [Range(queue(topic), 0, 1) for topic in "abc"]
    allowed = [topic for topic in "abc" if all(topic in each for each in names)]
    assert [each.queue.topic for each in narrowed(ranges, wanted)] == allowed
