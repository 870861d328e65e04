"""A way to run a command of the command line in this process, and to see all that it did.

The command is built once: that takes longer than most commands do. Output is no terminal here, so results
are JSON lines unless a test says --table.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import typer.main

from roquet.cli.main import app

COMMAND: Final = typer.main.get_command(app)


class Ran(NamedTuple):
    """What a command did: its exit code, what it printed as results and as remarks."""

    code: int
    out: str
    err: str

    def rows(self) -> list[dict[str, Any]]:
        """Return the JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def run(*words: str, stdin: str = "", **env: str) -> Ran:
    """Run a command; whatever is not an exit is an error of the test."""
    out, err = io.StringIO(), io.StringIO()
    typed = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with redirect_stdout(out), redirect_stderr(err), patch("sys.stdin", typed), patch.dict("os.environ", env):
        try:
            COMMAND.main(list(words), prog_name="roquet")
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return Ran(code, out.getvalue(), err.getvalue())


class Place:
    """Runs commands against one cluster."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv

    def __call__(self, *words: str, stdin: str = "") -> Ran:
        return run(*words, "-n", self.namesrv, stdin=stdin)

    def rows(self, *words: str, stdin: str = "") -> list[dict[str, Any]]:
        """Run a command that must succeed and return its JSON lines."""
        ran = self(*words, stdin=stdin)
        assert ran.code == 0, ran
        return ran.rows()
