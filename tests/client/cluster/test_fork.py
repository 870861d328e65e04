"""A client and fork: an open one says so in the child, one that is opened there works."""

from __future__ import annotations

import asyncio
import os

import pytest

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import Forked
from roquet.runtime import process
from roquet.runtime.real import real_ports
from roquet.transport.server import Server
from roquet.wire.reply import Reply
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")


def in_child(check: object) -> str:
    """Run `check()` in a forked process and return what it printed; an error there is part of it."""
    assert callable(check)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            text = str(check())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def test_forks_are_counted() -> None:
    before = process.forks()
    assert in_child(process.forks) == str(before + 1)
    assert process.forks() == before


def test_an_open_client_says_what_to_do_in_the_child() -> None:
    async def main() -> None:
        ports = real_ports()
        server = Server(ports.net, ports.clock, lambda call: call.answer(Reply(header=OffsetFound(7))))
        await server.start([("127.0.0.1", 0)])
        address = f"127.0.0.1:{server.addresses[0][1]}"
        async with Cluster(address) as cluster:
            assert cluster.client_id.startswith(f"127.0.0.1@{os.getpid()}#")

            def use(client: Cluster) -> str:
                async def in_another_loop() -> str:
                    uses = (
                        client.call(address, GetMaxOffset("t", 0)),
                        client.route("t"),
                        client.beat(),
                        client.open(),
                    )
                    for each in uses:
                        with pytest.raises(Forked, match="make a new client in the child process"):
                            await each
                    await client.close()
                    return "said so"

                return asyncio.run(in_another_loop())

            assert in_child(lambda: use(cluster)) == "said so"
            answer = await cluster.ask(address, GetMaxOffset("t", 0))
            assert OffsetFound.decode(answer.ext).offset == 7
        await server.close()

    asyncio.run(main())


def test_a_client_made_before_the_fork_is_opened_after_it() -> None:
    cluster = Cluster("127.0.0.1:9876", timeout=5)

    def opened() -> str:
        async def main() -> str:
            ports = real_ports()
            server = Server(ports.net, ports.clock, lambda call: call.answer(Reply(header=OffsetFound(7))))
            await server.start([("127.0.0.1", 0)])
            address = f"127.0.0.1:{server.addresses[0][1]}"
            cluster._names.put([address])
            async with cluster:
                assert cluster.client_id.startswith(f"127.0.0.1@{os.getpid()}#")
                await cluster.ask(address, GetMaxOffset("t", 0))
            await server.close()
            return "works"

        return asyncio.run(main())

    assert in_child(opened) == "works"
