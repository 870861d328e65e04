"""A disk that refuses: what cannot be kept is not acknowledged, and everything goes on when it can again."""

from __future__ import annotations

import errno

import pytest

from roquet.client import Answered, Plain
from roquet.wire.codes import Code
from roquet.wire.requests.topics import UpdateTopic
from tests.broker.stage import BROKER, BROKER_HOST, Stage


def test_a_topic_that_cannot_be_saved_is_not_made() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        disk = stage.world.disk(BROKER_HOST)
        await client.send("before", b"x")
        disk.fail("write", "topics.json", errno.ENOSPC, 1)
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, UpdateTopic("fresh", 4, 4, 6))
        assert refused.value.code == Code.SERVICE_NOT_AVAILABLE
        assert "free space" in refused.value.remark
        assert stage.broker is not None and stage.broker.topics.get("fresh") is None
        await client.ask(BROKER, UpdateTopic("fresh", 4, 4, 6))
        broker = await stage.restart(power_cut=True)
        assert broker.topics.get("fresh") is not None

    Stage().play(scenario)


def test_sends_are_refused_while_the_disk_is_full_and_go_on_by_themselves() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        disk = stage.world.disk(BROKER_HOST)
        await client.send("t", b"first", queue_id=0)
        disk.fail("write", "commitlog", errno.ENOSPC, 1)
        with pytest.raises(Answered) as refused:
            await client.send("t", b"lost", queue_id=0)
        assert refused.value.code == Code.SERVICE_NOT_AVAILABLE
        assert (await client.send("t", b"second", queue_id=0)).queue_offset == 1
        assert [message.body for message in await client.read("t", 0, 0)] == [b"first", b"second"]

    Stage().play(scenario)
