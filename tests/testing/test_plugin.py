"""The pytest fixture that ships with the package, used as a user's test suite uses it."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

import pytest

from roquet.client.plain import connect
from roquet.testing import ThreadedBroker

pytest_plugins = ["pytester"]
QUEUES = 4


async def send(namesrv: str, **properties: str) -> None:
    async with connect(namesrv) as client:
        await client.send("orders", b"body", properties=properties)


async def count(namesrv: str) -> int:
    async with connect(namesrv) as client:
        return sum([len(await client.read("orders", queue, 0)) for queue in range(QUEUES)])


def test_a_synchronous_test_moves_the_clock(roquet_broker: ThreadedBroker) -> None:
    began = roquet_broker.now()
    asyncio.run(send(roquet_broker.namesrv, DELAY="18"))
    assert asyncio.run(count(roquet_broker.namesrv)) == 0
    roquet_broker.advance(timedelta(hours=2))
    assert asyncio.run(count(roquet_broker.namesrv)) == 1
    assert roquet_broker.now() - began >= timedelta(hours=2)


def test_messages_stay_over_a_restart(roquet_broker: ThreadedBroker) -> None:
    asyncio.run(send(roquet_broker.namesrv))
    roquet_broker.restart()
    assert asyncio.run(count(roquet_broker.namesrv)) == 1


def test_an_outage_can_be_played(roquet_broker: ThreadedBroker) -> None:
    asyncio.run(send(roquet_broker.namesrv))
    roquet_broker.stop()
    with pytest.raises(OSError):
        asyncio.run(count_at(roquet_broker))
    roquet_broker.start()
    assert asyncio.run(count(roquet_broker.namesrv)) == 1


async def count_at(broker: ThreadedBroker) -> None:
    """Connect to the broker itself: the name server is still there, and a route may be."""
    host, port = broker.address.split(":")
    await asyncio.open_connection(host, int(port))


def test_a_users_suite_finds_fixture_and_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio, pytest
        from roquet.client.plain import Answered, connect

        async def send(namesrv):
            async with connect(namesrv) as client:
                await client.send("orders", b"")

        def test_default(roquet_broker):
            asyncio.run(send(roquet_broker.namesrv))

        @pytest.mark.roquet(autoCreateTopicEnable=False)
        def test_settings(roquet_broker):
            with pytest.raises(Answered):
                asyncio.run(send(roquet_broker.namesrv))
        """
    )
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=2)


def test_the_plugin_alone_imports_no_broker(pytester: pytest.Pytester) -> None:
    script = "import sys, roquet.testing.plugin; sys.exit('roquet.broker' in sys.modules)"
    assert pytester.run(sys.executable, "-c", script).ret == 0
