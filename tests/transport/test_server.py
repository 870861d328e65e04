"""The listening side: idle links, the limit of links, thousands of them, and an orderly end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from roquet.sim.world import World
from roquet.transport import server as server_module
from roquet.transport.link import Call, Link
from roquet.transport.server import IDLE_SECONDS_MAX, Server
from roquet.wire.frame import Frame, join, split
from roquet.wire.reply import Reply
from roquet.wire.requests.offsets import GetMaxOffset
from tests.transport.ends import PORT, dial, dial_raw, echo, open_server, pause, simulate

ASK = GetMaxOffset("t", 0)


def test_an_idle_link_is_closed_after_two_minutes() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        silent, talking = await dial(world), await dial(world)
        for _ in range(int(IDLE_SECONDS_MAX) // 30):
            await talking.call(ASK, timeout_s=3)
            await pause(world, 30)
        assert silent.is_open
        await pause(world, 10)
        assert not silent.is_open and talking.is_open and len(server.links) == 1

    simulate(main)


def test_a_link_that_is_only_written_to_is_not_idle() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        link = await dial(world, serve=lambda call: None)
        [server_side] = server.links
        for _ in range(10):
            await pause(world, IDLE_SECONDS_MAX / 2)
            server_side.send_one_way(ASK)
        assert link.is_open
        await pause(world, IDLE_SECONDS_MAX + 10)
        assert not link.is_open

    simulate(main)


def test_a_late_answer_counts_as_life() -> None:
    kept: list[Call] = []

    async def main(world: World) -> None:
        await open_server(world, kept.append)
        peer = await dial_raw(world)
        peer.send(Frame(30, 1))
        await pause(world, IDLE_SECONDS_MAX - 10)
        kept[0].answer(Reply())
        await pause(world, 30)
        assert not peer.is_lost

    simulate(main)


def test_half_open_links_are_closed_in_time() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        await dial(world)
        world.power_cut("client")
        clock = world.clock("server")
        await clock.sleep_until(clock.monotonic() + IDLE_SECONDS_MAX + 10)
        assert not server.links

    simulate(main)


def test_a_frame_that_never_ends_does_not_keep_a_link_for_ever() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        peer = await dial_raw(world)
        data = join(Frame(30, 1, body=bytes(1000)))
        for byte in data[:20]:
            peer.transport.write(bytes([byte]))
            await pause(world, 30)
        assert not server.links

    simulate(main)


def test_the_link_past_the_limit_is_refused_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main(world: World) -> None:
        server = await open_server(world, links_max=3)
        links = [await dial(world) for _ in range(3)]
        for _ in range(5):
            surplus = await dial_raw(world)
            await pause(world, 0.1)
            assert surplus.is_lost
        assert len(server.links) == 3
        for link in links:
            assert (await link.call(ASK, timeout_s=3)).code == 0
        links[0].close()
        await pause(world, 1)
        assert (await (await dial(world)).call(ASK, timeout_s=3)).code == 0

    with caplog.at_level(logging.WARNING):
        simulate(main)
    assert caplog.text.count("which is the limit") == 1  # one line, however many knock


def test_thousands_of_links() -> None:
    async def main(world: World) -> None:
        server = await open_server(world)
        links = await asyncio.gather(*(dial(world) for _ in range(3_000)))
        answers = await asyncio.gather(*(link.call(GetMaxOffset("t", n), 30) for n, link in enumerate(links)))
        assert [answer.ext["offset"] for answer in answers] == [str(n) for n in range(3_000)]
        assert len(server.links) == 3_000
        world.net.cut("client", "server")
        await pause(world, 1)
        assert not server.links

    simulate(main)


def test_slow_readers_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HELD_BYTES_MAX", 5_000_000)

    async def main(world: World) -> None:
        server = await open_server(world, lambda call: call.answer(Reply(body=bytes(1_000_000))))
        peers = [await dial_raw(world) for _ in range(10)]
        for peer in peers:
            peer.transport.pause_reading()
            peer.send(Frame(30, 1))
        reader = await dial(world)
        await pause(world, server_module.SWEEP_SECONDS + 1)
        assert sum(link.unsent_bytes for link in server.links) <= 5_000_000
        assert 5 <= len(server.links) < 11
        assert len((await reader.call(ASK, timeout_s=3)).body) == 1_000_000

    simulate(main)


def test_unfinished_frames_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HELD_BYTES_MAX", 5_000_000)

    async def main(world: World) -> None:
        server = await open_server(world)
        for _ in range(10):
            peer = await dial_raw(world)
            peer.transport.write(join(Frame(30, 1, body=bytes(1_000_000)))[:-1])
        other = await dial(world)
        await pause(world, server_module.SWEEP_SECONDS + 1)
        assert 4 <= len(server.links) <= 6
        assert (await other.call(ASK, timeout_s=3)).code == 0

    simulate(main)


def test_closing_sends_what_was_written() -> None:
    async def main(world: World) -> None:
        server = await open_server(world, lambda call: call.answer(Reply(body=bytes(300_000))))
        peer = await dial_raw(world)
        peer.send(Frame(30, 1))
        while not peer.received:
            await pause(world, 0.001)
        await server.close()
        await pause(world, 5)
        [answer], _ = split(peer.received)
        assert len(answer.body) == 300_000 and peer.is_lost and not server.links
        with pytest.raises(ConnectionRefusedError):
            await dial(world)

    simulate(main)


def test_an_address_that_is_taken_takes_nothing_with_it() -> None:
    async def main(world: World) -> None:
        await open_server(world)
        ports = world.ports("server")
        second = Server(ports.net, ports.clock, echo)
        with pytest.raises(OSError, match="already listens"):
            await second.start([("0.0.0.0", PORT + 1), ("0.0.0.0", PORT)])
        assert second.addresses == []
        third = Server(ports.net, ports.clock, echo)
        await third.start([("0.0.0.0", PORT + 1), ("127.0.0.1", 0)])
        assert third.addresses[0] == ("0.0.0.0", PORT + 1) and third.addresses[1][1] > 0

    simulate(main)


def test_links_know_their_addresses() -> None:
    seen: list[Link] = []

    async def main(world: World) -> None:
        await open_server(world, lambda call: seen.append(call.link))
        link = await dial(world)
        link.send_one_way(ASK)
        await pause(world, 1)
        [server_side] = seen
        assert server_side.peer == link.local and server_side.local == link.peer
        assert server_side.peer[0] == world.net.add_host("client") and link.peer[1] == PORT

    simulate(main)
