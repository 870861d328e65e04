"""The requests that are at work: waiting for the disk or for another node. One owner, one bound.

A handler that cannot answer at once returns a coroutine (or hands one in, when a parked request goes on);
it runs here and its outcome is sent. Past the bound the request is refused as busy, with the reason.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Coroutine
from typing import Any, Final

from roquet.transport.link import Call
from roquet.wire.codes import Code
from roquet.wire.reply import Outcome, Refusal, Reply
from roquet.wire.row import TABLE

log = logging.getLogger("roquet.transport")

TASKS_MAX: Final = 10_000
"""Requests that may be at work at once, over all connections."""

REMARK_CHARS_MAX: Final = 1_000
"""How much of an error's text goes to the peer."""

STOPPING: Final = Reply(Code.SYSTEM_BUSY, remark="the server is stopping; try another one")


class Tasks:
    """Runs the slow part of requests."""

    def __init__(self, tasks_max: int = TASKS_MAX) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._tasks_max = tasks_max

    @property
    def count(self) -> int:
        return len(self._tasks)

    def run(self, call: Call, work: Coroutine[Any, Any, Outcome]) -> None:
        """Answer the call with what comes of the work."""
        if len(self._tasks) >= self._tasks_max:
            work.close()
            remark = (
                f"[OVERLOAD] {self._tasks_max} requests wait for the disk or another node; try again later"
            )
            call.answer(Reply(Code.SYSTEM_BUSY, remark=remark))
            return
        task = asyncio.get_running_loop().create_task(self._run(call, work))
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._ended, call, work))

    async def close(self) -> None:
        """Cancel what is still at work and wait until it has answered."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, call: Call, work: Coroutine[Any, Any, Outcome]) -> None:
        try:
            outcome = await work
        except asyncio.CancelledError:
            outcome = STOPPING
        except Exception as error:  # a mistake of ours must not take the connection down
            outcome = failure(call, error)
        if isinstance(outcome, Reply):
            send(call, outcome)

    def _ended(self, call: Call, work: Coroutine[Any, Any, Outcome], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # before its first step, so that `_run` could not answer
            work.close()
            send(call, STOPPING)


def send(call: Call, reply: Reply) -> None:
    """Answer a call; a reply that cannot be written, or comes second, is logged and never raised."""
    try:
        call.answer(reply)
    except Exception as error:  # a mistake of ours must not take the connection down
        explained = failure(call, error)
        if not call.answered:
            call.answer(explained)


def failure(call: Call, error: Exception) -> Reply:
    """Return the answer to a request whose handler raised; what is no plain refusal is logged."""
    if isinstance(error, Refusal):
        return error.reply
    row = TABLE.get(call.frame.code)
    name = str(call.frame.code) if row is None else row.name
    log.error("%s from %s:%d failed", name, *call.link.peer, exc_info=error)
    # An error may quote a file name or a text that is not UTF-8, and at any length.
    text = str(error)[:REMARK_CHARS_MAX].encode(errors="replace").decode()
    remark = f"{name} failed: {type(error).__name__}: {text}; the server's log has the details"
    return Reply(Code.SYSTEM_ERROR, remark=remark)
