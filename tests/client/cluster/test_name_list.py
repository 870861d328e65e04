"""Name servers from an HTTP address: read at the start, and again every two minutes."""

from __future__ import annotations

import asyncio

import pytest

from roquet.client.cluster.name_list import LIST_SECONDS
from roquet.client.errors import Misuse, NamesUnreachable
from tests.client.cluster.test_cluster import FAR, play
from tests.client.ground import NAMES, Ground

URL = f"http://{FAR}:8080/rocketmq/nsaddr?x=1"


class Page:
    """A web server of one page, in the test's own world."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked: list[bytes] = []
        self.closes = True

    async def open(self, ground: Ground) -> None:
        page = self

        class Visit(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                self.transport = transport

            def data_received(self, data: bytes) -> None:
                page.asked.append(data)
                self.transport.write(page.answer)
                if page.closes:
                    self.transport.close()

        self.listener = await ground.world.ports(FAR).net.listen(Visit, FAR, 8080)


def ok(text: str) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + text.encode()


def test_the_list_is_read_at_the_start_and_every_two_minutes() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        page = Page(ok(f"{NAMES[0]}:9876\n"))
        await page.open(ground)
        async with ground.cluster(URL) as cluster:
            assert cluster.name_servers == (f"{NAMES[0]}:9876",)
            assert page.asked[0].startswith(b"GET /rocketmq/nsaddr?x=1 HTTP/1.0\r\nHost: 127.0.0.9:8080\r\n")
            page.answer = ok(f"{NAMES[1]}:9876;{NAMES[0]}:9876")
            await ground.pass_time(LIST_SECONDS + 1)
            assert set(cluster.name_servers) == {f"{host}:9876" for host in NAMES}
            for answer in (b"HTTP/1.1 404 Not Found\r\n\r\n", ok("nonsense"), ok("")):
                page.answer = answer
                await ground.pass_time(LIST_SECONDS)
                assert len(cluster.name_servers) == 2
            page.listener.close()
            await ground.pass_time(LIST_SECONDS)
            assert len(cluster.name_servers) == 2
            assert len(page.asked) == 5

    play(scenario)


def test_without_a_list_the_client_does_not_open() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.start(brokers=0)
        ground.world.ports(FAR)
        cluster = ground.cluster(URL)
        with pytest.raises(NamesUnreachable, match="gives no list of name servers"):
            await cluster.open()
        page = Page(ok("this is no list"))
        await page.open(ground)
        with pytest.raises(Misuse, match="'this' is not an address"):
            await cluster.open()
        page.answer = ok(f"{NAMES[0]}:9876")
        async with cluster:
            assert len(cluster.name_servers) == 1

    play(scenario)
