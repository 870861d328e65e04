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
    spread,
    verdict,
)
from bench.servers import Target


def test_every_measure_has_a_label_and_every_goal_a_row() -> None:
    assert set(LABELS) == set(Measure)
    for measure, target in GOALS:
        rows = compare({Target.APACHE: [{measure: 1.0}], target: [{measure: 1.0}]})
        assert [(row.measure, row.target) for row in rows] == [(measure, target)]


def test_a_spread_is_median_lowest_and_highest() -> None:
    found = spread([9.0, 1.0, 2.0])
    assert found == Spread(2.0, 1.0, 9.0)
    assert found.percent == 400.0
    assert spread([0.0]).percent == 0.0


def sends(*rates: float, failed: float = 0.0) -> list[dict[Measure, float]]:
    return [{Measure.SENDS: rate, Measure.FAILURES: failed} for rate in rates]


def test_a_ratio_is_taken_within_its_round() -> None:
    # Twice as fast in each round, though the machine was ten times slower in the second.
    row = compare({Target.APACHE: sends(100.0, 10.0), Target.ROQUET: sends(200.0, 20.0)})[0]
    assert row.ratio == Spread(2.0, 2.0, 2.0)


def test_a_round_that_one_side_lacks_pairs_with_no_other() -> None:
    apache: list[dict[Measure, float]] = [{}, {Measure.CONSUMED: 10.0}, {Measure.CONSUMED: 0.0}]
    ours = [{Measure.CONSUMED: 99.0}, {Measure.CONSUMED: 20.0}, {Measure.CONSUMED: 5.0}]
    (row,) = compare({Target.APACHE: apache, Target.ROQUET: ours})
    assert row.ratio == Spread(2.0, 2.0, 2.0)


def test_a_load_with_failures_counts_for_nobody() -> None:
    apache = [*sends(5.0, failed=23.0), *sends(100.0)]
    rows = compare({Target.APACHE: apache, Target.ROQUET: sends(90.0, 90.0)})
    assert [(row.measure, verdict(row)) for row in rows] == [
        (Measure.SENDS, "missed"),
        (Measure.FAILURES, "reached"),
    ]
    assert rows[0].apache == Spread(100.0, 100.0, 100.0)
    (only,) = compare({Target.APACHE: sends(5.0), Target.ROQUET: sends(90.0, failed=1.0)})
    assert (only.measure, verdict(only)) == (Measure.FAILURES, "missed")


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
    more = {Measure.MEAN: 1.0}
    values = {
        Target.APACHE: [{Measure.P99: 5.0, **more, **found} for found in sends(100.0, 80.0, 120.0)],
        Target.ROQUET: [{**more, **found} for found in sends(90.0, 88.0, 60.0)],
        Target.PURE: [{**more, **found} for found in sends(70.0, 48.0, 90.0)],
    }
    rows = compare(values)
    assert [(row.measure, row.target) for row in rows] == [
        (Measure.SENDS, Target.ROQUET),
        (Measure.SENDS, Target.PURE),
        (Measure.MEAN, Target.ROQUET),
        (Measure.FAILURES, Target.ROQUET),
    ]
    assert rows[0].ratio == Spread(0.9, 0.5, 1.1)
    assert [verdict(row) for row in rows] == ["missed", "reached", "", "reached"]


def test_without_a_number_of_apache_s_there_is_no_verdict() -> None:
    (row,) = compare({Target.APACHE: [{Measure.IDLE_CPU: 0.0}], Target.ROQUET: [{Measure.IDLE_CPU: 0.0}]})
    assert not row.is_comparable
    assert verdict(row) == ""


def test_failures_of_all_brokers_count() -> None:
    values = {Target.APACHE: sends(1.0, 1.0, failed=1.0), Target.PURE: sends(1.0, failed=1.0)}
    assert failures(values) == 3
    assert failures({Target.ROQUET: [{Measure.SENDS: 5.0}]}) == 0
