"""How many messages a second each topic sees, over the last minute: counts are looked at now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from roquet.client.consumer.claim import Claim

SAMPLES_MAX: Final = 13
"""A minute of samples, one every five seconds."""


class Rate(NamedTuple):
    """Messages a second of one topic; `failed_count` is of the whole time."""

    pulled_per_s: float = 0.0
    acked_per_s: float = 0.0
    failed_per_s: float = 0.0
    failed_count: int = 0


class _Counts(NamedTuple):
    pulled: int
    acked: int
    failed: int


class Rates:
    """Samples of one consumer's counts."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, dict[Claim, _Counts]]] = deque(maxlen=SAMPLES_MAX)

    def sample(self, now: float, claims: Iterable[Claim]) -> None:
        """Remember how far each queue is."""
        self._samples.append((now, {claim: _counts(claim) for claim in claims}))

    def by_topic(self, now: float, claims: Iterable[Claim]) -> dict[str, Rate]:
        """Return the rates since the oldest sample."""
        then, before = self._samples[0] if self._samples else (now, {})
        seconds = max(now - then, 1.0)
        rates: dict[str, Rate] = {}
        for claim in claims:
            old, new = before.get(claim, _Counts(0, 0, 0)), _counts(claim)
            rate = rates.get(claim.queue.topic, Rate())
            rates[claim.queue.topic] = Rate(
                rate.pulled_per_s + (new.pulled - old.pulled) / seconds,
                rate.acked_per_s + (new.acked - old.acked) / seconds,
                rate.failed_per_s + (new.failed - old.failed) / seconds,
                rate.failed_count + new.failed,
            )
        return rates


def _counts(claim: Claim) -> _Counts:
    return _Counts(claim.pulled_count, claim.acked_count, claim.failed_count)
