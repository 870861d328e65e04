"""How driver and tasks get at the cluster: the client's settings, patience, and an event loop to use it on.

`Access` travels to executors, so it is a value. Spark calls readers synchronously: their coroutines run in
`Turns`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple, Self, TypeVar

from roquet.client.cluster.cluster import Cluster
from roquet.client.errors import RoquetError
from roquet.ports import Clock
from roquet.runtime.loop import loop_factory

log = logging.getLogger("roquet.spark")

Result = TypeVar("Result")


class DataLost(RuntimeError):
    """Messages that should have been read are gone."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. With the option failOnDataLoss=false the query goes on without them")


class Access(NamedTuple):
    """Where the cluster is, and how long to try."""

    namesrv: str
    namespace: str = ""
    client: Mapping[str, Any] = {}
    timeout_s: float = 10.0
    retries: int = 3
    pause_s: float = 0.2

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Access:
        """Return the access that options describe."""
        return cls(
            given["namesrv"],
            given["namespace"],
            given["client"],
            given["timeout"].total_seconds(),
            given["retries"],
            given["retryInterval"].total_seconds(),
        )

    def cluster(self) -> Cluster:
        """Return a client, not yet open."""
        return Cluster(self.namesrv, namespace=self.namespace, timeout=self.timeout_s, **self.client)

    async def patiently(self, clock: Clock, act: Callable[[], Awaitable[Result]]) -> Result:
        """Do something that may fail in passing, and again after a pause; raises the last RoquetError."""
        for attempt in range(self.retries):
            try:
                return await act()
            except RoquetError as error:
                if not error.retriable:
                    raise
                log.info("once more, after %s", error.what)
            await clock.sleep_until(clock.monotonic() + self.pause_s * 2**attempt)
        return await act()


class Turns:
    """An event loop that runs while it is asked to, and stands still in between.

    Not `asyncio.Runner`: that one sets a signal handler around each run, which makes Python describe the
    result in words, all megabytes of it.
    """

    def __init__(self) -> None:
        self._loop = loop_factory(os.environ)()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """Break off what is left, and end the loop."""
        if self._loop.is_closed():
            return
        self._loop.run_until_complete(_end_others())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


async def _end_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def report_loss(what: str, is_error: bool) -> None:
    """Say that messages are gone; raises DataLost where that is an error."""
    if is_error:
        raise DataLost(what)
    log.warning("%s", what)
