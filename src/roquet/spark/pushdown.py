"""Conditions of a query that the reader takes over: topics, brokers, queues, offsets, times, tags.

Spark offers the conditions of `where` that are joined by AND and compare one column with values. Those
that a plan or a broker can answer exactly are taken and no longer checked by Spark; the rest is given
back. Spark asks a reader that overrides `pushFilters` only when its push-down is on, and fails when it
is off; `is_offered` tells which it is.

Spark 4.2 and 4.3 keep one plan for all scans of a DataFrame: the last one that conditions were offered
for. A scan without conditions asks for none and gets that plan, and two scans in one query, each with
conditions of its own, get the plan of the second; both lack rows. No reader can tell, since its tasks do
not know whose they are. So it is only done where the option asks for it: one DataFrame, one scan. Where
it does not, a line says what could have been read less.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from roquet.spark.options import SWITCH, Option

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

log = logging.getLogger("roquet.spark")

OFFERING_MODULE: Final = "pyspark.sql.worker.data_source_pushdown_filters"
OFFSET_MAX: Final = (1 << 63) - 1

PUSHDOWN: Final = Option(
    "pushdown",
    SWITCH,
    False,
    "Let `where` choose what is read, instead of reading all and sorting it out. Off by itself, since Spark "
    "4.2 and 4.3 have one plan for all uses of a DataFrame: then load one for each `where`, and use it once "
    "in a query. Where it is off, a line in the log says what it could have done.",
)


class Conditions(NamedTuple):
    """What a query wants, as far as it is known. None means anything; ends are exclusive."""

    topics: frozenset[str] | None = None
    brokers: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    offset_from: int = 0
    offset_to: int = OFFSET_MAX
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """True when no row can meet them all."""
        sets = (self.topics, self.brokers, self.queue_ids, self.tags)
        return any(wanted is not None and not wanted for wanted in sets) or self.offset_from >= self.offset_to


SETS: Final = {"topic": "topics", "broker": "brokers", "queue_id": "queue_ids", "tag": "tags"}


def is_offered() -> bool:
    """True in the process in which Spark offers conditions to a reader."""
    return OFFERING_MODULE in sys.modules


def take(filters: Iterable[Filter], columns: Iterable[str]) -> tuple[Conditions, list[Filter]]:
    """Return the conditions that are taken over columns among `columns`, and the filters that are not."""
    wanted, taken, left = _sorted(filters, columns)
    if words := _shown(taken):
        _say(f"pushed down: {words}")
    return wanted, left


def decline(filters: Iterable[Filter], columns: Iterable[str]) -> list[Filter]:
    """Return all filters, and say which of them would have been taken."""
    listed = list(filters)
    _, taken, _ = _sorted(listed, columns)
    if words := _shown(taken):
        _say(
            f"not pushed down: {words}; all is read, and Spark sorts it out. With "
            'option("pushdown", "true") less is read, by a DataFrame that is used once'
        )
    return listed


def _sorted(
    filters: Iterable[Filter], columns: Iterable[str]
) -> tuple[Conditions, list[Filter], list[Filter]]:
    """Return conditions, the filters that they are made of, and the others."""
    offered = frozenset(columns)
    wanted = Conditions()
    taken: list[Filter] = []
    left: list[Filter] = []
    for one in filters:
        narrowed = _narrow(wanted, one, offered)
        if narrowed is None:
            left.append(one)
        else:
            wanted = narrowed
            taken.append(one)
    return wanted, taken, left


SIGNS: Final = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "In": "in",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}


def _shown(filters: Iterable[Any]) -> str:
    """Return filters as they stand in a query; that a compared column is not null goes without saying."""
    words = [
        f"{one.attribute[0]} {SIGNS[type(one).__name__]} {_value(one.value)}"
        for one in filters
        if type(one).__name__ in SIGNS
    ]
    return " and ".join(words)


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return f"'{value.isoformat(sep=' ')}'"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_value, value))})"
    return repr(value)


def _say(words: str) -> None:
    """Log a line that can be seen: nobody sets up logging in the process in which Spark plans."""
    if is_offered():
        if log.level == logging.NOTSET:
            log.setLevel(logging.INFO)
        if not log.hasHandlers():
            shown = logging.StreamHandler()  # standard error there is that of the driver
            shown.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
            log.addHandler(shown)
    log.info("%s", words)


def _narrow(wanted: Conditions, one: Any, offered: frozenset[str]) -> Conditions | None:
    """Return the conditions with one filter more, None when it is not ours."""
    name = type(one).__name__
    column = one.attribute[0] if len(getattr(one, "attribute", ())) == 1 else ""
    if column not in offered:
        return None
    if name == "IsNotNull":
        return wanted if column in (*SETS, "queue_offset", "store_time") else None
    if column in SETS and name in ("EqualTo", "EqualNullSafe", "In"):
        values = frozenset(one.value if name == "In" else (one.value,))
        return None if None in values else _intersect(wanted, SETS[column], values)
    if column == "queue_offset" and isinstance(getattr(one, "value", None), int):
        return _offsets(wanted, name, one.value)
    if column == "store_time" and isinstance(getattr(one, "value", None), datetime):
        return _times(wanted, name, one.value)
    return None


def _intersect(wanted: Conditions, field: str, values: frozenset[Any]) -> Conditions:
    before = getattr(wanted, field)
    narrowed: dict[str, Any] = {field: values if before is None else before & values}
    return wanted._replace(**narrowed)


def _offsets(wanted: Conditions, name: str, value: int) -> Conditions | None:
    lowest, highest = wanted.offset_from, wanted.offset_to
    match name:
        case "EqualTo" | "EqualNullSafe":
            lowest, highest = max(lowest, value), min(highest, value + 1)
        case "GreaterThan":
            lowest = max(lowest, value + 1)
        case "GreaterThanOrEqual":
            lowest = max(lowest, value)
        case "LessThan":
            highest = min(highest, value)
        case "LessThanOrEqual":
            highest = min(highest, value + 1)
        case _:
            return None
    return wanted._replace(offset_from=lowest, offset_to=highest)


def _times(wanted: Conditions, name: str, value: datetime) -> Conditions | None:
    """Store times are whole milliseconds: ≥ and < at those are exact, others are left to Spark."""
    time = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if time.microsecond % 1000:
        return None
    if name == "GreaterThanOrEqual":
        return wanted._replace(since=time if wanted.since is None else max(wanted.since, time))
    if name == "LessThan":
        return wanted._replace(until=time if wanted.until is None else min(wanted.until, time))
    return None
