"""Links that we open: one per address, opened when first needed and again after it was lost.

Used by a broker towards its name servers (and by the client later). Knows nothing of requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from roquet.ports import Clock, Net
from roquet.transport.link import Call, Link, LinkClosed
from roquet.wire.frame import JSON, Frame
from roquet.wire.row import Header

CONNECT_SECONDS_MAX: Final = 3.0


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`; raises ValueError that names the text."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address of the form host:port")
    return host.strip("[]"), int(port)


class Dialer:
    """Keeps one link to each address that is asked for."""

    def __init__(self, net: Net, clock: Clock, serve: Callable[[Call], None], encoding: int = JSON) -> None:
        self._net = net
        self._clock = clock
        self._serve = serve
        self._encoding = encoding
        self._links: dict[str, Link] = {}
        self._opening: dict[str, asyncio.Task[Link]] = {}
        self._closed = False

    async def link(self, address: str) -> Link:
        """Return the open link to `host:port`; raises OSError when it cannot be opened."""
        if self._closed:
            raise LinkClosed(f"no more links are opened to {address}: we are stopping")
        link = self._links.get(address)
        if link is not None and link.is_open:
            return link
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(address))
            self._opening[address] = opening
            opening.add_done_callback(partial(self._opened, address))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Cancelled is the opening, by `close`, and not whoever waits for it.
            task = asyncio.current_task()
            if opening.cancelled() and task is not None and not task.cancelling():
                raise LinkClosed(f"gave up opening {address}: we are stopping") from None
            raise

    def _opened(self, address: str, opening: asyncio.Task[Link]) -> None:
        self._opening.pop(address, None)
        if not opening.cancelled():
            opening.exception()  # whoever waited may be gone: then nobody is left to look at it

    async def call(self, address: str, request: Header, timeout_s: float, body: bytes = b"") -> Frame:
        """Ask `host:port` and return its answer; raises OSError, TimeoutError included."""
        link = await self.link(address)
        return await link.call(request, timeout_s, body)

    def close(self) -> None:
        """Close every link and open no more."""
        self._closed = True
        for opening in self._opening.values():
            opening.cancel()
        for link in self._links.values():
            link.close()
        self._links.clear()

    async def _open(self, address: str) -> Link:
        host, port = parse_address(address)
        _, link = await self._net.connect(
            lambda: Link(self._clock, self._serve, encoding=self._encoding), host, port, CONNECT_SECONDS_MAX
        )
        assert isinstance(link, Link)
        self._links[address] = link
        return link
