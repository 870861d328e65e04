"""Work that is often wanted, ready to run: `roquet pipeline <name>`, or that file by spark-submit.

    archive       topics ─▶ Parquet or Delta files      replay   files ─▶ topics
    dead_letters  what groups gave up; sends it again   trace    how long messages took, which got lost
    lag           how far groups are behind             audit    rates, gaps, duplicates; two clusters

A pipeline is a class whose fields are its arguments (`arguments`) and whose `run(spark, live)` does the
work and returns a Summary (`summary`). Spark, Arrow and matplotlib come in when it runs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from roquet.spark.pipelines.summary import Live, Summary

HOMES: Final = {
    "archive": "archive:Archive",
    "replay": "replay:Replay",
    "dead-letters": "dead_letters:DeadLetters",
    "trace": "trace:Trace",
    "lag": "lag:Lag",
    "audit": "audit:Audit",
}
"""Where each pipeline lives: module and class."""


class Pipeline(Protocol):
    """What every pipeline can do."""

    def run(self, spark: SparkSession, live: Live) -> Summary:
        """Do the work; raises OptionError, RoquetError or Refused for what its user must know."""


def load(name: str) -> type[Any]:
    """Return the class of a pipeline."""
    module, _, kind = HOMES[name].partition(":")
    found: type[Any] = getattr(importlib.import_module(f"{__name__}.{module}"), kind)
    return found
