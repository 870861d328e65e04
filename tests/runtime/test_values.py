"""Kinds of values: what they accept, what they refuse, and that they write what they read."""

from __future__ import annotations

import pytest

from roquet.runtime.settings import Endpoint, Role
from roquet.runtime.values import (
    Address,
    Choice,
    DelayLevels,
    Endpoints,
    Flag,
    Hours,
    Kind,
    Name,
    Number,
    Path,
)

GOOD: list[tuple[Kind, str, object]] = [
    (Flag(), "true", True),
    (Flag(), "FALSE", False),
    (Number(1, 10), "10", 10),
    (Number(10, 60, "ms", clamp=True), "5", 10),
    (Number(10, 60, "ms", clamp=True), "61", 60),
    (Choice(Role), "SYNC_MASTER", Role.SYNC_MASTER),
    (Name(), "broker-a_1%|", "broker-a_1%|"),
    (Path(), "/var/lib//roquet/", "/var/lib/roquet"),
    (Address(), "10.0.0.7", "10.0.0.7"),
    (Address(), "broker-a.example", "broker-a.example"),
    (Address(), "::1", "::1"),
    (Endpoints(), "a:9876; 10.0.0.1:1 ;", (Endpoint("a", 9876), Endpoint("10.0.0.1", 1))),
    (Endpoints(), "[::1]:9876", (Endpoint("::1", 9876),)),
    (Hours(), "04", (4,)),
    (Hours(), "04;16", (4, 16)),
    (DelayLevels(), "1s 5m 2h 1d", (1_000, 300_000, 7_200_000, 86_400_000)),
]

BAD: list[tuple[Kind, str]] = [
    (Flag(), "yes"),
    (Flag(), "ture"),
    (Number(1, 10), "0"),
    (Number(1, 10), "11"),
    (Number(1, 10), "1_0"),
    (Number(1, 10), "٣"),
    (Number(1, 10), "1.5"),
    (Choice(Role), "MASTER"),
    (Name(), "a.b"),
    (Name(), "../x"),
    (Name(), "x" * 128),
    (Path(), "relative/path"),
    (Path(), "/a,/b"),
    (Path(), "/a\x00b"),
    (Address(), "10.0.0.1:80"),
    (Address(), "a b"),
    (Address(), "-a"),
    (Endpoints(), "a"),
    (Endpoints(), "a:0"),
    (Endpoints(), "a:70000"),
    (Endpoints(), "::1:9876"),
    (Hours(), "24"),
    (Hours(), ";"),
    (DelayLevels(), "1x"),
    (DelayLevels(), " "),
]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_reads_and_writes_back(kind: Kind, text: str, value: object) -> None:
    assert kind.read(text) == value
    assert kind.read(kind.write(value)) == value


@pytest.mark.parametrize(("kind", "text"), BAD)
def test_refuses_and_says_what_is_allowed(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError):
        kind.read(text)
    assert kind.allowed


def test_delays_are_written_as_people_write_them() -> None:
    apache = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert DelayLevels().write(DelayLevels().read(apache)) == apache
