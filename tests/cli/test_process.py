"""The command line as a process: pipes, signals, completion; what a test in one process cannot see."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.peers import roquet as program
from tests.peers.child import Child

pytestmark = pytest.mark.process

TIMEOUT_S = 120.0


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program.program(), *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_tail_without_a_traceback(
    roquet: Place, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    roquet.rows("send", "endless", "first")
    words = ["tail", "endless", "--from", "earliest", "-n", roquet.namesrv]
    process = Child("roquet tail", [*program.program(), *words], tmp_path / "out")
    try:
        process.wait_until(lambda: '"body":"first"' in process.text(), "the first message", TIMEOUT_S)
        assert process.stop(number=number) == code
        assert "Traceback" not in process.text()
    finally:
        process.kill()


def test_a_reader_that_goes_away_ends_the_command_quietly(roquet: Place) -> None:
    roquet.rows("send", "long", "x" * 50_000, "--count", "50")
    words = [*program.program(), "tail", "long", "--from", "earliest", "-n", roquet.namesrv]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(TIMEOUT_S) == 0
        assert said == b""


def on_a_terminal(*words: str) -> tuple[int, str]:
    """Run a command whose output and remarks go to a terminal; returns its exit code and what that showed."""
    ours, its = pty.openpty()
    shown = b""
    with subprocess.Popen([*program.program(), *words], stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        try:
            while piece := os.read(ours, 65_536):
                shown += piece
        except OSError:  # how Linux says that the other side is closed
            pass
        finally:
            os.close(ours)
        return process.wait(TIMEOUT_S), shown.decode()


def test_a_terminal_gets_tables_and_bars(roquet: Place) -> None:
    code, shown = on_a_terminal("topic", "create", "watched", "-n", roquet.namesrv)
    assert (code, shown) == (0, "Created watched with 8 queues on broker-a.\r\n")
    code, shown = on_a_terminal("send", "watched", "x", "--count", "300", "-n", roquet.namesrv)
    assert code == 0 and "Sending to watched" in shown and "Sent 300 messages to watched." in shown
    code, shown = on_a_terminal("topic", "stats", "watched", "-n", roquet.namesrv)
    assert code == 0 and "watched: 300 messages" in shown and "{" not in shown
    code, shown = on_a_terminal(
        "bench", "send", "--seconds", "0.8", "--topic", "watched", "-n", roquet.namesrv
    )
    assert code == 0 and "/s" in shown and "per second" in shown


def test_completion_suggests_topics_and_groups(roquet: Place) -> None:
    roquet.rows("topic", "create", "orders-eu")
    roquet.rows("topic", "create", "orders-us")
    roquet.rows("group", "create", "billing")

    def complete(words: str, namesrv: str = roquet.namesrv) -> str:
        number = str(len(words.split(" ")) - 1)
        env = {"_ROQUET_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}
        return run(**env, ROQUET_NAMESRV=namesrv).stdout

    assert complete("roquet topic show or").split() == ["orders-eu", "orders-us"]
    assert complete("roquet topic show orders-e").split() == ["orders-eu"]
    assert complete("roquet group lag bil").split() == ["billing"]
    assert "delete" in complete("roquet topic de")
    assert complete("roquet topic show or", "127.0.0.1:1").strip() == ""
    # Otherwise it looks for a shell among the processes above, and there may be none.
    said = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").stdout
    assert "complete" in said


def test_help_and_version_do_not_load_the_client() -> None:
    code = (
        "import sys; from roquet.cli.main import app\n"
        "try: app(['version'])\n"
        "except SystemExit: pass\n"
        "assert not [name for name in sys.modules if name.startswith(('roquet.client', 'rich'))]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
