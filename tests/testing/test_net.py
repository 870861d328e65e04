"""The network in memory behaves as sockets do, as far as protocols can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from roquet.ports import Net
from roquet.runtime.net import RealNet
from roquet.testing import MemoryNet

HOST = "127.0.0.1"
NETS: dict[str, Callable[[], Net]] = {"memory": MemoryNet, "sockets": RealNet}


class End(asyncio.Protocol):
    """Keeps what happened to it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.events: list[str] = []
        self.changed = asyncio.Event()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._note("made")

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.changed.set()

    def eof_received(self) -> None:
        self._note("eof")

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self._note("lost" if error is None else type(error).__name__)

    def _note(self, event: str) -> None:
        self.events.append(event)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(params=NETS)
def net(request: pytest.FixtureRequest) -> Net:
    return NETS[request.param]()


def play(net: Net, scenario: Callable[[End, End], Coroutine[Any, Any, None]]) -> None:
    """Join two ends and run the scenario."""

    async def main() -> None:
        served: list[End] = []

        def accept() -> End:
            served.append(End())
            return served[0]

        listener = await net.listen(accept, HOST, 0)
        _, near = await net.connect(End, *listener.address, timeout_s=5)
        assert isinstance(near, End)
        async with asyncio.timeout(60):
            while not served or not served[0].events:
                await asyncio.sleep(0)
        listener.close()
        await scenario(near, served[0])
        near.transport.abort()
        served[0].transport.abort()
        await near.until(lambda: near.events[-1] not in ("made", "eof", "pause", "resume"))

    asyncio.run(main())


def test_data_arrives_in_order_both_ways(net: Net) -> None:
    async def scenario(near: End, far: End) -> None:
        sent = b"".join(number.to_bytes(4, "big") for number in range(200_000))
        near.transport.writelines([sent[:5], sent[5:]])
        far.transport.write(b"hello")
        await far.until(lambda: len(far.data) == len(sent))
        assert far.data == sent
        await near.until(lambda: near.data == b"hello")

    play(net, scenario)


def test_addresses_are_told_to_both_ends(net: Net) -> None:
    async def scenario(near: End, far: End) -> None:
        for one, other in ((near, far), (far, near)):
            assert one.transport.get_extra_info("peername") == other.transport.get_extra_info("sockname")
        assert near.transport.get_extra_info("peername")[0] == HOST

    play(net, scenario)


def test_a_peer_that_does_not_read_holds_the_writer_up(net: Net) -> None:
    async def scenario(near: End, far: End) -> None:
        far.transport.pause_reading()
        near.transport.set_write_buffer_limits(high=1_000)
        total = 0
        while "pause" not in near.events:
            near.transport.write(bytes(500_000))
            total += 500_000
            await asyncio.sleep(0)
        assert near.transport.get_write_buffer_size() > 1_000
        far.transport.resume_reading()
        await near.until(lambda: near.events[-1] == "resume")
        await far.until(lambda: len(far.data) == total)

    play(net, scenario)


def test_a_close_sends_the_rest_first(net: Net) -> None:
    async def scenario(near: End, far: End) -> None:
        near.transport.write(bytes(1_000_000))
        near.transport.close()
        assert near.transport.is_closing()
        near.transport.write(b"ignored")
        await far.until(lambda: far.events[-1] == "lost")
        assert len(far.data) == 1_000_000
        assert far.events == ["made", "eof", "lost"]
        await near.until(lambda: near.events[-1] == "lost")
        assert near.events[-1] == "lost"

    play(net, scenario)


def test_an_abort_ends_both_sides(net: Net) -> None:
    async def scenario(near: End, far: End) -> None:
        far.transport.pause_reading()
        near.transport.write(bytes(10))
        near.transport.abort()
        far.transport.resume_reading()
        await near.until(lambda: near.events[-1] == "lost")
        await far.until(lambda: far.events[-1] in ("lost", "ConnectionResetError"))

    play(net, scenario)


def test_nobody_there_is_a_refusal(net: Net) -> None:
    async def main() -> None:
        listener = await net.listen(End, HOST, 0)
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await net.connect(End, *listener.address, timeout_s=5)

    asyncio.run(main())


def test_a_port_is_taken_once(net: Net) -> None:
    async def main() -> None:
        listener = await net.listen(End, HOST, 0)
        with pytest.raises(OSError):
            await net.listen(End, *listener.address)
        listener.close()

    asyncio.run(main())


def test_a_protocol_that_fails_ends_its_connection() -> None:
    class Failing(End):
        def data_received(self, data: bytes) -> None:
            raise RuntimeError("on purpose")

    async def main() -> None:
        net, failures = MemoryNet(), []
        asyncio.get_running_loop().set_exception_handler(lambda _, details: failures.append(details))
        listener = await net.listen(Failing, HOST, 0)
        _, near = await net.connect(End, *listener.address, timeout_s=1)
        assert isinstance(near, End)
        near.transport.write(b"x")
        await near.until(lambda: near.events[-1] == "ConnectionResetError")
        assert len(failures) == 1

    asyncio.run(main())
