"""Groups that read far behind the end of the log are switched off, when that is wanted."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec
import pytest

from roquet.broker.core.lags import Lags
from roquet.client import Plain
from roquet.wire.codes import Code
from roquet.wire.requests.pull import Pull, PullFlag
from tests.broker.stage import BROKER, Stage

BEHIND_MAX = 5_000


async def pull(client: Plain, group: str, at: int) -> int:
    """Pull one message and return the code of the answer."""
    request = Pull(group, "t", 0, at, 1, int(PullFlag.SUBSCRIPTION), 0, 0, 1, "*", "TAG")
    return (await client._dialer.call(BROKER, request, 30)).code


async def fill(client: Plain) -> None:
    for number in range(40):
        await client.send("t", b"%d" % number + bytes(200), queue_id=0)


def test_a_group_far_behind_is_switched_off_and_one_at_the_end_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await fill(client)
        assert [await pull(client, "slow", 0), await pull(client, "quick", 39)] == [0, 0]
        assert await pull(client, "done", 0) == 0
        assert await pull(client, "done", 40) == Code.PULL_NOT_FOUND
        await stage.pass_time(170)
        assert await pull(client, "slow", 1) == 0
        await stage.pass_time(20)
        assert await pull(client, "slow", 2) == Code.NO_PERMISSION
        assert [await pull(client, "quick", 39), await pull(client, "done", 0)] == [0, 0]
        told = [line.getMessage() for line in caplog.records if "switched off" in line.getMessage()]
        assert len(told) == 1 and "group slow reads" in told[0]
        broker = await stage.restart(power_cut=True)
        slow = broker.groups.get("slow")
        assert slow is not None and not slow.consume_enable

    with caplog.at_level(logging.WARNING, "roquet.broker"):
        Stage(disable_slow_groups=True, slow_behind_bytes_max=BEHIND_MAX).play(scenario)


def test_a_group_that_was_switched_on_again_is_judged_by_its_next_reads() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await fill(client)
        await pull(client, "slow", 0)
        await stage.pass_time(200)
        broker = stage.broker
        assert broker is not None
        group = broker.groups.get("slow")
        assert group is not None and not group.consume_enable
        broker.groups.put(msgspec.structs.replace(group, consume_enable=True))
        await stage.pass_time(200)
        assert await pull(client, "slow", 39) == 0
        await stage.pass_time(200)
        assert await pull(client, "slow", 0) == 0
        await stage.pass_time(200)
        assert await pull(client, "slow", 39) == Code.NO_PERMISSION

    Stage(disable_slow_groups=True, slow_behind_bytes_max=BEHIND_MAX).play(scenario)


def test_nobody_is_switched_off_unless_it_is_asked_for() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await fill(client)
        await pull(client, "slow", 0)
        await stage.pass_time(200)
        assert await pull(client, "slow", 0) == 0
        broker = stage.broker
        assert broker is not None
        broker.apply(replace(stage.settings, disable_slow_groups=True), stage.store_settings)
        await pull(client, "slow", 0)
        await stage.pass_time(200)
        assert await pull(client, "slow", 0) == Code.NO_PERMISSION

    Stage(slow_behind_bytes_max=BEHIND_MAX).play(scenario)


def test_lags_name_the_worst_queue_of_each_group_over_the_limit() -> None:
    lags = Lags()
    for group, queue_id, behind in (("a", 0, 5), ("a", 1, 9), ("b", 0, 3), ("a", 1, 8)):
        lags.note(group, "t", queue_id, behind)
    assert lags.over(4) == {"a": 8}
    assert lags.over(2) == {"a": 8, "b": 3}
    lags.forget("a")
    assert lags.over(0) == {"b": 3}
