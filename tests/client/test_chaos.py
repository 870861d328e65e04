"""The client behind a network that cuts, stalls, delays and refuses: nothing acknowledged is lost or stuck.

100,000 messages go through a real broker process while the proxy before it misbehaves; two members of one
group consume them. What a producer was told is stored must be consumed at least once, and once the network is
quiet the group has no message left to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import roquet
from roquet.ports import Ports
from roquet.runtime.real import real_ports
from tests.client.proxy import Proxy, RewrittenNet
from tests.peers.roquet import RoquetNode, start_up

MESSAGES = 100_000
BATCH = 50
SENDERS = 48
QUIET_LIMIT_S = 240.0
TOPIC, GROUP = "chaos", "chaos-readers"

pytestmark = pytest.mark.process


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RoquetNode]:
    running = start_up(tmp_path / "store")
    try:
        yield running
        running.stop()
    finally:
        running.kill()


FAULTS_MIN = 5


class Stage:
    """The cluster as a client behind bad lines sees it."""

    def __init__(self, node: RoquetNode, names: Proxy, broker: Proxy, seed: int) -> None:
        self.node = node
        self.lines = (names, broker)
        self.rng = random.Random(seed)
        self.faults = 0

    def ports(self) -> Ports:
        ways = {self.node.namesrv: self.lines[0], self.node.broker: self.lines[1]}
        return real_ports()._replace(net=RewrittenNet(real_ports().net, ways))

    async def misbehave(self) -> None:
        """Do one bad thing after the other, until cancelled; then all is well again."""
        acts = (self._cut, self._cut, self._stall, self._refuse, self._delay)
        try:
            while True:
                await asyncio.sleep(self.rng.uniform(0.05, 0.25))
                await self.rng.choice(acts)()
                self.faults += 1
        finally:
            for line in self.lines:
                line.flow()
                line.is_refusing, line.delay_s = False, 0.0

    async def _cut(self) -> None:
        self.rng.choice(self.lines).cut()

    async def _stall(self) -> None:
        line = self.rng.choice(self.lines)
        line.stall()
        await asyncio.sleep(self.rng.uniform(0.1, 1.0))
        line.flow()

    async def _refuse(self) -> None:
        for line in self.lines:
            line.is_refusing = True
            line.cut()
        await asyncio.sleep(self.rng.uniform(0.1, 0.6))
        for line in self.lines:
            line.is_refusing = False

    async def _delay(self) -> None:
        for line in self.lines:
            line.delay_s = self.rng.uniform(0.001, 0.02)
        await asyncio.sleep(0.5)
        for line in self.lines:
            line.delay_s = 0.0


@contextlib.asynccontextmanager
async def stage_of(node: RoquetNode, seed: int) -> AsyncIterator[Stage]:
    async with Proxy(node.namesrv) as names, Proxy(node.broker) as broker:
        yield Stage(node, names, broker, seed)


async def send_all(producer: roquet.Producer, acknowledged: set[int]) -> None:
    """Send every number once, one by one or in batches; keep those whose receipt came."""
    chunks = iter([range(first, first + BATCH) for first in range(0, MESSAGES, BATCH)])

    async def sender(number: int) -> None:
        for chunk in chunks:
            with contextlib.suppress(roquet.RoquetError):
                if chunk.start // BATCH % 20 == number % 20:
                    for each in chunk:
                        await producer.send(TOPIC, str(each), keys=[str(each)])
                        acknowledged.add(each)
                else:
                    await producer.send_batch(TOPIC, [str(each) for each in chunk])
                    acknowledged.update(chunk)

    await asyncio.gather(*(sender(number) for number in range(SENDERS)))


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + QUIET_LIMIT_S
    while not await condition():
        assert time.monotonic() < deadline, f"{what}: not within {QUIET_LIMIT_S} s"
        await asyncio.sleep(0.05)


def test_nothing_acknowledged_is_lost_and_nothing_is_stuck(node: RoquetNode) -> None:
    acknowledged: set[int] = set()
    consumed: set[int] = set()

    async def note(message: roquet.Message) -> None:
        consumed.add(int(message.body))

    async def scenario(stage: Stage, admin: roquet.Admin) -> None:
        await admin.topics.create(TOPIC, queues=8)

        async def enough_faults() -> bool:
            return stage.faults >= FAULTS_MIN

        def reader() -> roquet.Consumer:
            return roquet.Consumer(
                node.namesrv,
                group=GROUP,
                subscribe=TOPIC,
                start="earliest",
                handler=note,
                ports=stage.ports(),
            )

        async with (
            roquet.Producer(node.namesrv, group="chaos-writers", ports=stage.ports()) as producer,
            reader(),
            reader(),
        ):
            misbehaviour = asyncio.create_task(stage.misbehave())
            await send_all(producer, acknowledged)
            await until(enough_faults, "the network misbehaves")
            misbehaviour.cancel()
            await asyncio.gather(misbehaviour, return_exceptions=True)
            # How much got through depends on how many faults fitted in; in the quiet sending must work.
            assert len(acknowledged) > MESSAGES // 2, "sending hardly worked at all"

            async def last_ones_sent() -> bool:
                last = range(MESSAGES, MESSAGES + BATCH)
                with contextlib.suppress(roquet.RoquetError):
                    await producer.send_batch(TOPIC, [str(each) for each in last])
                    acknowledged.update(last)
                return last.start in acknowledged

            await until(last_ones_sent, "sending in the quiet")

            async def all_consumed() -> bool:
                return acknowledged <= consumed

            async def nothing_waits() -> bool:
                return (await admin.offsets.progress(GROUP, TOPIC)).lag == 0

            await until(all_consumed, f"{len(acknowledged - consumed)} acknowledged messages are missing")
            await until(nothing_waits, "the group's positions reach the end")

    async def main() -> None:
        async with stage_of(node, seed=5) as stage, roquet.Admin(node.namesrv) as admin:
            await scenario(stage, admin)

    asyncio.run(main())
