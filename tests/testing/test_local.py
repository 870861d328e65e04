"""A broker inside a test: in memory and on sockets, its clock, its settings, its restart."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from roquet.client.plain import Answered, Plain, connect
from roquet.runtime.config import BadSettings
from roquet.testing import LocalBroker, broker, local
from roquet.testing.free_ports import free_port

QUEUES = 4


async def bodies(client: Plain, topic: str) -> list[bytes]:
    return [m.body for queue in range(QUEUES) for m in await client.read(topic, queue, 0)]


@pytest.mark.parametrize("sockets", [False, True])
def test_a_delay_of_two_hours_takes_no_time(sockets: bool) -> None:
    async def scenario() -> None:
        async with broker(sockets=sockets) as mq, connect(mq.namesrv, mq.ports) as client:
            await client.send("orders", b"now")
            await client.send("orders", b"later", properties={"DELAY": "18"})
            await mq.clock.advance(timedelta(hours=1, minutes=59))
            assert await bodies(client, "orders") == [b"now"]
            await mq.clock.advance(timedelta(minutes=1))
            assert sorted(await bodies(client, "orders")) == [b"later", b"now"]

    asyncio.run(scenario())


def test_settings_are_keys_of_broker_conf() -> None:
    async def scenario() -> None:
        async with broker(autoCreateTopicEnable=False) as mq, connect(mq.namesrv, mq.ports) as client:
            with pytest.raises(Answered):
                await client.send("nowhere", b"")
        with pytest.raises(BadSettings, match="autoCreateTopicEnabel"):
            async with broker(autoCreateTopicEnabel=False):
                raise AssertionError("a wrong key must be told")

    asyncio.run(scenario())


@pytest.mark.parametrize("is_real", [False, True])
def test_messages_stay_over_a_restart(is_real: bool, tmp_path: Path) -> None:
    async def scenario(mq: LocalBroker) -> None:
        async with connect(mq.namesrv, mq.ports) as client:
            await client.send("orders", b"kept")
            await mq.stop()
            with pytest.raises((OSError, Answered)):
                await client.send("orders", b"lost")
            await mq.start()
            assert await bodies(client, "orders") == [b"kept"]
            await mq.restart()
            assert await bodies(client, "orders") == [b"kept"]

    async def main() -> None:
        async with broker(store=tmp_path / "store" if is_real else None) as mq:
            await scenario(mq)
        assert (tmp_path / "store" / "commitlog").exists() == is_real

    asyncio.run(main())


def test_two_brokers_in_one_test_know_nothing_of_each_other() -> None:
    async def scenario() -> None:
        async with broker() as one, broker() as other:
            async with connect(one.namesrv, one.ports) as client:
                await client.send("orders", b"one")
            async with connect(other.namesrv, other.ports) as client:
                with pytest.raises(Answered):
                    await client.route("orders")

    asyncio.run(scenario())


def test_nothing_is_left_running() -> None:
    async def scenario() -> None:
        async with broker() as mq, connect(mq.namesrv, mq.ports) as client:
            await client.send("orders", b"")
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_port_that_was_taken_meanwhile_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with broker(sockets=True) as one:
            taken, free = int(one.address.split(":")[1]), free_port((-2, 0, 1))
            draws = iter([free_port(), taken, free_port(), free])
            monkeypatch.setattr(local, "free_port", lambda *_: next(draws))
            async with broker(sockets=True) as other:
                assert other.address == f"127.0.0.1:{free}"

    asyncio.run(scenario())
