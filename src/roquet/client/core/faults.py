"""Brokers that were slow or did not answer, and how long each is left alone; pure.

    an answer took at least      550 ms   1.8 s   3 s   5 s   15 s
    the broker is avoided for      2 s      5 s   6 s   10 s   30 s      quicker ones not at all

A failure counts as an answer after ten seconds. Avoided is not forbidden: when every broker is, the
choice is as if none were. Reference: MQFaultStrategy of Apache 5.5.0 (`sendLatencyEnable`).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

LATENCIES_S: Final = (0.55, 1.8, 3.0, 5.0, 15.0)
PENALTIES_S: Final = (0.0, 2.0, 5.0, 6.0, 10.0, 30.0)
FAILURE_S: Final = 10.0


class Faults:
    """What is remembered of each broker name."""

    __slots__ = ("_avoided_until",)

    def __init__(self) -> None:
        self._avoided_until: dict[str, float] = {}

    def answered(self, broker: str, latency_s: float, now: float) -> None:
        """Note how long an answer took; a quick one clears the broker's name."""
        penalty_s = PENALTIES_S[bisect_right(LATENCIES_S, latency_s)]
        if penalty_s:
            self._avoided_until[broker] = now + penalty_s
        else:
            self._avoided_until.pop(broker, None)

    def failed(self, broker: str, now: float) -> None:
        """Note that no answer, or a bad one, came."""
        self.answered(broker, FAILURE_S, now)

    def is_good(self, broker: str, now: float) -> bool:
        """True unless the broker is to be left alone now."""
        until = self._avoided_until.get(broker)
        return until is None or until <= now
