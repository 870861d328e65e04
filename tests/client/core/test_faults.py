"""The table of penalties."""

from __future__ import annotations

import pytest

from roquet.client.core.faults import Faults


@pytest.mark.parametrize(
    ("latency_s", "penalty_s"),
    [
        (0.05, 0),
        (0.549, 0),
        (0.55, 2),
        (1.79, 2),
        (1.8, 5),
        (3, 6),
        (5, 10),
        (14.9, 10),
        (15, 30),
        (100, 30),
    ],
)
def test_a_slow_answer_is_held_against_a_broker_for_a_while(latency_s: float, penalty_s: float) -> None:
    faults = Faults()
    faults.answered("a", latency_s, 1_000.0)
    assert faults.is_good("a", 1_000.0) == (penalty_s == 0)
    assert faults.is_good("a", 1_000.0 + penalty_s)
    assert not penalty_s or not faults.is_good("a", 999.9 + penalty_s)


def test_a_failure_counts_as_ten_seconds() -> None:
    faults = Faults()
    faults.failed("a", 0.0)
    assert not faults.is_good("a", 9.9)
    assert faults.is_good("a", 10.0)
    assert faults.is_good("b", 0.0)


def test_a_quick_answer_clears_the_name() -> None:
    faults = Faults()
    faults.failed("a", 0.0)
    faults.answered("a", 0.01, 1.0)
    assert faults.is_good("a", 1.0)
