"""Links that we open: one per address, shared, and opened again after a loss."""

from __future__ import annotations

import asyncio

import pytest

from roquet.sim.world import World
from roquet.transport.dialer import CONNECT_SECONDS_MAX, Dialer, parse_address
from roquet.wire.requests.offsets import GetMaxOffset
from tests.transport.ends import PORT, open_server, pause, refuse, simulate

ASK = GetMaxOffset("t", 7)
ADDRESS = f"server:{PORT}"


def dialer(world: World) -> Dialer:
    ports = world.ports("client")
    return Dialer(ports.net, ports.clock, refuse)


def test_one_link_serves_everybody() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        ours = dialer(world)
        answers = await asyncio.gather(*(ours.call(ADDRESS, ASK, timeout_s=3) for _ in range(20)))
        assert [answer.code for answer in answers] == [0] * 20
        assert len(server.links) == 1

    simulate(main)


def test_a_lost_link_is_opened_again() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        ours = dialer(world)
        first = await ours.link(ADDRESS)
        world.net.cut("client", "server")
        await pause(world, 1)
        assert (await ours.call(ADDRESS, ASK, timeout_s=3)).code == 0
        assert await ours.link(ADDRESS) is not first and len(server.links) == 1

    simulate(main)


def test_nobody_listens_and_then_somebody_does() -> None:
    async def main(world: World) -> None:
        world.ports("server")
        ours = dialer(world)
        for failed in await asyncio.gather(*(ours.link(ADDRESS) for _ in range(3)), return_exceptions=True):
            assert isinstance(failed, ConnectionRefusedError)
        await open_server(world)
        assert (await ours.call(ADDRESS, ASK, timeout_s=3)).code == 0

    simulate(main)


def test_a_host_that_does_not_answer_is_given_up() -> None:
    async def main(world: World) -> None:
        await open_server(world)
        ours = dialer(world)
        world.net.partition("client", "server")
        with pytest.raises(TimeoutError, match="no answer"):
            await ours.link(ADDRESS)
        assert world.loop.time() == pytest.approx(CONNECT_SECONDS_MAX, abs=0.1)
        world.net.heal("client", "server")
        assert (await ours.call(ADDRESS, ASK, timeout_s=3)).code == 0

    simulate(main)


def test_one_that_gives_up_leaves_the_opening_to_the_others() -> None:
    async def main(world: World) -> None:
        await open_server(world)
        ours = dialer(world)
        world.net.set_delay("client", "server", 0.5, 0.5)
        hasty, patient = asyncio.create_task(ours.link(ADDRESS)), asyncio.create_task(ours.link(ADDRESS))
        await pause(world, 0.1)
        hasty.cancel()
        assert (await patient).is_open

    simulate(main)


def test_closing_closes_and_ends_what_is_being_opened() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        ours = dialer(world)
        link = await ours.link(ADDRESS)
        world.ports("other")
        world.net.partition("client", "other")
        opening = asyncio.create_task(ours.link("other:1"))
        await pause(world, 0.1)
        ours.close()
        with pytest.raises(ConnectionError):
            await opening
        await pause(world, 1)
        assert not link.is_open and not server.links
        with pytest.raises(ConnectionError):
            await ours.link(ADDRESS)

    simulate(main)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        (" names.example:1 ", ("names.example", 1)),
        ("[::1]:9876", ("::1", 9876)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", ":9876", "host:", "host:0", "host:65536", "host:-1", "host:x"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="host:port") as caught:
        parse_address(text)
    assert repr(text) in str(caught.value)
