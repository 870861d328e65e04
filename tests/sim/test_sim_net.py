"""The simulated network: streams, flow control, partitions, cuts and vanished peers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import pytest

from roquet.sim.loop import SimLoop
from roquet.sim.net import Network
from roquet.sim.stream import WINDOW_BYTES
from roquet.sim.trace import Trace


class Recorder(asyncio.Protocol):
    """Keeps everything that happens to it."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.events: list[str] = []
        self.transport: asyncio.Transport
        self.lost_with: list[Exception | None] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_with.append(exc)


class Pair(NamedTuple):
    client: Recorder
    server: Recorder
    network: Network


def simulate(main: Callable[[Network], Coroutine[Any, Any, Any]], seed: int = 1) -> tuple[Any, str]:
    loop = SimLoop()
    trace = Trace(loop.time)
    network = Network(loop, random.Random(seed), trace)
    try:
        return loop.run_until_complete(main(network)), trace.hexdigest()
    finally:
        loop.close()


async def connected(network: Network, host: str = "server") -> Pair:
    served: list[Recorder] = []

    def accept() -> Recorder:
        served.append(Recorder())
        return served[-1]

    await network.door("server").listen(accept, "0.0.0.0", 10911)
    _, client = await network.door("client").connect(Recorder, host, 10911, 3.0)
    assert isinstance(client, Recorder)
    return Pair(client, served[0], network)


def test_data_arrives_whole_and_in_order_though_cut_at_random_places() -> None:
    sent = random.Random(5).randbytes(300_000)

    async def main(network: Network) -> None:
        pair = await connected(network)
        for start in range(0, len(sent), 1000):
            pair.client.transport.write(sent[start : start + 1000])
        await asyncio.sleep(60)
        assert pair.server.data == sent
        assert any(len(chunk) % 1000 for chunk in pair.server.chunks)
        assert any(len(chunk) > 1000 for chunk in pair.server.chunks)

    simulate(main)


def test_addresses_look_like_those_of_sockets() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        at = network.add_host("server")
        assert pair.client.transport.get_extra_info("peername") == (at, 10911)
        client_at = pair.client.transport.get_extra_info("sockname")
        assert client_at == (network.add_host("client"), 40001)
        assert pair.server.transport.get_extra_info("peername") == client_at
        assert pair.server.transport.get_extra_info("socket") is None

    simulate(main)


def test_loopback_is_the_hosts_own() -> None:
    async def main(network: Network) -> None:
        listener = await network.door("server").listen(Recorder, "127.0.0.1", 0)
        port = listener.address[1]
        transport, _ = await network.door("server").connect(Recorder, "localhost", port, 3)
        assert transport.get_extra_info("sockname") == ("127.0.0.1", 40001)
        for name in ("server", "127.0.0.1"):
            with pytest.raises(ConnectionRefusedError):
                await network.door("client").connect(Recorder, name, port, 3)

    simulate(main)


def test_listening_twice_or_on_a_strange_address_fails_as_bind_does() -> None:
    async def main(network: Network) -> None:
        net = network.door("10.0.0.7")
        listener = await net.listen(Recorder, "10.0.0.7", 10911)
        with pytest.raises(OSError, match="already listens"):
            await net.listen(Recorder, "0.0.0.0", 10911)
        network.add_host("other", "10.0.0.8")
        with pytest.raises(OSError, match="not an address of"):
            await net.listen(Recorder, "10.0.0.8", 10911)
        listener.close()
        await net.listen(Recorder, "0.0.0.0", 10911)

    simulate(main)


def test_nobody_listening_is_refused_and_an_unknown_host_has_no_route() -> None:
    async def main(network: Network) -> None:
        network.add_host("server")
        with pytest.raises(ConnectionRefusedError):
            await network.door("client").connect(Recorder, "server", 1, 3)
        with pytest.raises(OSError, match="no host 'nowhere'"):
            await network.door("client").connect(Recorder, "nowhere", 1, 3)

    simulate(main)


def test_a_reader_that_pauses_bounds_what_the_sender_gets_rid_of() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        pair.server.transport.pause_reading()
        pair.client.transport.set_write_buffer_limits(high=50_000, low=10_000)
        written = 0
        while pair.client.events != ["pause"]:
            pair.client.transport.write(bytes(10_000))
            written += 10_000
            await asyncio.sleep(1)
            assert written < 1_000_000, "writing was never paused"
        assert pair.server.data == b""
        assert pair.client.transport.get_write_buffer_size() == written - WINDOW_BYTES
        pair.server.transport.resume_reading()
        await asyncio.sleep(10)
        assert pair.client.events == ["pause", "resume"]
        assert len(pair.server.data) == written
        assert pair.client.transport.get_write_buffer_size() == 0

    simulate(main)


def test_pausing_inside_data_received_stops_at_once() -> None:
    class OneBite(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.pause_reading()

    async def main(network: Network) -> None:
        served = OneBite()
        await network.door("server").listen(lambda: served, "0.0.0.0", 1)
        transport, _ = await network.door("client").connect(Recorder, "server", 1, 3)
        for _ in range(20):
            transport.write(b"x" * 5000)
            await asyncio.sleep(1)
        assert len(served.chunks) == 1

    simulate(main)


def test_a_partition_is_silence_and_healing_delivers_what_was_sent() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        network.partition("client", "server")
        pair.client.transport.write(b"ping")
        pair.server.transport.write(b"pong")
        await asyncio.sleep(600)
        assert pair.server.data == pair.client.data == b""
        assert pair.client.lost_with == pair.server.lost_with == []
        with pytest.raises(TimeoutError, match="within 3 s"):
            await network.door("client").connect(Recorder, "server", 10911, 3)
        network.heal("client", "server")
        await asyncio.sleep(1)
        assert (pair.server.data, pair.client.data) == (b"ping", b"pong")

    simulate(main)


def test_a_one_way_partition_passes_the_other_way_until_acknowledgements_are_missed() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        network.partition_one_way("server", "client")
        pair.client.transport.write(bytes(10 * WINDOW_BYTES))
        pair.server.transport.write(b"unheard")
        await asyncio.sleep(60)
        assert len(pair.server.data) == WINDOW_BYTES
        assert pair.client.data == b""
        network.heal_all()
        await asyncio.sleep(60)
        assert len(pair.server.data) == 10 * WINDOW_BYTES
        assert pair.client.data == b"unheard"

    simulate(main)


def test_a_clog_ends_by_itself_and_connecting_waits_for_it() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        network.clog("client", "server", 2.0)
        pair.client.transport.write(b"late")
        await asyncio.sleep(1.9)
        assert pair.server.data == b""
        await network.door("client").connect(Recorder, "server", 10911, 5)
        assert asyncio.get_running_loop().time() > 2.0
        assert pair.server.data == b"late"

    simulate(main)


def test_isolating_a_host_leaves_the_others_alone() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        network.add_host("third")
        network.isolate("third")
        pair.client.transport.write(b"still here")
        await asyncio.sleep(1)
        assert pair.server.data == b"still here"
        with pytest.raises(TimeoutError):
            await network.door("third").connect(Recorder, "server", 10911, 1)

    simulate(main)


def test_a_cut_resets_both_ends_once() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        pair.client.transport.write(b"lost")
        network.cut("client", "server")
        await asyncio.sleep(1)
        for end in pair[:2]:
            assert [type(error) for error in end.lost_with] == [ConnectionResetError]
            assert end.transport.is_closing()
        assert pair.server.data == b""

    simulate(main)


def test_close_flushes_first_and_the_peer_closes_too() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        pair.client.transport.write(bytes(3 * WINDOW_BYTES))
        pair.client.transport.close()
        pair.client.transport.write(b"too late")
        assert pair.client.transport.is_closing()
        await asyncio.sleep(10)
        assert len(pair.server.data) == 3 * WINDOW_BYTES
        assert pair.client.lost_with == pair.server.lost_with == [None]

    simulate(main)


def test_abort_drops_what_is_buffered_and_resets_the_peer() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        pair.client.transport.write(bytes(3 * WINDOW_BYTES))
        pair.client.transport.abort()
        await asyncio.sleep(10)
        assert len(pair.server.data) <= WINDOW_BYTES
        assert pair.client.lost_with == [None]
        assert [type(error) for error in pair.server.lost_with] == [ConnectionResetError]

    simulate(main)


def test_half_closing_still_reads() -> None:
    class KeepsOpen(Recorder):
        def eof_received(self) -> bool:
            self.events.append("eof")
            return True

    async def main(network: Network) -> None:
        served = KeepsOpen()
        await network.door("server").listen(lambda: served, "0.0.0.0", 1)
        transport, client = await network.door("client").connect(Recorder, "server", 1, 3)
        assert isinstance(client, Recorder)
        transport.write_eof()
        with pytest.raises(RuntimeError):
            transport.write(b"x")
        await asyncio.sleep(1)
        served.transport.write(b"answer")
        await asyncio.sleep(1)
        assert (served.events, client.data) == (["eof"], b"answer")

    simulate(main)


def test_a_peer_without_power_is_half_open_until_it_is_back_and_spoken_to() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        network.power_off("server")
        pair.client.transport.write(b"anybody there?")
        await asyncio.sleep(3600)
        assert pair.client.lost_with == pair.server.lost_with == []
        with pytest.raises(TimeoutError):
            await network.door("client").connect(Recorder, "server", 10911, 1)
        network.power_on("server")
        await asyncio.sleep(1)
        assert [type(error) for error in pair.client.lost_with] == [ConnectionResetError]
        assert pair.server.lost_with == [] and pair.server.data == b""
        with pytest.raises(ConnectionRefusedError):
            await network.door("client").connect(Recorder, "server", 10911, 1)

    simulate(main)


def test_a_killed_program_is_gone_and_its_peers_are_told() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        network.kill("server")
        await asyncio.sleep(1)
        assert len(pair.client.lost_with) == 1
        assert pair.server.lost_with == []

    for seed in range(4):  # both by an end of stream and by a reset
        simulate(main, seed)


def test_an_error_in_a_protocol_ends_its_connection_and_is_reported() -> None:
    class Faulty(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("bad frame")

    async def main(network: Network) -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, details: reported.append(details))
        await network.door("server").listen(Faulty, "0.0.0.0", 1)
        transport, client = await network.door("client").connect(Recorder, "server", 1, 3)
        assert isinstance(client, Recorder)
        transport.write(b"x")
        await asyncio.sleep(1)
        assert [type(error) for error in client.lost_with] == [ConnectionResetError]
        assert [str(details["exception"]) for details in reported] == ["bad frame"]

    simulate(main)


def test_buffered_protocols_are_served() -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.room = bytearray(7)
            self.data = b""

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.room

        def buffer_updated(self, nbytes: int) -> None:
            self.data += self.room[:nbytes]

    async def main(network: Network) -> None:
        served = Buffered()
        await network.door("server").listen(lambda: served, "0.0.0.0", 1)  # type: ignore[arg-type, return-value]
        transport, _ = await network.door("client").connect(Recorder, "server", 1, 3)
        transport.writelines([b"a line ", b"and another"])
        await asyncio.sleep(1)
        assert served.data == b"a line and another"

    simulate(main)


def test_one_seed_is_one_history_and_another_seed_another() -> None:
    async def main(network: Network) -> list[int]:
        pair = await connected(network)
        pair.client.transport.write(bytes(200_000))
        await asyncio.sleep(10)
        return [len(chunk) for chunk in pair.server.chunks]

    assert simulate(main, 3) == simulate(main, 3)
    assert simulate(main, 3)[1] != simulate(main, 4)[1]


def test_delays_are_those_that_were_set() -> None:
    async def main(network: Network) -> None:
        pair = await connected(network)
        network.set_delay("client", "server", 5.0, 6.0)
        pair.client.transport.write(b"x")
        await asyncio.sleep(4.999)
        assert pair.server.data == b""
        await asyncio.sleep(1.002)
        assert pair.server.data == b"x"

    simulate(main)
