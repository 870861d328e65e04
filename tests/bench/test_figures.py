"""Medians, ratios by round, and goals."""

import pytest

from bench.figures import (
    GOALS,
    LABELS,
    Bound,
    Goal,
    Measure,
    Spread,
    compare,
    failures,
    ratios,
    spread,
    verdict,
)
from bench.servers import Target


def test_every_measure_has_a_label_and_every_goal_a_row() -> None:
    assert set(LABELS) == set(Measure)
    for measure, target in GOALS:
        rows = compare({Target.APACHE: {measure: [1.0]}, target: {measure: [1.0]}})
        assert [(row.measure, row.target) for row in rows] == [(measure, target)]


def test_a_spread_is_median_lowest_and_highest() -> None:
    found = spread([9.0, 1.0, 2.0])
    assert found == Spread(2.0, 1.0, 9.0)
    assert found.percent == 400.0
    assert spread([0.0]).percent == 0.0


def test_a_ratio_is_taken_within_its_round() -> None:
    # Twice as fast in each round, though the machine was ten times slower in the second.
    assert ratios([200.0, 20.0], [100.0, 10.0]) == [2.0, 2.0]
    assert ratios([1.0, 4.0], [0.0, 2.0]) == [2.0]
    assert ratios([1.0, 2.0, 3.0], [1.0, 1.0]) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("goal", "ratio", "reached"),
    [
        (Goal(Bound.AT_LEAST, 1.0), 1.0, True),
        (Goal(Bound.AT_LEAST, 1.0), 0.99, False),
        (Goal(Bound.AT_MOST, 0.2), 0.2, True),
        (Goal(Bound.AT_MOST, 0.2), 0.21, False),
    ],
)
def test_a_goal_includes_its_bound(goal: Goal, ratio: float, reached: bool) -> None:
    assert goal.is_reached(ratio) is reached


def test_rows_are_what_both_sides_have() -> None:
    values = {
        Target.APACHE: {Measure.SENDS: [100.0, 80.0, 120.0], Measure.MEAN: [1.0], Measure.P99: [5.0]},
        Target.ROQUET: {Measure.SENDS: [90.0, 88.0, 60.0], Measure.MEAN: [3.0]},
        Target.PURE: {Measure.SENDS: [70.0, 48.0, 90.0], Measure.MEAN: [9.0]},
    }
    rows = compare(values)
    assert [(row.measure, row.target) for row in rows] == [
        (Measure.SENDS, Target.ROQUET),
        (Measure.SENDS, Target.PURE),
        (Measure.MEAN, Target.ROQUET),
    ]
    assert rows[0].ratio == Spread(0.9, 0.5, 1.1)
    assert [verdict(row) for row in rows] == ["missed", "reached", ""]


def test_without_a_number_of_apache_s_there_is_no_verdict() -> None:
    (row,) = compare({Target.APACHE: {Measure.IDLE_CPU: [0.0]}, Target.ROQUET: {Measure.IDLE_CPU: [0.0]}})
    assert not row.is_comparable
    assert verdict(row) == ""


def test_failures_of_all_brokers_count() -> None:
    assert (
        failures({Target.APACHE: {Measure.FAILURES: [0.0, 1.0]}, Target.PURE: {Measure.FAILURES: [2.0]}}) == 3
    )
    assert failures({Target.ROQUET: {Measure.SENDS: [5.0]}}) == 0
