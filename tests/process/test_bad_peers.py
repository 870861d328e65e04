"""Too many peers, and peers that do not read: the broker goes on serving those who were there.

Ten thousand connections that say nothing (as many as this process may open), a broker that runs out of
descriptors, and readers that ask for far more than they ever read.
"""

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from roquet.client import connect
from roquet.wire.frame import Frame, join
from roquet.wire.requests.pull import LitePull, PullFlag
from roquet.wire.row import row_of
from tests.peers import roquet
from tests.process.rude import Rude, Watch
from tests.process.test_bad_input import serves

pytestmark = pytest.mark.process

MIB = 1 << 20
CONNECTIONS_MAX = 10_000  # the broker's own limit, `maxConnections`
OWN_DESCRIPTORS = 500
LOW_LIMIT = 256
CLOSING_S = 120.0


@contextmanager
def many_descriptors() -> Iterator[int]:
    """Raise this process' limit of open files for a while; gives how many connections may be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + 2 * OWN_DESCRIPTORS
    limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    try:
        yield limit - OWN_DESCRIPTORS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def silent_links(stack: ExitStack, address: str, count: int) -> list[socket.socket]:
    host, port = address.rsplit(":", 1)
    return [
        stack.enter_context(socket.create_connection((host, int(port)), timeout=60)) for _ in range(count)
    ]


def closed_ones(links: list[socket.socket]) -> int:
    """Return how many of the connections the server has closed by now."""
    count = 0
    for link in links:
        link.setblocking(False)
        try:
            count += not link.recv(1)
        except BlockingIOError:
            continue
        except ConnectionError:
            count += 1
    return count


def test_ten_thousand_connections_that_say_nothing(tmp_path: Path) -> None:
    node = roquet.start_up(tmp_path / "store")
    watch = Watch(node.process)

    async def main(links_max: int) -> None:
        async with connect(node.namesrv) as early:
            await early.send("served", b"before")
            with watch.lines(at_most=3), ExitStack() as stack:
                links = silent_links(stack, node.broker, links_max)
                for number in range(100):
                    await early.send("served", b"during %d" % number)
                surplus = max(0, links_max + 1 - CONNECTIONS_MAX)
                node.process.wait_until(
                    lambda: closed_ones(links) >= surplus, f"the end of {surplus} connections", CLOSING_S
                )
                _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
                if hard == resource.RLIM_INFINITY or hard > 2 * CONNECTIONS_MAX:
                    assert closed_ones(links) == surplus
                assert watch.resident_bytes() < 256 * MIB
        await serves(node.namesrv)

    try:
        with many_descriptors() as links_max:
            asyncio.run(main(links_max))
        node.stop()
    finally:
        node.kill()


def test_at_the_end_of_its_descriptors_the_broker_refuses_newcomers_and_goes_on(tmp_path: Path) -> None:
    """New log, queue and index files are still opened: the last descriptors are not given to peers."""
    limited = ["sh", "-c", f'ulimit -n {LOW_LIMIT}; exec "$@"', "sh", *roquet.program()]
    small = {"mappedFileSizeCommitLog": str(1 << 16), "mappedFileSizeConsumeQueue": str(20 * 20)}
    small |= {"maxHashSlotNum": "100", "maxIndexNum": "100"}
    node = roquet.start_up(tmp_path / "store", settings=small, command=limited)
    watch = Watch(node.process)

    async def main() -> None:
        async with connect(node.namesrv) as early:
            await early.send("served", b"before", queue_id=0)
            with watch.lines(at_most=3), ExitStack() as stack:
                links = silent_links(stack, node.broker, LOW_LIMIT + 100)
                for number in range(400):
                    await early.send(f"served-{number % 10}", bytes(2_000), queue_id=number % 4, keys="k")
                    await early.read(f"served-{number % 10}", number % 4, 0)
                # A broker without descriptors looks at newcomers again only after a while.
                node.process.wait_until(
                    lambda: closed_ones(links) >= 100, "the end of 100 connections", CLOSING_S
                )
        await serves(node.namesrv)

    try:
        asyncio.run(main())
        node.stop()
    finally:
        node.kill()


@pytest.mark.parametrize("flags", [PullFlag.SUBSCRIPTION, PullFlag.SUBSCRIPTION | PullFlag.SUSPEND])
def test_readers_that_do_not_read_take_little_memory(tmp_path: Path, flags: PullFlag) -> None:
    node = roquet.start_up(tmp_path / "store", settings={"mappedFileSizeCommitLog": str(16 * MIB)})
    watch = Watch(node.process)
    pull = LitePull("g", "served", 0, 0, 32, int(flags), 0, 10_000, 0, "*", "TAG")
    ask = join(Frame(row_of(LitePull).code, 1, 0, pull.encode()))

    async def main() -> None:
        async with connect(node.namesrv) as client:
            for _ in range(100):
                await client.send("served", bytes(100_000), queue_id=0)
            before = watch.resident_bytes()
            with watch.lines(at_most=10), ExitStack() as stack:
                readers = [stack.enter_context(Rude(node.broker)) for _ in range(10)]
                for reader in readers:
                    reader.push(ask * 2_000)
                for _ in range(100):
                    await client.send("served", bytes(100_000), queue_id=0)
                assert watch.resident_bytes() - before < 64 * MIB
        await serves(node.namesrv)

    try:
        asyncio.run(main())
        node.stop()
    finally:
        node.kill()
