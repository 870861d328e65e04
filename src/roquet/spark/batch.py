"""`spark.read.format("roquet")`: topics as a table, as they are when the query is planned.

    partitions: queues ─▶ bounds ─▶ starts and ends ─▶ conditions of `where` ─▶ packed ranges       (driver)
    read:       one partition's ranges ─▶ Arrow batches                                               (tasks)

A reader holds values only, since it travels to the tasks; connections live inside of each call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from roquet.client.reader.reader import Bounds
from roquet.model.route import QueueName
from roquet.spark.access import Turns
from roquet.spark.plan import Range, between, narrowed, pack, partition_count
from roquet.spark.pushdown import Conditions, decline, take
from roquet.spark.read import How, read_ranges
from roquet.spark.survey import Survey

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("roquet.spark")

PUSHED: Final = ("topic", "broker", "queue_id", "queue_offset", "store_time", "tag")

CLOCK_STEP: Final = timedelta(minutes=1)
"""Messages may lie out of order by so much time where a broker's clock was set back."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class QueuePartition(InputPartition):
    """Ranges of queues that one task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(tuple(ranges))


def packed(ranges: Sequence[Range], given: Mapping[str, Any]) -> list[QueuePartition]:
    """Return ranges as the partitions that the options ask for."""
    rows = sum(each.rows for each in ranges)
    count = partition_count(
        rows, given["minPartitions"], given["maxPartitions"], given["maxRecordsPerPartition"]
    )
    return [QueuePartition(each) for each in pack(ranges, count)]


class RoquetReader(DataSourceReader):
    """Plans a batch and reads it."""

    def __init__(self, given: Mapping[str, Any], how: How) -> None:
        self._given = given
        self._how = how
        self._pushed = Conditions()

    def partitions(self) -> Sequence[InputPartition]:
        if self._pushed.is_empty:
            return []
        with Turns() as turns:
            return packed(turns.run(self._ranges()), self._given)

    async def _ranges(self) -> list[Range]:
        survey = Survey(self._given)
        await survey.open()
        try:
            bounds = await survey.bounds(await survey.queues())
            starts = await survey.starts(bounds, "earliest")
            ends = await survey.ends(bounds)
            ranges = narrowed(between(starts, ends), self._pushed)
            return await self._within_times(survey, bounds, ranges)
        finally:
            await survey.close()

    async def _within_times(
        self, survey: Survey, bounds: Mapping[QueueName, Bounds], ranges: list[Range]
    ) -> list[Range]:
        """Leave out what lies outside of pushed times by far; the rest is looked at row by row."""
        since, until = self._pushed.since, self._pushed.until
        wanted = {each.queue: bounds[each.queue] for each in ranges}
        if since is not None:
            first = await survey.at_time(wanted, since - CLOCK_STEP)
            ranges = [
                each._replace(start=max(each.start, _or(first[each.queue], each.end))) for each in ranges
            ]
        if until is not None:
            last = await survey.at_time(wanted, until + CLOCK_STEP)
            ranges = [each._replace(end=min(each.end, _or(last[each.queue], each.end))) for each in ranges]
        return [each for each in ranges if each.rows > 0]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes one partition of None where a plan has none.
        return iter(()) if partition.value is None else read_ranges(partition.value, self._how)


class PushingReader(RoquetReader):
    """A reader that takes conditions over, where Spark offers them."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        self._pushed, left = take(filters, PUSHED)
        self._how = pushed_into(self._how, self._pushed)
        return iter(left)


class TellingReader(RoquetReader):
    """A reader that takes no conditions over, and says what it could have done with them."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        return iter(decline(filters, PUSHED))


def pushed_into(how: How, wanted: Conditions) -> How:
    """Return how to read only what meets conditions on tags and times."""
    sieve = how.sieve
    if wanted.since is not None:
        sieve = sieve._replace(store_ms_from=_milliseconds(wanted.since))
    if wanted.until is not None:
        sieve = sieve._replace(store_ms_to=_milliseconds(wanted.until))
    how = how._replace(sieve=sieve)
    if wanted.tags is None:
        return how
    tags = wanted.tags if how.exact_tags is None else how.exact_tags & wanted.tags
    is_plain = all(tag and tag == tag.strip() and "|" not in tag and tag != "*" for tag in tags)
    if tags and is_plain and how.sql is None:  # brokers know no other tags; those are compared here alone
        how = how._replace(tags=" || ".join(sorted(tags)))
    return how._replace(exact_tags=frozenset(tags))


def _milliseconds(time: datetime) -> int:
    return max(0, (time - _EPOCH) // timedelta(milliseconds=1))


def _or(found: int | None, otherwise: int) -> int:
    return otherwise if found is None else found
