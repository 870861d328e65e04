"""Real sockets: options, addresses, and errors that say what to do."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop

from roquet.runtime.net import RealNet

NewLoop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


def run_on(new_loop: NewLoop, main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(main, 120))


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance check: uvloop's transports do not inherit from asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        self.nodelay = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Answer(Echo):
    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.answer.set_result(data)


@LOOPS
def test_two_ends_meet_without_nagle(new_loop: NewLoop) -> None:
    async def main() -> None:
        served: list[Echo] = []

        def accept() -> Echo:
            served.append(Echo())
            return served[-1]

        net = RealNet()
        listener = await net.listen(accept, "127.0.0.1", 0)
        host, port = listener.address
        assert host == "127.0.0.1" and port > 0
        transport, protocol = await net.connect(Answer, "127.0.0.1", port, 5)
        assert isinstance(protocol, Answer)
        transport.write(b"hello")
        assert await protocol.answer == b"hello"
        assert protocol.nodelay and served[0].nodelay
        assert served[0].transport.get_extra_info("peername") == transport.get_extra_info("sockname")
        listener.close()
        transport.close()

    run_on(new_loop, main())


@LOOPS
def test_listening_fails_with_the_address_and_advice(new_loop: NewLoop) -> None:
    async def main() -> None:
        net = RealNet()
        listener = await net.listen(Echo, "127.0.0.1", 0)
        port = listener.address[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: another program") as taken:
            await net.listen(Echo, "127.0.0.1", port)
        assert taken.value.errno == errno.EADDRINUSE
        with pytest.raises(OSError, match="192.0.2.1 is not an address of this machine") as strange:
            await net.listen(Echo, "192.0.2.1", port)
        assert strange.value.errno == errno.EADDRNOTAVAIL
        with pytest.raises(OSError, match="'a..b' is no host name"):
            await net.listen(Echo, "a..b", port)
        with pytest.raises(OSError, match="'a..b' is no host name"):
            await net.connect(Echo, "a..b", port, 5)
        listener.close()

    run_on(new_loop, main())


@LOOPS
def test_connecting_fails_as_the_right_kind_of_error(new_loop: NewLoop) -> None:
    async def main() -> None:
        net = RealNet()
        listener = await net.listen(Echo, "127.0.0.1", 0)
        port = listener.address[1]
        listener.close()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError, match=f"cannot connect to 127.0.0.1:{port}"):
            await net.connect(Echo, "127.0.0.1", port, 5)

    run_on(new_loop, main())


def test_no_answer_in_time_is_a_timeout() -> None:
    """A backlog of one that is full answers no further handshake on Linux."""

    async def main() -> None:
        with socket.socket() as deaf, socket.socket() as first, socket.socket() as second:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            for sock in (first, second):
                sock.setblocking(False)
                sock.connect_ex(deaf.getsockname())
            with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
                await RealNet().connect(Echo, "127.0.0.1", deaf.getsockname()[1], 0.05)

    run_on(asyncio.new_event_loop, main())
