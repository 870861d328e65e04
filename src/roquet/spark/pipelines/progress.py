"""How far Spark is, on the live line: the tasks of what it works on now, asked for once a second.

    pipeline ── say("audit: reading messages") ──▶ Live ◀── beat("12 of 40 tasks · 31 s") ── Spark's tracker

A pipeline waits for one job after another and cannot speak meanwhile; a coroutine on a thread of its own
does. It knows nothing of what the jobs are for, and ends with the work that it tells about.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from roquet.runtime.background import Background
from roquet.runtime.clock import RealClock
from roquet.spark.pipelines.summary import Live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S: Final = 1.0


@contextmanager
def beating(live: Live, spark: SparkSession) -> Iterator[None]:
    """Keep the live line alive as long as the block lasts."""
    background = Background("roquet-live")
    background.start(_beat(live, spark))
    try:
        yield
    finally:
        background.stop()


async def _beat(live: Live, spark: SparkSession) -> None:
    clock = RealClock()
    while True:
        await clock.sleep_until(clock.monotonic() + EVERY_S)
        live.beat(tasks_of(spark))


def tasks_of(spark: SparkSession) -> str:
    """Return how many tasks of the stages that run now are done; empty when none runs."""
    tracker = spark.sparkContext.statusTracker()
    found = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    stages = [stage for stage in found if stage is not None]
    if not stages:
        return ""
    return (
        f"{sum(each.numCompletedTasks for each in stages)} of {sum(each.numTasks for each in stages)} tasks"
    )
