"""Tasks with an owner: started here, watched here, and all ended when the owner closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger("roquet.client")

Result = TypeVar("Result")


class Owned:
    """The tasks of one owner."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result]:
        """Run a coroutine beside the others; an error that ends it is logged."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        """Cancel all tasks without waiting for their end."""
        for task in self._others():
            task.cancel()

    async def ended(self) -> None:
        """Return once all tasks have ended."""
        while tasks := self._others():
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        self.cancel()
        await self.ended()

    def _others(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks if task is not asyncio.current_task()]

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed: this is a mistake of ours", task.get_name(), exc_info=error)
