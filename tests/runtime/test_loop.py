"""Starting a program: which loop, signals, and the limit of open files."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys

import pytest
import uvloop

from roquet.runtime.loop import loop_factory, raise_file_limit, run


def test_uvloop_unless_told_otherwise() -> None:
    assert loop_factory({}) is uvloop.new_event_loop
    assert loop_factory({"ROQUET_NO_UVLOOP": "0"}) is uvloop.new_event_loop
    assert loop_factory({"ROQUET_NO_UVLOOP": "1"}) is asyncio.new_event_loop


@pytest.mark.parametrize("no_uvloop", ["", "1"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_the_program_to_stop(
    number: signal.Signals, no_uvloop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROQUET_NO_UVLOOP", no_uvloop)

    async def main(stop: asyncio.Event) -> str:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        await stop.wait()
        return "stopped"

    assert run(main) == "stopped"


def test_a_second_signal_breaks_a_hanging_shutdown_off() -> None:
    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        run(main)


def test_the_soft_limit_of_files_is_raised_to_the_hard_one() -> None:
    program = (
        "import resource as r; from roquet.runtime.loop import raise_file_limit as f\n"
        "hard = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (64, hard)); f()\n"
        "assert r.getrlimit(r.RLIMIT_NOFILE) == (hard, hard)"
    )
    env = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=env, check=True)
    raise_file_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard
