"""Durations, times and pairs as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import typer

from roquet.cli.options import duration, moment, pairs

NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("2d", timedelta(days=2)),
        ("1.5h", timedelta(minutes=90)),
    ],
)
def test_durations(text: str, length: timedelta) -> None:
    assert duration(text) == length


@pytest.mark.parametrize("text", ["", "soon", "5", "5m later", "-5m", "5y"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        duration(text)


def test_times() -> None:
    assert moment("2h", NOW) == NOW - timedelta(hours=2)
    assert moment("1794735670216", NOW) == datetime.fromtimestamp(1794735670.216, UTC)
    assert moment("1794735670", NOW) == datetime.fromtimestamp(1794735670, UTC)
    assert moment("2026-11-15T10:00:00+00:00", NOW) == NOW.replace(hour=10, minute=0)
    local = moment("10:30", NOW)
    assert (local.hour, local.minute, local.second) == (10, 30, 0) and local.tzinfo is not None
    assert moment("2026-11-15T10:00", NOW).tzinfo is not None
    for text in ("25:00", "tomorrow", "2026-13-01"):
        with pytest.raises(typer.BadParameter):
            moment(text, NOW)


def test_pairs() -> None:
    assert pairs(["a=b", "c=", "d=e=f"], "--x") == {"a": "b", "c": "", "d": "e=f"}
    for text in ("a", "=b"):
        with pytest.raises(typer.BadParameter, match="--x"):
            pairs([text], "--x")
