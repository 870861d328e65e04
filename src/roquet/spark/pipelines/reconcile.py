"""Two clusters compared: counts and digests by topic and time, and examples of what one of them lacks.

    messages of each ─▶ by (topic, window): count · sum and xor of a hash of some columns ─▶ joined: equal?

The hash does not depend on order, nor on queue, offset and broker, which a migration changes. A sum beside
the xor, since two equal messages cancel out in an xor. Where windows differ, messages are compared.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from roquet.spark.options import OptionError
from roquet.spark.pipelines.report import Page, lines
from roquet.spark.pipelines.sources import collected
from roquet.spark.pipelines.summary import Row, Summary
from roquet.spark.schema import TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EXAMPLES_MAX: Final = 50
WINDOWS_MAX: Final = 200


class By(NamedTuple):
    """What is compared: by which time, in windows how long, over which columns."""

    time: str
    window: timedelta
    digest: tuple[str, ...]


def columns_of(by: By) -> tuple[str, ...]:
    """Return the columns to read; raises OptionError for one that there is not, or that must differ."""
    for name in by.digest:
        if name not in TYPES or name in ("broker", "queue_id", "queue_offset", "log_offset", "damage"):
            raise OptionError(f"--digest {name}: compare body, tag, keys, properties, message_id or such")
    if not by.digest:
        raise OptionError("--digest names no column")
    return tuple(dict.fromkeys(("topic", "message_id", "keys", "body", by.time, *by.digest)))


def hash_of(by: By) -> Column:
    """Return the hash of a message's columns."""
    from pyspark.sql import functions as f

    parts = []
    for name in by.digest:
        column = f.col(name)
        # Maps have no order; their sorted entries do.
        parts.append(f.array_sort(f.map_entries(column)) if TYPES[name].startswith("map") else column)
    return f.xxhash64(*parts)


def windows(frame: DataFrame, by: By) -> DataFrame:
    """Return count and digest of each topic and window."""
    from pyspark.sql import functions as f

    begin = f.window(by.time, f"{int(by.window.total_seconds())} seconds").getField("start")
    size = f.length("body").alias("size")
    hashed = frame.select("topic", begin.alias("time"), hash_of(by).alias("hash"), size)
    return hashed.groupBy("topic", "time").agg(
        f.count("*").alias("messages"),
        f.sum(f.col("hash").cast("decimal(20,0)")).alias("sum"),
        f.bit_xor("hash").alias("xor"),
        f.sum("size").alias("size_bytes"),
    )


def compare(left: DataFrame, right: DataFrame, by: By) -> Summary:
    """Return where two tables of messages differ."""
    from pyspark.sql import functions as f

    a, b = windows(left, by).alias("a"), windows(right, by).alias("b")
    is_same = f.col("a.sum").eqNullSafe(f.col("b.sum")) & f.col("a.xor").eqNullSafe(f.col("b.xor"))
    counts = {name: f.coalesce(f.col(f"{name}.messages"), f.lit(0)) for name in ("a", "b")}
    joined = a.join(b, ["topic", "time"], "full").select(
        "topic",
        "time",
        counts["a"].alias("here"),
        counts["b"].alias("there"),
        (is_same & (counts["a"] == counts["b"])).alias("is_same"),
        f.coalesce("a.size_bytes", f.lit(0)).alias("here_bytes"),
        f.coalesce("b.size_bytes", f.lit(0)).alias("there_bytes"),
    )
    rows = collected(joined.orderBy("topic", "time"))
    summary = Summary("audit", rows=sum(row["here"] + row["there"] for row in rows))
    summary.size_bytes = sum(row["here_bytes"] + row["there_bytes"] for row in rows)
    differing = [row for row in rows if not row["is_same"]]
    summary.facts |= {
        "is_same": not differing,
        "here": sum(row["here"] for row in rows),
        "there": sum(row["there"] for row in rows),
        "windows": len(rows),
        "windows_that_differ": len(differing),
    }
    summary.tables["by_topic"] = by_topic(rows)
    summary.tables["differing"] = differing[:WINDOWS_MAX]
    summary.tables["over_time"] = rows
    summary.tables["examples"] = examples(left, right, differing, by) if differing else []
    return summary


def by_topic(rows: list[Row]) -> list[Row]:
    """Return the sums of each topic."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        sums = found.setdefault(
            row["topic"], {"topic": row["topic"], "here": 0, "there": 0, "windows": 0, "differing": 0}
        )
        sums["here"] += row["here"]
        sums["there"] += row["there"]
        sums["windows"] += 1
        sums["differing"] += not row["is_same"]
    return list(found.values())


def examples(left: DataFrame, right: DataFrame, differing: list[Row], by: By) -> list[Row]:
    """Return messages of the first windows that differ which one side has more often than the other."""
    from pyspark.sql import functions as f

    span = f.window(by.time, f"{int(by.window.total_seconds())} seconds").getField("start").alias("time")
    wanted = left.sparkSession.createDataFrame(
        [(row["topic"], row["time"]) for row in differing[:WINDOWS_MAX]], "topic string, time timestamp"
    )

    def counted(frame: DataFrame, name: str) -> DataFrame:
        rows = frame.select("topic", span, hash_of(by).alias("hash"), "message_id", "keys")
        inside = rows.join(f.broadcast(wanted), ["topic", "time"])
        return inside.groupBy("topic", "time", "hash").agg(
            f.count("*").alias(name),
            f.min("message_id").alias(f"id_{name}"),
            f.first("keys").alias(f"keys_{name}"),
        )

    both = counted(left, "here").join(counted(right, "there"), ["topic", "time", "hash"], "full")
    uneven = both.fillna(0, ["here", "there"]).where("here <> there").orderBy("topic", "time", "hash")
    shown = uneven.limit(EXAMPLES_MAX).select(
        "topic", "time", "here", "there",
        f.coalesce("id_here", "id_there").alias("message_id"),
        f.coalesce("keys_here", "keys_there").alias("keys"),
    )  # fmt: skip
    return collected(shown)


def page_of(summary: Summary, here: str, there: str) -> Page:
    """Return the report."""
    page = Page("Two clusters compared", f"here: {here} · there: {there}")
    facts, tables = summary.facts, summary.tables
    verdict = (
        "They hold the same." if facts["is_same"] else f"{facts['windows_that_differ']:,} windows differ."
    )
    page.say(f"{verdict} {facts['here']:,} messages here, {facts['there']:,} there.")
    if tables["over_time"]:
        series: dict[str, list[tuple[Any, float]]] = {"here": [], "there": []}
        sums: dict[Any, list[float]] = {}
        for row in tables["over_time"]:
            both = sums.setdefault(row["time"], [0.0, 0.0])
            both[0] += row["here"]
            both[1] += row["there"]
        for time, (left, right) in sorted(sums.items()):
            series["here"].append((time, left))
            series["there"].append((time, right))
        page.plot("Messages over time", lines(series, "messages in a window"))
    page.table("Topics", tables["by_topic"])
    page.table("Windows that differ", tables["differing"])
    page.table("Messages that one side has more often", tables["examples"])
    return page
