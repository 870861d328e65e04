"""What the measured numbers say: medians, spreads, ratios to Apache, goals; pure.

A ratio is taken within each round, where both brokers ran one after the other, and the median of these is
told: a machine that is slower for a while then slows both sides of a ratio. Numbers of a load in which
requests failed count for nobody: Apache's producer rests for seconds after a failure, so its rate then says
nothing. What is measured and which goals it has is declared here once.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from statistics import median
from typing import NamedTuple

from bench.servers import Target


class Measure(StrEnum):
    """One thing that is measured in every round; the value is its key in the results."""

    SENDS = "sends_per_s"
    MEAN = "send_mean_ms"
    P99 = "send_p99_ms"
    CONSUMED = "consumed_per_s"
    DELAYED = "delayed_sends_per_s"
    DELAYED_DUE = "delayed_sends_per_s_while_due"
    TIMED = "timed_sends_per_s"
    TRANSACTED = "transactional_sends_per_s"
    SEND_CPU = "send_cpu_s_per_million"
    CONSUME_CPU = "consume_cpu_s_per_million"
    IDLE_ANONYMOUS = "idle_anonymous_mib"
    IDLE_RESIDENT = "idle_resident_mib"
    LOADED_ANONYMOUS = "loaded_anonymous_mib"
    LOADED_RESIDENT = "loaded_resident_mib"
    IDLE_CPU = "idle_cpu_cores"
    START_FRESH = "start_fresh_s"
    START_AGAIN = "start_again_s"
    RECOVERY = "recovery_s"
    REBUILD = "recovery_without_queues_s"
    FAILURES = "failures"


LABELS = {
    Measure.SENDS: "sends per second (64 threads, 128 B)",
    Measure.MEAN: "send latency, mean, ms",
    Measure.P99: "send latency, 99th percentile, ms",
    Measure.CONSUMED: "messages consumed per second, from a backlog",
    Measure.DELAYED: "delayed sends per second (2 h)",
    Measure.DELAYED_DUE: "delayed sends per second (1 s, delivered meanwhile)",
    Measure.TIMED: "timed sends per second",
    Measure.TRANSACTED: "transactional sends per second, each committed",
    Measure.SEND_CPU: "broker CPU per million sends, s",
    Measure.CONSUME_CPU: "broker CPU per million messages consumed, s",
    Measure.IDLE_ANONYMOUS: "idle: anonymous memory, MiB",
    Measure.IDLE_RESIDENT: "idle: resident memory, MiB",
    Measure.LOADED_ANONYMOUS: "under load: anonymous memory, MiB",
    Measure.LOADED_RESIDENT: "under load: resident memory (mapped files count), MiB",
    Measure.IDLE_CPU: "idle: CPU, cores",
    Measure.START_FRESH: "start to first accepted send, new store, s",
    Measure.START_AGAIN: "start to first accepted send, second start, s",
    Measure.RECOVERY: "ready after kill -9 with a full 1 GiB log, s",
    Measure.REBUILD: "the same with queues and index deleted, s",
    Measure.FAILURES: "failed requests",
}


class Bound(Enum):
    AT_LEAST = "≥"
    AT_MOST = "≤"


class Goal(NamedTuple):
    """A ratio to Apache that we want."""

    bound: Bound
    ratio: float

    def is_reached(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.bound is Bound.AT_LEAST else ratio <= self.ratio


GOALS = {
    (Measure.SENDS, Target.ROQUET): Goal(Bound.AT_LEAST, 1.0),
    (Measure.SENDS, Target.PURE): Goal(Bound.AT_LEAST, 0.6),
    (Measure.DELAYED, Target.ROQUET): Goal(Bound.AT_LEAST, 1.0),
    (Measure.DELAYED_DUE, Target.ROQUET): Goal(Bound.AT_LEAST, 1.0),
    (Measure.TIMED, Target.ROQUET): Goal(Bound.AT_LEAST, 1.0),
    (Measure.TRANSACTED, Target.ROQUET): Goal(Bound.AT_LEAST, 1.0),
    (Measure.IDLE_ANONYMOUS, Target.ROQUET): Goal(Bound.AT_MOST, 0.2),
    (Measure.IDLE_CPU, Target.ROQUET): Goal(Bound.AT_MOST, 0.1),
    (Measure.START_FRESH, Target.ROQUET): Goal(Bound.AT_MOST, 0.2),
    (Measure.START_AGAIN, Target.ROQUET): Goal(Bound.AT_MOST, 0.2),
    (Measure.RECOVERY, Target.ROQUET): Goal(Bound.AT_MOST, 2.0),
    (Measure.REBUILD, Target.ROQUET): Goal(Bound.AT_MOST, 2.0),
}

PURE_MEASURES = (Measure.SENDS, Measure.SEND_CPU)
"""What is also told for Roquet without its compiled kernels."""

LOAD_MEASURES = frozenset(
    {
        *(Measure.SENDS, Measure.MEAN, Measure.P99, Measure.SEND_CPU),
        *(Measure.DELAYED, Measure.DELAYED_DUE, Measure.TIMED, Measure.TRANSACTED),
        *(Measure.CONSUMED, Measure.CONSUME_CPU, Measure.LOADED_ANONYMOUS, Measure.LOADED_RESIDENT),
    }
)
"""What cannot be compared when requests failed in that round."""

Values = Mapping[Target, Sequence[Mapping[Measure, float]]]
"""For each target, the numbers of each round, in order."""


class Spread(NamedTuple):
    """The median of some numbers, the lowest and the highest."""

    middle: float
    low: float
    high: float

    @property
    def percent(self) -> float:
        """Return how far lowest and highest are apart, in percent of the median."""
        return (self.high - self.low) / self.middle * 100 if self.middle else 0.0


class Row(NamedTuple):
    """One line of the comparison; `ratio` is 0 when Apache's number is (`is_comparable` is then false)."""

    measure: Measure
    target: Target
    apache: Spread
    ours: Spread
    ratio: Spread
    is_comparable: bool


def spread(numbers: Sequence[float]) -> Spread:
    """Return the spread of at least one number."""
    return Spread(median(numbers), min(numbers), max(numbers))


def numbers_of(values: Values, target: Target, measure: Measure) -> dict[int, float]:
    """Return a target's numbers that count, by round."""
    return {
        number: found[measure]
        for number, found in enumerate(values.get(target, ()))
        if measure in found and not (measure in LOAD_MEASURES and found.get(Measure.FAILURES))
    }


def compare(values: Values) -> list[Row]:
    """Return a row for everything that both sides have numbers for, in the order of `Measure`."""
    rows = []
    for measure in Measure:
        targets = (Target.ROQUET, Target.PURE) if measure in PURE_MEASURES else (Target.ROQUET,)
        apache = numbers_of(values, Target.APACHE, measure)
        for target in targets:
            ours = numbers_of(values, target, measure)
            if not ours or not apache:
                continue
            found = [ours[number] / apache[number] for number in ours if apache.get(number)]
            ratio = spread(found) if found else Spread(0.0, 0.0, 0.0)
            sides = spread([*apache.values()]), spread([*ours.values()])
            rows.append(Row(measure, target, *sides, ratio, bool(found)))
    return rows


def verdict(row: Row) -> str:
    """Return "reached", "missed", or an empty text where there is no goal or nothing to compare."""
    if row.measure is Measure.FAILURES:
        return "missed" if row.ours.high else "reached"
    goal = GOALS.get((row.measure, row.target))
    if goal is None or not row.is_comparable:
        return ""
    return "reached" if goal.is_reached(row.ratio.middle) else "missed"


def failures(values: Values) -> float:
    """Return how many requests failed in all rounds, whoever the broker was: there should be none."""
    return sum(found.get(Measure.FAILURES, 0.0) for rounds in values.values() for found in rounds)
