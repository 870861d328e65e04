"""The kinds of messages that are measured: each has a row, a goal, and a line after the warm-up."""

import pytest

from bench.figures import GOALS, LOAD_MEASURES, Bound, Goal
from bench.kinds import KINDS, Kind
from bench.rounds import FULL, Part
from bench.servers import Target


def test_a_full_run_has_them() -> None:
    assert Part.KINDS in FULL.parts
    assert len({kind.name for kind in KINDS}) == len({kind.measure for kind in KINDS}) == 4


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_shall_be_as_fast_as_apache_s(kind: Kind) -> None:
    assert GOALS[kind.measure, Target.ROQUET] == Goal(Bound.AT_LEAST, 1.0)
    assert kind.measure in LOAD_MEASURES


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_first_line_is_warm_up(kind: Kind) -> None:
    # The first line ends ten seconds after the start; the measured one begins there or later.
    seconds_between_lines = 1 if "-ri" in kind.words else 10
    assert (kind.measured_line - 1) * seconds_between_lines >= 9
