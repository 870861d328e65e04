"""A broker on an event loop of its own, with methods for tests that are not on that loop.

What the fixture `roquet_broker` gives. Sockets on free ports of loopback, the store in a folder, the clock
movable from any thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path

from roquet.ports import Ports
from roquet.runtime.background import Background
from roquet.testing.local import LocalBroker, Setting, broker


class ThreadedBroker:
    """A running name server and broker; every method may be called from any thread but the broker's."""

    def __init__(self, store: Path, settings: Mapping[str, Setting]) -> None:
        # asyncio's own loop, since uvloop does not tell the clock when it has nothing more to do.
        self._background = Background("roquet-broker", asyncio.new_event_loop)
        self._exits = AsyncExitStack()
        try:
            self._local = self._background.run(self._open(store, settings))
        except BaseException:
            self._background.stop()
            raise

    async def _open(self, store: Path, settings: Mapping[str, Setting]) -> LocalBroker:
        return await self._exits.enter_async_context(broker(sockets=True, store=store, settings=settings))

    @property
    def namesrv(self) -> str:
        """Where clients ask for routes: what `roquet.Producer` and others take first."""
        return self._local.namesrv

    @property
    def address(self) -> str:
        """Where the broker listens."""
        return self._local.address

    @property
    def ports(self) -> Ports:
        """For clients that shall live on the broker's clock: `roquet.Consumer(..., ports=...)`."""
        return self._local.ports

    def now(self) -> datetime:
        """Return the time as the broker has it."""
        return self._local.clock.now()

    def advance(self, by: timedelta) -> None:
        """Let so much time pass for the broker; returns when it has done what was due."""
        self._background.run(self._local.clock.advance(by))

    def stop(self) -> None:
        """Stop the broker in order; the name server stays, and so do the messages."""
        self._background.run(self._local.stop())

    def start(self) -> None:
        """Start the broker again after `stop`."""
        self._background.run(self._local.start())

    def restart(self) -> None:
        """Stop the broker and start it again on the same store and address."""
        self._background.run(self._local.restart())

    def close(self) -> None:
        """Stop everything and end the thread."""
        try:
            self._background.run(self._exits.aclose())
        finally:
            self._background.stop()
