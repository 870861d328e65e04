"""The old way to move a group: its members are told, move by themselves and commit."""

from __future__ import annotations

from typing import Any

import pytest

from roquet.client import Answered, Plain
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call
from roquet.wire.bodies import loose_json
from roquet.wire.codes import Code
from roquet.wire.requests.client import Heartbeat, ResetClientOffset
from roquet.wire.requests.offsets import ResetOffset, UpdateOffset
from tests.broker.stage import BROKER, Stage
from tests.broker.test_broker import heartbeat

OLD_WAY: dict[str, Any] = {"use_server_side_reset": False}


def reset(**changes: Any) -> ResetOffset:
    fields: dict[str, Any] = {"topic": "t", "group": "g", "timestamp": -1, "is_force": True}
    return ResetOffset(**(fields | changes))


async def fill(client: Plain) -> None:
    """Three messages in each of four queues; the group has consumed two of each."""
    for number in range(12):
        await client.send("t", b"%d" % number, queue_id=number % 4)
    await client.ask(BROKER, Heartbeat(), heartbeat("g", "t"))
    for queue_id in range(4):
        await client.ask(BROKER, UpdateOffset("g", "t", queue_id, 2))


def offsets_in(body: bytes) -> set[int]:
    read: Any = loose_json.loads(body)
    return set(read["offsetTable"].values())


def test_every_member_is_told_where_to_go_on() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await fill(client)
        told: list[Call] = []
        members = []
        for number in (5, 6):
            ports = stage.world.ports(f"127.0.0.{number}")
            members.append(Dialer(ports.net, ports.clock, told.append))
            await members[-1].call(BROKER, Heartbeat(), 10, heartbeat("g", "t", client_id=f"c{number}"))
        try:
            answer = await client.ask(BROKER, reset())
            assert offsets_in(answer.body) == {3}
            await stage.pass_time(1)
            orders = [call for call in told if call.frame.code == 220]
            assert len(orders) == 2
            for call in orders:
                order = ResetClientOffset.decode(call.frame.ext)
                assert (order.topic, order.group, order.timestamp) == ("t", "g", -1)
                assert offsets_in(call.frame.body) == {3}
            assert stage.broker is not None
            assert stage.broker.offsets.query("g", "t", 0) == 2, "the members commit by themselves"
            assert stage.broker.offsets.take_reset("g", "t", 0) is None
            assert offsets_in((await client.ask(BROKER, reset(timestamp=0))).body) == {0}
            assert offsets_in((await client.ask(BROKER, reset(is_force=False))).body) == {2}, "not forward"
        finally:
            for member in members:
                member.close()

    Stage(**OLD_WAY).play(scenario)


def test_what_cannot_be_moved_is_refused() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await fill(client)
        cases = [
            (reset(topic="none"), Code.TOPIC_NOT_EXIST),
            (reset(group="stranger"), Code.SYSTEM_ERROR),
        ]
        for request, code in cases:
            with pytest.raises(Answered) as refused:
                await client.ask(BROKER, request)
            assert refused.value.code == code
        assert stage.broker is not None
        for queue_id in range(4):
            stage.broker.offsets.commit("offline", "t", queue_id, 1)
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, reset(group="offline"))
        assert refused.value.code == Code.CONSUMER_NOT_ONLINE

    Stage(**OLD_WAY).play(scenario)
