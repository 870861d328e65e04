"""A JVM that answers lines: one request in on standard input, one JSON object out on standard output.

Starting a JVM and warming its client costs a second or two, so the scenario driver and the mqadmin driver
stay up and take many requests. A request is words separated by tabs. Everything else that the JVM prints
goes to its log file, which errors quote.
"""

import json
import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TAIL_LINES = 40
CHUNK_BYTES = 1 << 16


class NoAnswer(Exception):
    """The JVM died or did not answer in time."""


class LineServer:
    """One running JVM, whose working directory is that of its log; a context manager, or call `close`."""

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._log = log
        self._buffer = b""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                cwd=log.parent,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests = self._process.stdin
        self._answers = self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, words: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Send one request and return the JSON object that answers it."""
        assert not any("\t" in word or "\n" in word for word in words)
        try:
            self._requests.write("\t".join(words).encode() + b"\n")
        except BrokenPipeError:
            raise self._silence(words, "has died") from None
        answer = json.loads(self._line(words, time.monotonic() + timeout_s))
        assert isinstance(answer, dict)
        return answer

    def _line(self, words: Sequence[str], deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self._selector.select(left_s):
                raise self._silence(words, "did not answer in time")
            chunk = os.read(self._answers.fileno(), CHUNK_BYTES)
            if not chunk:
                raise self._silence(words, "has died")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _silence(self, words: Sequence[str], what: str) -> NoAnswer:
        # A late answer would be taken for the next one's, so a JVM that failed once is not asked again.
        self.close(grace_s=0.5)
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        return NoAnswer(f"{self._name} {what}: {' '.join(words)}\n{tail}")

    def close(self, grace_s: float = 5.0) -> None:
        """End the JVM: it leaves when its input ends, and is killed when it does not."""
        if not self._requests.closed:
            self._requests.close()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._selector.close()
        self._answers.close()

    def __enter__(self) -> "LineServer":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
