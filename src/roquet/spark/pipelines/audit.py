"""Audit: what flows through topics, and whether it is whole; or whether two clusters hold the same.

spark-submit audit.py --namesrv 127.0.0.1:9876 --topics orders --report report/
spark-submit audit.py --namesrv old:9876 --topics orders --against-namesrv new:9876

messages ─▶ rates and sizes by topic · hot queues · producers · keys that come twice · gaps in offsets
two clusters ─▶ counts and digests by topic and time (`reconcile`) ─▶ where they differ, with examples
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from roquet.spark.options import OptionError
from roquet.spark.pipelines import arguments, reconcile
from roquet.spark.pipelines.report import Page, bars, lines, with_zeros
from roquet.spark.pipelines.sources import From, check, collected, messages
from roquet.spark.pipelines.summary import Live, Row, Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ: Final = (
    *("topic", "broker", "queue_id", "queue_offset", "body", "keys", "message_id", "store_time", "born_host"),
)
HOT: Final = 1.5
"""Times the mean of its topic from which a queue is hot."""
ROWS_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What flows through topics and whether it is whole; or whether two clusters hold the same."""

    namesrv: arguments.Namesrv = ""
    topics: arguments.Topics = ()
    store: arguments.Store = ""
    archive: arguments.ArchiveFolder = ""
    since: arguments.Since = None
    until: arguments.Until = None
    window: Annotated[timedelta, "Length of the spans of time that are counted apart."] = timedelta(minutes=1)
    against_namesrv: Annotated[str, "Compare with the cluster of these name servers."] = ""
    against_store: Annotated[str, "Compare with the files of this store."] = ""
    against_archive: Annotated[str, "Compare with this archive."] = ""
    by_time: Annotated[
        Literal["born", "store"], "Which time messages are compared by; copies keep that of their birth."
    ] = "born"
    digest: Annotated[tuple[str, ...], "Columns that must be the same."] = ("body", "tag", "keys")
    report: arguments.Report = ""

    def run(self, spark: SparkSession, live: Live) -> Summary:
        """Study the messages, or compare them with others."""
        if self.window < timedelta(seconds=1):
            raise OptionError("--window must be at least 1s")
        where = check(From(self.namesrv, self.topics, self.store, self.archive, self.since, self.until))
        if self.against_namesrv or self.against_store or self.against_archive:
            return self._compare(spark, where, live)
        live.say("audit: reading messages")
        frame = messages(spark, where, READ)
        summary = study(frame, self.window, live)
        if self.report:
            summary.files = page_of(summary, where.shown, self.window).save(self.report)
        summary.seconds = live.seconds
        return summary

    def _compare(self, spark: SparkSession, where: From, live: Live) -> Summary:
        other = check(
            where._replace(
                namesrv=self.against_namesrv, store=self.against_store, archive=self.against_archive
            )
        )
        by = reconcile.By(f"{self.by_time}_time", self.window, self.digest)
        columns = reconcile.columns_of(by)
        live.say("audit: comparing")
        left, right = messages(spark, where, columns), messages(spark, other, columns)
        summary = reconcile.compare(left, right, by)
        if self.report:
            page = reconcile.page_of(summary, where.shown, other.shown)
            summary.files = page.save(self.report)
        summary.seconds = live.seconds
        return summary


def study(frame: DataFrame, window: timedelta, live: Live) -> Summary:
    """Return all tables of an audit."""
    from pyspark.sql import functions as f

    summary = Summary("audit")
    slim = frame.withColumn("size", f.length("body")).drop("body").cache()
    try:
        summary.tables["topics"] = topics(slim)
        summary.rows = sum(row["messages"] for row in summary.tables["topics"])
        summary.size_bytes = sum(row["bytes"] for row in summary.tables["topics"])
        live.say("audit: queues, producers")
        summary.tables["hot_queues"] = hot_queues(slim)
        summary.tables["producers"] = producers(slim)
        summary.tables["over_time"] = over_time(slim, window)
        live.say("audit: duplicates, gaps")
        summary.tables["duplicates"] = duplicates(slim)
        summary.tables["gaps"] = gaps(slim)
    finally:
        slim.unpersist()
    summary.facts |= {
        "keys_that_repeat": sum(row["keys_that_repeat"] for row in summary.tables["topics"]),
        "offsets_missing": sum(row["missing"] for row in summary.tables["gaps"]),
    }
    return summary


def topics(slim: DataFrame) -> list[Row]:
    """Return rates and sizes by topic, and how many keys and ids come more than once."""
    from pyspark.sql import functions as f

    found = slim.groupBy("topic").agg(
        f.count("*").alias("messages"),
        f.sum("size").alias("bytes"),
        f.round(f.avg("size"), 1).alias("mean_bytes"),
        f.expr("percentile_approx(size, 0.99)").alias("p99_bytes"),
        f.max("size").alias("max_bytes"),
        f.min("store_time").alias("first"),
        f.max("store_time").alias("last"),
    )
    span_s = f.greatest(f.col("last").cast("double") - f.col("first").cast("double"), f.lit(0.001))
    rate = f.when(f.col("messages") > 1, f.round(f.col("messages") / span_s, 1)).alias("per_s")
    keys = slim.select("topic", f.explode("keys").alias("key")).groupBy("topic", "key").count()
    repeated = keys.where("count > 1").groupBy("topic").agg(f.count("*").alias("keys_that_repeat"))
    ids = slim.groupBy("topic", "message_id").count().where("count > 1")
    twice = ids.groupBy("topic").agg(f.count("*").alias("ids_that_repeat"))
    both = found.select("*", rate).join(repeated, "topic", "left").join(twice, "topic", "left")
    return collected(both.fillna(0, ["keys_that_repeat", "ids_that_repeat"]).orderBy("topic"))


def hot_queues(slim: DataFrame) -> list[Row]:
    """Return queues that get more than their share of a topic."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    queues = slim.groupBy("topic", "broker", "queue_id").agg(
        f.count("*").alias("messages"), f.sum("size").alias("bytes")
    )
    mean = f.avg("messages").over(Window.partitionBy("topic"))
    found = queues.withColumn("times_the_mean", f.round(f.col("messages") / mean, 2))
    hot = found.where(f.col("times_the_mean") >= HOT).orderBy(f.desc("times_the_mean"), f.desc("messages"))
    return collected(hot.limit(ROWS_MAX))


def producers(slim: DataFrame) -> list[Row]:
    """Return which hosts send how much; ports change with each connection and are left out."""
    from pyspark.sql import functions as f

    host = f.regexp_replace("born_host", ":[0-9]+$", "").alias("host")
    found = slim.groupBy("topic", host).agg(
        f.count("*").alias("messages"),
        f.sum("size").alias("bytes"),
        f.countDistinct("born_host").alias("connections"),
    )
    return collected(found.orderBy(f.desc("messages"), "topic").limit(ROWS_MAX))


def over_time(slim: DataFrame, window: timedelta) -> list[Row]:
    """Return messages and bytes for each span of time."""
    from pyspark.sql import functions as f

    begin = f.window("store_time", f"{int(window.total_seconds())} seconds").getField("start").alias("time")
    found = slim.groupBy("topic", begin).agg(f.count("*").alias("messages"), f.sum("size").alias("bytes"))
    return collected(found.orderBy("topic", "time"))


def duplicates(slim: DataFrame) -> list[Row]:
    """Return keys that come more than once in a topic, those first that come most often."""
    from pyspark.sql import functions as f

    keys = slim.select("topic", "store_time", "message_id", f.explode("keys").alias("key"))
    found = keys.groupBy("topic", "key").agg(
        f.count("*").alias("messages"),
        f.countDistinct("message_id").alias("ids"),
        f.min("store_time").alias("first"),
        f.max("store_time").alias("last"),
    )
    return list(
        collected(found.where("messages > 1").orderBy(f.desc("messages"), "topic", "key").limit(ROWS_MAX))
    )


def gaps(slim: DataFrame) -> list[Row]:
    """Return offsets within what was read of a queue that have no message, the largest gaps first.

    Only queues whose count falls short of their range are looked at row by row.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    queue = ["topic", "broker", "queue_id"]
    counted = slim.groupBy(*queue).agg(
        f.countDistinct("queue_offset").alias("there"),
        (f.max("queue_offset") - f.min("queue_offset") + 1).alias("span"),
    )
    short = counted.where("there < span").select(*queue)
    offsets = slim.select(*queue, "queue_offset").join(f.broadcast(short), queue)
    before = f.lag("queue_offset").over(Window.partitionBy(*queue).orderBy("queue_offset"))
    found = offsets.withColumn("after_offset", before).where("queue_offset - after_offset > 1")
    missing = found.select(
        *queue,
        "after_offset",
        f.col("queue_offset").alias("before_offset"),
        (f.col("queue_offset") - f.col("after_offset") - 1).alias("missing"),
    )
    return collected(missing.orderBy(f.desc("missing"), *queue).limit(ROWS_MAX))


def page_of(summary: Summary, where: str, window: timedelta) -> Page:
    """Return the report."""
    page = Page("Audit of topics", where)
    tables = summary.tables
    page.say(f"{summary.rows:,} messages in {len(tables['topics'])} topics.")
    if tables["topics"]:
        times: dict[str, list[tuple[Any, float]]] = defaultdict(list)
        for row in tables["over_time"]:
            times[row["topic"]].append((row["time"], row["messages"] / window.total_seconds()))
        rates = {topic: with_zeros(points, window) for topic, points in times.items()}
        page.plot("Messages over time", lines(rates, "messages a second"))
        page.plot(
            "Bytes by topic", bars({row["topic"]: row["bytes"] / 1024 for row in tables["topics"]}, "KiB")
        )
        hosts: dict[str, float] = defaultdict(float)
        for row in tables["producers"]:
            hosts[row["host"]] += row["messages"]
        page.plot("Producers", bars(hosts, "messages"))
    page.table("Topics", tables["topics"])
    page.table(f"Hot queues: {HOT} times the mean of their topic, or more", tables["hot_queues"])
    page.table("Producers", tables["producers"])
    page.table("Keys that come more than once", tables["duplicates"])
    page.table("Gaps in queue offsets", tables["gaps"])
    return page


if __name__ == "__main__":
    from roquet.spark.pipelines import program

    sys.exit(program.main(Audit))
