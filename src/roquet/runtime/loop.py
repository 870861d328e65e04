"""Start a program: the event loop, signals and the limit of open files.

`run` is the only place that starts an event loop for a server: uvloop when it is installed (set
ROQUET_NO_UVLOOP=1 to go without), asyncio's own otherwise. The first SIGTERM or SIGINT sets the stop
event that the program waits for; a second one cancels it, for a shutdown that hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

Result = TypeVar("Result")
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, Result]]) -> Result:
    """Run `main(stop)` to its end and return its result.

    `stop` is set by the first SIGTERM or SIGINT; `main` must then finish by itself. Raises
    CancelledError when a second signal had to break it off.
    """
    raise_file_limit()
    with asyncio.Runner(loop_factory=loop_factory(os.environ)) as runner:
        return runner.run(_with_signals(main))


def loop_factory(env: Mapping[str, str]) -> NewLoop:
    """Return what makes the event loop: uvloop's, or asyncio's when told so or without uvloop."""
    if env.get("ROQUET_NO_UVLOOP", "") in ("", "0"):
        try:
            import uvloop
        except ImportError:
            return asyncio.new_event_loop
        new_loop: NewLoop = uvloop.new_event_loop
        return new_loop
    return asyncio.new_event_loop


async def _with_signals(main: Callable[[asyncio.Event], Coroutine[Any, Any, Result]]) -> Result:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    program = asyncio.ensure_future(main(stop))

    def on_signal() -> None:
        if stop.is_set():
            program.cancel()
        stop.set()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, on_signal)
    try:
        return await program
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard one, where the system has such limits.

    A broker holds a descriptor for each connection and each open segment, and 1024, the usual soft
    limit, is soon used up.
    """
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS reports "unlimited" and then refuses it: the soft limit has to do.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
