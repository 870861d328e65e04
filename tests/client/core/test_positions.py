"""Where a group begins that has no position yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from roquet.client.core.positions import (
    At,
    Begin,
    End,
    Start,
    begin_at,
    check_start,
    time_ms_of,
    where_to_consume_from,
)
from roquet.client.errors import Misuse

NOW_MS = 1_700_000_000_000
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "topic", "begin"),
    [
        ("latest", "T", End.NEWEST),
        ("latest", "%RETRY%g", End.OLDEST),
        ("earliest", "T", End.OLDEST),
        ("earliest", "%RETRY%g", End.OLDEST),
        (NOON, "T", At(1714564800000)),
        (NOON, "%RETRY%g", End.NEWEST),
        (timedelta(minutes=30), "T", At(NOW_MS - 1_800_000)),
    ],
)
def test_where_a_new_group_begins(start: Start, topic: str, begin: Begin) -> None:
    assert begin_at(start, topic, NOW_MS) == begin


def test_a_time_without_zone_is_local_time() -> None:
    local = datetime(2024, 5, 1, 12)
    assert time_ms_of(local, 0) == int(local.timestamp() * 1000)


@pytest.mark.parametrize("start", ["first", 5, None])
def test_a_start_that_is_none_is_refused(start: object) -> None:
    with pytest.raises(Misuse, match="timedelta"):
        check_start(start)


def test_starts_have_the_protocols_names() -> None:
    names = [where_to_consume_from(start) for start in ("latest", "earliest", NOON)]
    assert names == ["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"]
