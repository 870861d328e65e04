"""A connection that we opened, against a server that reads and writes much, or nothing at all."""

from __future__ import annotations

import asyncio

import pytest

from roquet.client.cluster.dialed import Dialed
from roquet.client.errors import TimedOut, Unreachable
from roquet.transport.link import STALL_SECONDS_MAX, WRITE_HIGH_BYTES, Call, LinkClosed
from roquet.wire.reply import Reply
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound
from tests.client.cluster.test_cluster import FAR, far, play
from tests.client.ground import CLIENT, Ground

ADDRESS = f"{FAR}:9876"
LARGE = bytes(WRITE_HIGH_BYTES)


def test_two_ends_with_much_to_say_do_not_wait_for_each_other() -> None:
    async def scenario(ground: Ground) -> None:
        server = far(ground, lambda call: call.answer(Reply(header=OffsetFound(1), body=LARGE)))
        await server.start([(FAR, 9876)])
        async with ground.cluster(ADDRESS) as cluster:
            started = ground.clock.monotonic()
            calls = [cluster.ask(ADDRESS, GetMaxOffset("t", 0), LARGE, timeout_s=300) for _ in range(20)]
            answers = await asyncio.gather(*calls)
            assert [len(answer.body) for answer in answers] == [len(LARGE)] * 20
            assert ground.clock.monotonic() - started < STALL_SECONDS_MAX
        await server.close()

    play(scenario)


class Deaf(asyncio.Protocol):
    """Accepts a connection and never reads from it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


def test_who_writes_to_a_peer_that_does_not_read_waits_and_gives_up() -> None:
    async def scenario(ground: Ground) -> None:
        listener = await ground.world.ports(FAR).net.listen(Deaf, FAR, 9876)
        async with ground.cluster(ADDRESS) as cluster:
            request = GetMaxOffset("t", 0)
            first = asyncio.ensure_future(cluster.call(ADDRESS, request, LARGE * 4, timeout_s=30))
            await ground.pass_time(1)
            with pytest.raises(TimedOut, match="did not read what was sent for 0.5 s; nothing was sent"):
                await cluster.call(ADDRESS, request, b"", timeout_s=0.5)
            telling = asyncio.ensure_future(cluster.tell(ADDRESS, request))
            given_up = asyncio.ensure_future(cluster.tell(ADDRESS, request))
            await ground.pass_time(0)
            given_up.cancel()
            with pytest.raises(TimedOut):  # by then the peer counts as dead, and the first call learns of it
                await telling
            with pytest.raises(Unreachable):
                await first
            assert given_up.cancelled()
        listener.close()

    play(scenario)


def test_room_is_made_when_the_peer_reads_on() -> None:
    kept: list[Call] = []

    async def scenario(ground: Ground) -> None:
        server = far(ground, kept.append)
        await server.start([(FAR, 9876)])
        ports = ground.world.ports(CLIENT)
        _, link = await ports.net.connect(lambda: Dialed(ports.clock, kept.append), FAR, 9876, 3)
        assert isinstance(link, Dialed)
        await link.room(1)
        asked = asyncio.ensure_future(link.call(GetMaxOffset("t", 0), 60, LARGE * 8))
        await ground.pass_time(0)
        assert link.is_congested
        await asyncio.gather(link.room(30), link.room(30))
        assert not link.is_congested
        link.abort()
        with pytest.raises(LinkClosed):
            await asked
        with pytest.raises(LinkClosed):
            await link.room(1)
        await server.close()

    play(scenario)
