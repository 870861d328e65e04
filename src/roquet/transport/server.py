"""Accept links on one or more addresses, and keep house: idle, stuck and surplus ones are closed.

A connection past the limit is closed at once with a log line (the descriptor that it took is given
back), so that those who are already there go on. Knows nothing of requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from roquet.ports import Clock, Listener, Net
from roquet.transport.link import Call, Link, ServeRun
from roquet.wire.frame import JSON

log = logging.getLogger("roquet.transport")

IDLE_SECONDS_MAX: Final = 120.0
"""A link on which nothing was read or written for so long is closed, as Apache does."""

SWEEP_SECONDS: Final = 5.0

HELD_BYTES_MAX: Final = 256 * 1024 * 1024
"""Unsent answers and unfinished requests of all links together; past it the largest are cut off."""


class Server:
    """The listening side of one program."""

    def __init__(
        self,
        net: Net,
        clock: Clock,
        serve: Callable[[Call], None],
        on_close: Callable[[Link], None] | None = None,
        links_max: int = 20_000,
        idle_s: float = IDLE_SECONDS_MAX,
        encoding: int = JSON,
        serve_run: ServeRun | None = None,
    ) -> None:
        self._net = net
        self._clock = clock
        self._serve = serve
        self._on_close = on_close
        self._links_max = links_max
        self._idle_s = idle_s
        self._encoding = encoding
        self._serve_run = serve_run
        self._listeners: list[Listener] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._warned_at = float("-inf")
        self.links: dict[Link, None] = {}

    async def start(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Listen on every address; raises OSError when one of them cannot be had."""
        try:
            for host, port in addresses:
                self._listeners.append(await self._net.listen(self._accept, host, port))
        except OSError:
            self.stop_accepting()
            raise
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [listener.address for listener in self._listeners]

    def stop_accepting(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    async def close(self) -> None:
        """Stop accepting and close every link, after what was written has been sent."""
        self.stop_accepting()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        for link in list(self.links):
            link.close()

    def _accept(self) -> asyncio.Protocol:
        return Link(self._clock, self._serve, self._opened, self._encoding, self._serve_run)

    def _opened(self, link: Link) -> None:
        if len(self.links) >= self._links_max:
            now = self._clock.monotonic()
            if now - self._warned_at > SWEEP_SECONDS:
                self._warned_at = now
                log.warning(
                    "refusing %s:%d and others: %d connections are open, which is the limit "
                    "(raise the limit of open files, `ulimit -n`)",
                    *link.peer,
                    self._links_max,
                )
            link.abort()
            return
        self.links[link] = None
        link.on_close.append(self._closed)

    def _closed(self, link: Link) -> None:
        self.links.pop(link, None)
        if self._on_close is not None:
            self._on_close(link)

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + SWEEP_SECONDS)
            now = self._clock.monotonic()
            held_bytes = 0
            for link in list(self.links):
                unsent_bytes = link.unsent_bytes
                held_bytes += link.held_bytes
                if link.is_stuck(now):
                    log.warning("closing %s:%d: it does not read, %d bytes wait", *link.peer, unsent_bytes)
                    link.abort()
                elif link.is_idle(now, self._idle_s) and not unsent_bytes:
                    log.info("closing %s:%d: idle for %d s", *link.peer, self._idle_s)
                    link.close()
            if held_bytes > HELD_BYTES_MAX:
                self._cut_largest(held_bytes)

    def _cut_largest(self, held_bytes: int) -> None:
        """Abort the links that hold the most until the rest fits."""
        for link in sorted(self.links, key=lambda link: link.held_bytes, reverse=True):
            if held_bytes <= HELD_BYTES_MAX:
                return
            held_bytes -= link.held_bytes
            log.warning("closing %s:%d: slow peers together hold too much memory", *link.peer)
            link.abort()
