"""Apache's mqadmin 5.5.0: one JVM that takes many command lines.

`Mqadmin.run("topicRoute", "-t", "T")` returns what the command printed. mqadmin reports most failures as
a stack trace on its standard error and still exits with 0, so `run` looks for one and raises
`CommandFailed`, which lists the requests that the command sent with the codes of their answers; `fails` is
for the commands that are meant to fail.
"""

import re
import time
from pathlib import Path

from tests.peers import jars
from tests.peers.java import small_jvm
from tests.peers.lines import LineServer

COMMAND_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 60.0
POLL_S = 0.05
STACK_FRAME = re.compile(r"^\tat [\w.$/]+\(", re.MULTILINE)


class CommandFailed(AssertionError):
    """An mqadmin command threw, or printed a stack trace."""


class Mqadmin:
    """A JVM with Apache's tools, pointed at one name server; a context manager, or call `close`."""

    def __init__(self, namesrv: str, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.namesrv = namesrv
        self.requests: list[str] = []  # of the last command, as "code=answer @address {fields}"
        argv = [jars.java(), *small_jvm(home), f"-Drocketmq.home.dir={home}", "-cp", jars.tools_classpath()]
        self._lines = LineServer("mqadmin", [*argv, "roquet.compat.Mqadmin"], home / "mqadmin.out")

    def run(self, command: str, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run one command and return its output; raise `CommandFailed` when it did not work."""
        output, went_well = self._ask(command, arguments, timeout_s)
        if not went_well:
            requests = "\n".join(self.requests)
            raise CommandFailed(f"mqadmin {command} {' '.join(arguments)}\n{output}\nrequests:\n{requests}")
        return output

    def run_until(self, expected: str, command: str, *arguments: str) -> str:
        """Run one command again and again until its output holds this text, and return that output."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            output = self.show(command, *arguments)
            if expected in output:
                return output
            if time.monotonic() > deadline:
                raise CommandFailed(
                    f"mqadmin {command} {' '.join(arguments)} never showed {expected!r}\n{output}"
                )
            time.sleep(POLL_S)

    def show(self, command: str, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run one command and return its output, whether it worked or not."""
        return self._ask(command, arguments, timeout_s)[0]

    def fails(self, command: str, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run one command that must fail and return its output, with the stack trace."""
        output, went_well = self._ask(command, arguments, timeout_s)
        if went_well:
            raise CommandFailed(f"mqadmin {command} {' '.join(arguments)} was expected to fail\n{output}")
        return output

    def _ask(self, command: str, arguments: tuple[str, ...], timeout_s: float) -> tuple[str, bool]:
        answer = self._lines.ask([command, *arguments, "-n", self.namesrv], timeout_s)
        output = str(answer["output"])
        self.requests = list(answer["requests"])
        return output, bool(answer["ok"]) and STACK_FRAME.search(output) is None

    def close(self) -> None:
        self._lines.close()

    def __enter__(self) -> "Mqadmin":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
