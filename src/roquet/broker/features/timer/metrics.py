"""How many messages of each topic wait for their time: config/timermetrics; pure.

    {"dataVersion":{…},"timingCount":{"Timed":{"count":43,"timeStamp":1794736231481}}}

Counts move by one with each message that is filed, delivered, rolled or cancelled. They are figures for
people, saved now and then: nothing is decided by them. Reference: Apache's TimerMetrics, 5.5.0.
"""

from __future__ import annotations

from typing import Any

import msgspec

from roquet.model.topic import DataVersion


class Metric(msgspec.Struct, rename="camel"):
    """One topic's count, and when it changed last."""

    count: int = 0
    time_stamp: int = 0


class _Stored(msgspec.Struct, rename="camel"):
    data_version: DataVersion = DataVersion()
    timing_count: dict[str, Metric] = {}


class Metrics:
    """The counts of all topics."""

    def __init__(self) -> None:
        self.version = DataVersion()
        self.counts: dict[str, Metric] = {}
        self.is_changed = False

    def load(self, stored: object) -> None:
        """Take over what timermetrics held."""
        read = msgspec.convert(stored, _Stored, strict=False)
        self.version, self.counts = read.data_version, read.timing_count

    def dump(self) -> dict[str, Any]:
        """Return what timermetrics shall hold; also the answer to GET_TIMER_METRICS."""
        return {
            "dataVersion": msgspec.to_builtins(self.version),
            "timingCount": {topic: msgspec.to_builtins(metric) for topic, metric in self.counts.items()},
        }

    def saved(self) -> None:
        self.is_changed = False

    def add(self, topic: str, step: int, now_ms: int) -> None:
        """Count messages of a topic up or down; one that nobody waits for any more is forgotten."""
        metric = self.counts.get(topic)
        if metric is None:
            metric = self.counts[topic] = Metric()
        metric.count += step
        metric.time_stamp = now_ms
        if metric.count == 0:
            del self.counts[topic]
        self.version = self.version.next(now_ms)
        self.is_changed = True
