"""`spark.readStream.format("roquet")`: what has come since the last batch, by offsets in the checkpoint.

    initialOffset ─▶ latestOffset(start, limit) ─▶ partitions(start, end) ─▶ read ─▶ commit(end) …
                      │ all queues' ends, those of new queues among them
                      └ minus what the limits leave for later; AvailableNow stops where it began

One reader lives on the driver as long as its query and keeps its connections; copies of it read in the
tasks. The first batch of a query that begins at the end is empty: it writes that end into the checkpoint,
so that a query which dies right then begins there again and not later. Progress that is committed to a
group is for watching only.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from roquet.client.errors import NamesUnreachable
from roquet.model.route import QueueName
from roquet.spark.access import Turns, report_loss
from roquet.spark.batch import packed
from roquet.spark.behind import BEHIND_BYTES
from roquet.spark.plan import admit, admit_bytes, between, from_json, rows_between, to_json
from roquet.spark.read import How, read_ranges
from roquet.spark.survey import Survey, shown

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("roquet.spark")

Result = TypeVar("Result")

SIZES_SECONDS: Final = 30.0
"""How long a queue's mean message size is believed."""


class RoquetStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of one query and reads them."""

    def __init__(self, given: Mapping[str, Any], how: How) -> None:
        self._given = given
        self._how = how
        self._turns: Turns | None = None
        self._survey: Survey | None = None
        self._queues: tuple[QueueName, ...] = ()
        self._queues_at = float("-inf")
        self._latest: dict[QueueName, int] = {}
        self._target: dict[QueueName, int] | None = None
        self._initial: dict[QueueName, int] | None = None
        self._end: dict[QueueName, int] | None = None
        self._batch_at = float("-inf")
        self._sizes: dict[QueueName, float] = {}
        self._sizes_at = float("-inf")
        self._away: set[QueueName] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given, "_how": self._how}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_given"], state["_how"])  # type: ignore[misc]

    # --- what Spark calls

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            self._initial = self._run(self._find_initial)
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        given = self._given
        if given["maxOffsetsPerTrigger"] is not None:
            return ReadMaxRows(given["maxOffsetsPerTrigger"])
        if given["maxBytesPerTrigger"] is not None:
            return ReadMaxBytes(given["maxBytesPerTrigger"])
        if given["minOffsetsPerTrigger"] is not None:
            return ReadMinRows(given["minOffsetsPerTrigger"])
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._run(self._find_latest)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        since = self._initial or {} if start is None else from_json(start)
        self._end = self._run(lambda survey: self._next_end(survey, since, limit))
        return to_json(self._end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        if self._end is None:
            return None
        behind = self._run(self._behind_bytes)
        return {**to_json({**self._end, **self._latest}), BEHIND_BYTES: behind}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return packed(between(from_json(start), from_json(end)), self._given)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(partition.value, self._how)

    def commit(self, end: dict[str, Any]) -> None:
        if self._given["group"]:
            offsets = from_json(end)
            self._run(lambda survey: survey.store(offsets))

    def stop(self) -> None:
        turns, survey = self._turns, self._survey
        self._turns = self._survey = None
        if turns is not None:
            if survey is not None:
                turns.run(survey.close())
            turns.close()

    # --- on the loop

    def _run(self, work: Any) -> Any:
        """Run `work(survey)` on the query's own loop, connecting when that was not done yet."""
        if self._turns is None:
            self._turns = Turns()
        return self._turns.run(self._connected(work))

    async def _connected(self, work: Any) -> Any:
        if self._survey is None:
            survey = Survey(self._given)
            await survey.open()
            self._survey = survey
        found: Coroutine[Any, Any, Any] = work(self._survey)
        return await found

    async def _find_initial(self, survey: Survey) -> dict[QueueName, int]:
        bounds = await survey.bounds(await survey.queues())
        return await survey.starts(bounds, "latest")

    async def _find_latest(self, survey: Survey) -> dict[QueueName, int]:
        """Return the end of every queue there is, looking for new ones from time to time."""
        now = survey.clock.monotonic()
        if now - self._queues_at >= self._given["queueDiscoveryInterval"].total_seconds():
            try:
                self._queues = await survey.queues(missing_is_error=False)
            except NamesUnreachable as error:
                if not self._queues:
                    raise
                log.warning("going on with the queues that are known: %s", error.what)
            self._queues_at = now
        self._latest = await survey.latest(self._queues)
        return self._latest

    async def _next_end(
        self, survey: Survey, since: dict[QueueName, int], limit: ReadLimit | None
    ) -> dict[QueueName, int]:
        is_first, self._end = self._end is None, since
        latest = await self._find_latest(survey) if self._target is None else self._target
        new = [queue for queue in latest if queue not in since]
        if is_first:
            await self._check_begins(survey, since)
        self._check_away(since, latest)
        shorter = await self._shorter(survey, since, latest)
        if is_first and since == self._initial and self._given["startingOffsets"] != "earliest":
            return since
        begins = await survey.bounds(new) if new else {}
        start = since | {queue: ends.min_offset for queue, ends in begins.items()}
        end = {**start, **{queue: max(at, start[queue]) for queue, at in latest.items()}}
        if not isinstance(limit, ReadAllAvailable | None):
            end = await self._limited(survey, start, end)
        return {**end, **shorter}

    async def _limited(
        self, survey: Survey, start: dict[QueueName, int], end: dict[QueueName, int]
    ) -> dict[QueueName, int]:
        """Return where a batch ends that keeps to the options."""
        given, now = self._given, survey.clock.monotonic()
        waiting = rows_between(start, end)
        least, is_drained = given["minOffsetsPerTrigger"], self._target is not None
        patience_s = given["maxTriggerDelay"].total_seconds()
        if least is not None and not is_drained and waiting < least and now - self._batch_at < patience_s:
            return start
        if waiting:
            self._batch_at = now
        if given["maxOffsetsPerTrigger"] is not None:
            end = admit(start, end, given["maxOffsetsPerTrigger"])
        if given["maxBytesPerTrigger"] is not None:
            positions = {each.queue: each.start for each in between(start, end)}
            end = admit_bytes(start, end, await survey.row_bytes(positions), given["maxBytesPerTrigger"])
        return end

    async def _behind_bytes(self, survey: Survey) -> int:
        assert self._end is not None
        behind = between(self._end, self._latest)
        now = survey.clock.monotonic()
        if now - self._sizes_at >= SIZES_SECONDS:
            self._sizes, self._sizes_at = {}, now
        unknown = {each.queue: each.start for each in behind if each.queue not in self._sizes}
        if unknown:
            self._sizes |= await survey.row_bytes(unknown)
        return int(sum(each.rows * self._sizes.get(each.queue, 0.0) for each in behind))

    # --- what is gone

    async def _check_begins(self, survey: Survey, since: Mapping[QueueName, int]) -> None:
        """Report what was deleted by age while the query did not run."""
        served = [queue for queue in since if queue in self._latest]
        for queue, ends in (await survey.bounds(served)).items():
            if since[queue] < ends.min_offset:
                what = (
                    f"{shown(queue)} begins at {ends.min_offset} by now, and the query is at {since[queue]}"
                )
                report_loss(what, self._given["failOnDataLoss"])

    async def _shorter(
        self, survey: Survey, since: Mapping[QueueName, int], latest: Mapping[QueueName, int]
    ) -> dict[QueueName, int]:
        """Return where queues end that are shorter than they were: made anew, or a slave tells of them."""
        shorter = [queue for queue, at in latest.items() if at < since.get(queue, 0)]
        ends: dict[QueueName, int] = {}
        for queue, found in (await survey.bounds(shorter)).items() if shorter else ():
            if found.is_master and found.max_offset < since[queue]:
                what = f"{shown(queue)} ends at {found.max_offset}, and the query is at {since[queue]}"
                report_loss(f"{what}: was it made anew?", self._given["failOnDataLoss"])
                ends[queue] = found.max_offset
        return ends

    def _check_away(self, since: Mapping[QueueName, int], latest: Mapping[QueueName, int]) -> None:
        """Report queues that nobody serves any more; when they come back they are read on."""
        for queue in since:
            if queue in latest:
                self._away.discard(queue)
            elif queue not in self._away:
                what = f"{shown(queue)} is served by nobody: its broker is away, or the topic was deleted"
                report_loss(what, self._given["failOnDataLoss"])
                self._away.add(queue)
