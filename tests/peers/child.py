"""A child process with a log file, an owner and a certain end.

Every server and every JVM that the tests start is a `Child`. Its output goes to a file, so that it never
blocks on a full pipe and so that an error can quote its last lines. Waiting is always for a condition, with
a bound, and stops early when the process has died.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

POLL_S = 0.02
STOP_TIMEOUT_S = 60.0
TAIL_LINES = 40


class ChildError(Exception):
    """A child died, or did not do in time what was expected of it."""


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Poll until the condition holds; raise `ChildError` when time is up."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise ChildError(f"{what} did not happen within {timeout_s} s")
        time.sleep(POLL_S)


class Child:
    """One running process; use as a context manager, or call `stop` or `kill`."""

    def __init__(
        self, name: str, argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is alive."""
        if self.alive():
            self._process.send_signal(number)

    def stop(self, grace_s: float = STOP_TIMEOUT_S, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end by a signal and return its exit status; kill it and raise when it does not."""
        self.send(number)
        return self.ended(grace_s)

    def ended(self, grace_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for its end and return its exit status; kill it and raise when the end does not come."""
        try:
            return self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ChildError(f"{self.name} did not end within {grace_s} s\n{self.tail()}") from None

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does."""
        if self.alive():
            self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        """Return the last lines of its output, for error messages."""
        return "\n".join(self.text().splitlines()[-TAIL_LINES:])

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Poll until the condition holds; raise `ChildError` when time is up or the process has died."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if not self.alive():
                raise ChildError(f"{self.name} died before {what}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ChildError(f"{self.name}: {what} did not happen within {timeout_s} s\n{self.tail()}")
            time.sleep(POLL_S)

    def wait_until_gone(self, file: Path, timeout_s: float) -> None:
        """Wait until a file is not there, or the process has ended, which may have left it."""
        wait_for(lambda: not file.exists() or not self.alive(), f"{self.name}: the end of {file}", timeout_s)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.alive():
            self.stop()
