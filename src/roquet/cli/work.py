"""Run one command of the client: its event loop, its errors as one sentence, its exit code.

    0 done · 1 refused or not found · 2 wrong usage · 3 no server reachable, or no answer · 130 Ctrl-C

An error is printed to stderr with its hint, never with a traceback; anything that is not an error of the
client is a bug and shows its traceback.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import typer

from roquet.cli.output import printable
from roquet.client.admin import Admin
from roquet.client.errors import Misuse, RoquetError, SendFailed, TimedOut, Unreachable
from roquet.runtime.loop import loop_factory

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end and return its result; ends the command when it cannot."""
    try:
        with asyncio.Runner(loop_factory=loop_factory(os.environ)) as runner:
            return runner.run(_until_told(work))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except asyncio.CancelledError:  # SIGTERM: a program that is told to stop has not failed
        raise typer.Exit(128 + signal.SIGTERM) from None
    except RoquetError as error:
        say_error(error)
        raise typer.Exit(code_of(error)) from None
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


async def _until_told(work: Coroutine[Any, Any, Result]) -> Result:
    """Run the work so that SIGTERM ends it in good order, as Ctrl-C does."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def administer(namesrv: str, act: Callable[[Admin], Awaitable[Result]]) -> Result:
    """Open an administrator, let it act, and return what comes of it."""

    async def work() -> Result:
        async with Admin(namesrv) as admin:
            return await act(admin)

    return run(work())


def code_of(error: RoquetError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, SendFailed):
        return code_of(error.attempts[-1].error)
    if isinstance(error, Unreachable | TimedOut):
        return UNREACHABLE
    return USAGE if isinstance(error, Misuse) else REFUSED


def say_error(error: RoquetError) -> None:
    """Print what went wrong and what to do about it."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    # A server's own words may have several lines; a script reads one.
    print(f"roquet: {printable(' '.join(f'{error}{notes}'.split()))}", file=sys.stderr, flush=True)
