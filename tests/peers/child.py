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
TAIL_LINES = 40


class ChildError(Exception):
    """A child died, or did not do in time what was expected of it."""


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

    def stop(self, grace_s: float = 20.0, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end by a signal and return its exit status; kill it and raise when it does not."""
        if self.alive():
            self._process.send_signal(number)
        try:
            return self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ChildError(
                f"{self.name} did not end within {grace_s} s of {number.name}\n{self.tail()}"
            ) from None

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does."""
        if self.alive():
            self._process.kill()
        self._process.wait(10)

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

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.alive():
            self.stop()
