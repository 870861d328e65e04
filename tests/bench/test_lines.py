"""Lines that set one number beside another: ratios by round, goals on numbers and on ratios."""

import pytest

from bench.figures import Bound
from bench.lines import HEADER, Line, Want, lines_of, verdict

ROUNDS = [{"mine": 100.0, "theirs": 50.0}, {"mine": 10.0, "theirs": 5.0}, {"mine": 30.0}]


def a_line(want: Want | None) -> Line:
    return Line("work, rows/s", "mine", "theirs", "ceiling", want)


@pytest.mark.parametrize(
    ("want", "word"),
    [
        (None, ""),
        (Want(Bound.AT_LEAST, 30), "reached"),
        (Want(Bound.AT_LEAST, 31), "missed"),
        (Want(Bound.AT_MOST, 30), "reached"),
        (Want(Bound.AT_LEAST, 2, "ratio"), "reached"),
        (Want(Bound.AT_LEAST, 2.1, "ratio"), "missed"),
        (Want(Bound.AT_MOST, 1.9, "ratio"), "missed"),
    ],
)
def test_a_goal_is_held_against_the_median(want: Want | None, word: str) -> None:
    assert verdict(a_line(want), ROUNDS) == word


def test_a_ratio_without_the_other_number_is_not_decided() -> None:
    assert verdict(a_line(Want(Bound.AT_LEAST, 2, "ratio")), [{"mine": 1.0}]) == ""


def test_a_row_shows_both_numbers_their_ratio_and_the_goal() -> None:
    found = lines_of([a_line(Want(Bound.AT_LEAST, 2_500_000))], [{"mine": 2e6, "theirs": 4e6}])
    assert found == [
        *HEADER,
        "| work, rows/s | 2,000,000 | ceiling 4,000,000 | 0.500× | ≥ 2,500,000 | missed |",
    ]


def test_what_was_not_measured_has_no_row() -> None:
    assert lines_of([a_line(None)], [{"theirs": 1.0}]) == []
    assert lines_of([a_line(None)], [{"mine": 1.0}])[2:] == ["| work, rows/s | 1.00 |  |  |  |  |"]
