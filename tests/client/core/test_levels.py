"""Waits as delay levels: always rounded up, never beyond the last."""

from __future__ import annotations

from datetime import timedelta

import pytest

from roquet.client.core.levels import WAITS_S, level_for, level_of_attempt


@pytest.mark.parametrize(
    ("after_s", "level"),
    [
        (0, 1),
        (1, 1),
        (1.001, 2),
        (5, 2),
        (6, 3),
        (10, 3),
        (31, 5),
        (600, 14),
        (601, 15),
        (7200, 18),
        (90_000, 18),
    ],
)
def test_a_wait_is_rounded_up_to_the_next_level(after_s: float, level: int) -> None:
    assert level_for(timedelta(seconds=after_s)) == level
    assert WAITS_S[level - 1] >= min(after_s, WAITS_S[-1])


def test_without_a_wait_the_server_chooses() -> None:
    assert level_for(None) == 0
    assert level_of_attempt(2) == 5
