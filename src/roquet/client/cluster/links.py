"""The connections of one client: one per address, opened when needed and again after it was lost.

    wanted ──▶ opening ──▶ open ──▶ lost or silent ──▶ (wanted again) opening
                  └─ failed: for a while, longer each time, whoever wants it is told so at once

Callers share an opening and each waits no longer than it has time. A connection on which calls expire
and nothing arrives any more is given up: a peer that lost its power never says goodbye. Knows nothing of
requests, routes or who is behind an address.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from roquet.client.cluster.dialed import Dialed
from roquet.ports import Clock, Net, Rng
from roquet.transport.dialer import parse_address
from roquet.transport.link import Call, Link, LinkClosed

log = logging.getLogger("roquet.client")

CONNECT_SECONDS_MAX: Final = 3.0
BACKOFF_SECONDS_FIRST: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 2.0
"""A broker that comes back is noticed within this time."""

SILENT_SECONDS: Final = 1.0
"""How long nothing may arrive while calls expire before the connection counts as dead."""

AT_ONCE_SECONDS: Final = 1.0
"""A peer that closes a new connection within this time refuses us, or is about to die."""

CLOSE_SECONDS_MAX: Final = 1.0
"""How long closing waits for a peer that does not read what was sent."""


class _Failure(NamedTuple):
    """Why an address could not be reached, and when it may be tried again."""

    error: OSError
    again_at: float
    pause_s: float


class Links:
    """Keeps the connections; `on_open` is told of each new one."""

    def __init__(
        self, net: Net, clock: Clock, rng: Rng, serve: Callable[[Call], None], on_open: Callable[[str], None]
    ) -> None:
        self._net = net
        self._clock = clock
        self._rng = rng
        self._serve = serve
        self._on_open = on_open
        self.encoding = 0
        self._links: dict[str, Dialed] = {}
        self._opening: dict[str, asyncio.Task[Dialed]] = {}
        self._retired: set[Dialed] = set()
        self._failures: dict[str, _Failure] = {}
        self._silent: dict[Dialed, float] = {}
        self._closed = False

    def ready(self, address: str) -> Dialed | None:
        """Return the open connection to an address, None when it has to be opened first."""
        link = self._links.get(address)
        return link if link is not None and link.is_open else None

    def is_ailing(self, address: str) -> bool:
        """True when the last try to reach an address failed."""
        return address in self._failures

    def addresses(self) -> list[str]:
        return list(self._links)

    async def link(self, address: str, timeout_s: float) -> Dialed:
        """Return the connection to `host:port`; raises OSError, TimeoutError when it takes too long."""
        link = self.ready(address)
        if link is not None:
            return link
        opening = self._opening.get(address) or self._start(address)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_at(self._clock.monotonic() + timeout_s, _wake, waiter)
        wake = partial(_wake, waiter)
        opening.add_done_callback(wake)
        try:
            await waiter
        finally:
            timer.cancel()
            opening.remove_done_callback(wake)
        if not opening.done():
            raise TimeoutError(f"no connection to {address} within {round(timeout_s, 3):g} s")
        if opening.cancelled():
            raise LinkClosed(f"gave up opening {address}: the client was closed")
        return opening.result()

    def expired(self, link: Dialed, asked_at: float) -> None:
        """Note that a call got no answer; a connection that has been silent for long is cut."""
        if link.last_active >= asked_at:
            self._silent.pop(link, None)
            return
        since = self._silent.get(link)
        if since is None or link.last_active >= since:
            since = self._silent[link] = asked_at
        if self._clock.monotonic() - since >= SILENT_SECONDS:
            log.info("giving up the connection to %s:%d: nothing arrives any more", *link.peer)
            link.abort()

    def retire(self, address: str) -> None:
        """Open a new connection next time; the old one goes on with its answers until the peer closes it."""
        link = self._links.pop(address, None)
        if link is not None:
            self._retired.add(link)

    def open(self) -> None:
        """Allow connections (again)."""
        self._closed = False

    def abort(self) -> None:
        """Cut every connection at once and open no more."""
        self._closed = True
        for opening in self._opening.values():
            opening.cancel()
        for link in (*self._links.values(), *self._retired):
            link.abort()
        self._links.clear()
        self._retired.clear()
        self._failures.clear()
        self._silent.clear()

    async def close(self) -> None:
        """Close every connection after what was written has been sent, and open no more."""
        self._closed = True
        openings = list(self._opening.values())
        for opening in openings:
            opening.cancel()
        all_lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left: set[Link] = {link for link in (*self._links.values(), *self._retired) if link.is_open}

        def lost(link: Link) -> None:
            left.discard(link)
            if not left:
                _wake(all_lost)

        for link in list(left):
            link.on_close.append(lost)
            link.close()
        timer = self._clock.call_at(self._clock.monotonic() + CLOSE_SECONDS_MAX, _wake, all_lost)
        try:
            await asyncio.gather(*openings, return_exceptions=True)
            if left:
                await all_lost
        finally:
            timer.cancel()
            self.abort()

    def _start(self, address: str) -> asyncio.Task[Dialed]:
        if self._closed:
            raise LinkClosed(f"no connection to {address}: the client is closed")
        failure = self._failures.get(address)
        if failure is not None and self._clock.monotonic() < failure.again_at:
            raise failure.error.with_traceback(None)
        opening = asyncio.get_running_loop().create_task(self._open(address), name=f"roquet open {address}")
        self._opening[address] = opening
        opening.add_done_callback(partial(self._opened, address))
        return opening

    async def _open(self, address: str) -> Dialed:
        try:
            host, port = parse_address(address)
        except ValueError as error:
            raise OSError(str(error)) from None
        _, link = await self._net.connect(
            lambda: Dialed(self._clock, self._serve, encoding=self.encoding), host, port, CONNECT_SECONDS_MAX
        )
        assert isinstance(link, Dialed)
        self._links[address] = link
        link.on_close.append(partial(self._lost, address, self._clock.monotonic()))
        return link

    def _opened(self, address: str, opening: asyncio.Task[Dialed]) -> None:
        del self._opening[address]
        if opening.cancelled():
            return
        error = opening.exception()
        if error is None:
            self._failures.pop(address, None)
            self._on_open(address)
        elif isinstance(error, OSError):
            self._failed(address, error)

    def _failed(self, address: str, error: OSError) -> None:
        before = self._failures.get(address)
        pause_s = BACKOFF_SECONDS_FIRST if before is None else min(before.pause_s * 2, BACKOFF_SECONDS_MAX)
        # Drawn from the upper half, so that the clients of a broker that died do not come back as one.
        again_at = self._clock.monotonic() + pause_s * (0.5 + self._rng.random() / 2)
        self._failures[address] = _Failure(error, again_at, pause_s)

    def _lost(self, address: str, opened_at: float, link: Link) -> None:
        assert isinstance(link, Dialed)
        self._silent.pop(link, None)
        self._retired.discard(link)
        if self._links.get(address) is link:
            del self._links[address]
            lived_s = self._clock.monotonic() - opened_at
            if link.last_active <= opened_at and lived_s < AT_ONCE_SECONDS and not self._closed:
                # It closed before it said a word, so it will hardly do better in the next moment.
                self._failed(address, LinkClosed(f"{address} closed the connection at once"))


def _wake(waiter: asyncio.Future[None], *_: object) -> None:
    if not waiter.done():
        waiter.set_result(None)
