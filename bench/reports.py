"""What Apache's benchmark programs print, as values; pure.

    Current Time: 2025-11-15 09:38:06,694 | Send TPS: 4973 | Max RT(ms): 1766 | Average RT(ms):  13.129 | …

All programs take a snapshot of their counters each second and report, with `-ri 1000`, each second from the
tenth on: the difference between the newest snapshot and the one nine seconds before. So line n and line n+9
cover times that touch and do not overlap. The timer's program knows no `-ri` and reports every ten seconds,
on the last nine of them. Reference: org.apache.rocketmq.example.benchmark, 5.5.0: Producer, Consumer,
TransactionProducer, BatchProducer, timer.TimerProducer.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

REPORT_SPAN_S = 9
"""Seconds that one line reports on: ten snapshots, a second apart."""

_SENT = re.compile(
    r"Send TPS: (\d+) \| Max RT\(ms\): (\d+) \| Average RT\(ms\): +(\S+) "
    r"\| Send Failed: (\d+) \| Response Failed: (\d+)"
)
_TIMED = re.compile(
    r"Send TPS: (\d+), Max RT: (\d+), Average RT: +(\S+), Send Failed: (\d+), Response Failed: (\d+)"
)
_TRANSACTED = re.compile(
    r"Send TPS: +(\d+) \| Max RT\(ms\): +(\d+) \| AVG RT\(ms\): +(\S+) \| Send Failed: (\d+) \| Check:"
)
_BATCHED = re.compile(
    r"Send TPS: \d+ \| Send MPS: (\d+) \| Max RT\(ms\): \d+ \| Average RT\(ms\): +(\S+) "
    r"\| Average Message RT\(ms\): +\S+ \| Send Failed: (\d+)"
)
_CONSUMED = re.compile(r"Consume TPS: (\d+) \|.*\| Consume Fail: (\d+)")


class Report(NamedTuple):
    """One line: messages per second and mean latency over nine seconds, failures since the start.

    The consumer's lines carry no latency that means anything for a backlog: theirs is 0.
    """

    messages_per_s: float
    mean_ms: float
    failures: int


def sent_reports(text: str) -> list[Report]:
    """Return the producer's lines in order; an unfinished last line is left out."""
    return _sent(text, _SENT)


def timed_reports(text: str) -> list[Report]:
    """Return the lines of the timer's producer, ten seconds apart."""
    return _sent(text, _TIMED)


def batched_reports(text: str) -> list[Report]:
    """Return the lines of the batch producer: messages, and not batches, each second."""
    return [
        Report(float(found[1]), _number(found[2]), int(found[3]))
        for line in _whole_lines(text)
        if (found := _BATCHED.search(line))
    ]


def transacted_reports(text: str) -> list[Report]:
    """Return the lines of the transaction producer.

    It counts failures for the nine seconds alone: those of the line nine before are added, so that here,
    too, the number of line 1, 10, 19 … is the one since the start.
    """
    reports: list[Report] = []
    for line in _whole_lines(text):
        if found := _TRANSACTED.search(line):
            earlier = reports[-REPORT_SPAN_S].failures if len(reports) >= REPORT_SPAN_S else 0
            reports.append(Report(float(found[1]), _number(found[3]), int(found[4]) + earlier))
    return reports


def consumed_reports(text: str) -> list[Report]:
    """Return the consumer's lines in order; an unfinished last line is left out."""
    return [
        Report(float(found[1]), 0.0, int(found[2]))
        for line in _whole_lines(text)
        if (found := _CONSUMED.search(line))
    ]


def combine(windows: Sequence[Report]) -> Report:
    """Return one report for several windows of equal length; a mean counts as often as its messages."""
    assert windows
    messages_per_s = sum(window.messages_per_s for window in windows)
    latency = sum(window.mean_ms * window.messages_per_s for window in windows)
    return Report(
        messages_per_s / len(windows),
        latency / messages_per_s if messages_per_s else 0.0,
        max(window.failures for window in windows),
    )


def _sent(text: str, pattern: re.Pattern[str]) -> list[Report]:
    return [
        Report(float(found[1]), _number(found[3]), int(found[4]) + int(found[5]))
        for line in _whole_lines(text)
        if (found := pattern.search(line))
    ]


def _whole_lines(text: str) -> list[str]:
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _number(text: str) -> float:
    """Return a number of Java's %f; without a single message Java prints NaN."""
    return 0.0 if text == "NaN" else float(text)
