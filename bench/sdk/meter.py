"""What a client has to do, and how its work is counted; the standard library only, for every interpreter.

    start ──── warm-up, cut ────▶ begin() ──── measured ────▶ end() ─▶ one line of JSON

A meter has a slot for each thread or task, so that counting needs no lock. A receiver that has had the whole
backlog ends the measured time itself: waiting for messages is not receiving.
"""

import json
import time
from typing import NamedTuple

POLL_S = 0.02
"""How often the phases are looked at."""


class Job(NamedTuple):
    """One client's work; travels as JSON in the first argument of its program."""

    client: str
    work: str
    address: str
    """Of the name server, or of the proxy."""
    topic: str
    group: str
    body_bytes: int
    senders: int
    batch: int
    warm_up_s: float
    measured_s: float
    backlog: int
    """Messages that are there to be received."""

    def to_json(self) -> str:
        return json.dumps(self._asdict())


class Report(NamedTuple):
    """What was done in the measured time."""

    messages: int
    failures: int
    """Of the whole run, warm-up included: a failure is never welcome."""
    seconds: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        return self.messages / self.seconds

    @property
    def cpu_s_per_million(self) -> float:
        return self.cpu_s / self.messages * 1_000_000


def read_job(text: str) -> Job:
    return Job(**json.loads(text))


def read_report(text: str) -> Report | None:
    """Return the report in a client's output, or None when it is not there yet."""
    for line in text.splitlines(keepends=True):
        if line.startswith('{"messages"') and line.endswith("\n"):
            return Report(**json.loads(line))
    return None


class Meter:
    """Counts the messages of one process."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._slots: list[int] = [0] * max(job.senders, 1)
        self._started_s = time.monotonic()
        self._first = self._last = (0, 0.0, 0.0)
        self._has_begun = False
        self.failures = 0
        self.is_over = False

    def add(self, slot: int, messages: int) -> None:
        """Count messages; only one thread or task may use a slot."""
        self._slots[slot] += messages
        if self._slots[slot] >= self._job.backlog:
            self.end()

    def pass_time(self) -> bool:
        """Begin and end when it is time; return whether there is more to do."""
        passed_s = time.monotonic() - self._started_s
        if not self._has_begun and passed_s >= self._job.warm_up_s and any(self._slots):
            self._has_begun = True
            self._first = self._look()
        elif self._has_begun and time.monotonic() - self._first[1] >= self._job.measured_s:
            self.end()
        return not self.is_over

    def end(self) -> None:
        if not self.is_over:
            self._last = self._look()
            self.is_over = True

    def print_report(self) -> None:
        """Print the report; without a measured time it has no message in it."""
        (messages, at_s, cpu_s), (last, end_s, end_cpu_s) = self._first, self._last
        done = last - messages if self._has_begun else 0
        report = Report(done, self.failures, end_s - at_s, end_cpu_s - cpu_s)
        print(json.dumps(report._asdict()), flush=True)

    def _look(self) -> tuple[int, float, float]:
        return sum(self._slots), time.monotonic(), time.process_time()
