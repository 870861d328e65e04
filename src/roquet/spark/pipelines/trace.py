"""Trace: how long messages took from producer to consumer, which consumers are slow, which messages got lost.

    spark-submit trace.py --namesrv 127.0.0.1:9876 --report report/

    trace topic ─▶ records (`trace_records`) ─▶ sent ⋈ handed out ⋈ done with, by message id
                                              ─▶ percentiles · slowest consumers · lost · stuck

End to end is from the start of sending to the end of the first consumption that succeeded, for each group.
Lost: sent, and never handed to a group that consumes the topic. Stuck: handed out, and never done with. Both
only once they are older than `--patience`. Clocks of producers and consumers are compared: they must agree.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from roquet.model.names import TRACE_TOPIC
from roquet.spark.pipelines import arguments
from roquet.spark.pipelines.report import Page, bars, lines
from roquet.spark.pipelines.sources import From, check, collected, messages
from roquet.spark.pipelines.summary import Live, Row, Summary
from roquet.spark.pipelines.trace_records import SCHEMA, read_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9}
EXAMPLES_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """From message traces: latencies, slow consumers, lost and stuck messages."""

    namesrv: arguments.Namesrv = ""
    store: arguments.Store = ""
    archive: arguments.ArchiveFolder = ""
    trace_topic: Annotated[str, "Topic of the traces."] = TRACE_TOPIC
    topics: Annotated[tuple[str, ...], "Only messages of these topics."] = ()
    since: arguments.Since = None
    until: arguments.Until = None
    patience: Annotated[timedelta, "How old a message is before it counts as lost or stuck."] = timedelta(
        minutes=5
    )
    report: arguments.Report = ""

    def run(self, spark: SparkSession, live: Live) -> Summary:
        """Read the traces and say what they tell."""
        where = check(
            From(self.namesrv, (self.trace_topic,), self.store, self.archive, self.since, self.until)
        )
        summary = Summary("trace")
        live.say("trace: reading the traces")
        carriers = messages(spark, where, ("body", "born_host", "store_time"))
        records = carriers.mapInArrow(read_batches, SCHEMA).cache()
        try:
            self._study(records, carriers, summary, live)
        finally:
            records.unpersist()
        if self.report:
            summary.files = page_of(summary, where.shown).save(self.report)
        summary.seconds = live.seconds
        return summary

    def _study(self, records: DataFrame, carriers: DataFrame, summary: Summary, live: Live) -> None:
        from pyspark.sql import functions as f

        sizes = carriers.agg(f.count("*").alias("rows"), f.sum(f.length("body")).alias("size")).first()
        assert sizes is not None
        summary.rows, summary.size_bytes = sizes["rows"], sizes["size"] or 0
        counted = {row["kind"]: row["count"] for row in collected(records.groupBy("kind").count())}
        summary.facts["records"] = sum(counted.values())
        summary.skip("records that cannot be read", counted.get("bad", 0))
        live.say("trace: following messages")
        sent, handed = sent_of(records, self.topics), handed_of(records)
        ways = ways_of(sent, handed).cache()
        summary.tables["latency_by_topic"] = collected(latency(ways, "topic"))
        summary.tables["consumers"] = collected(consumers(ways))
        summary.tables["latency_over_time"] = collected(latency_over_time(ways))
        live.say("trace: looking for lost and stuck messages")
        latest = records.agg(f.max("carried")).first()
        newest = latest[0] if latest is not None else None
        if newest is not None:
            until = newest - self.patience
            summary.tables["lost"] = collected(lost(sent, ways, until))
            summary.tables["stuck"] = collected(stuck(ways, until))
            summary.tables["lost_examples"] = examples(lost_messages(sent, ways, until))
        failed = sent.where("NOT is_ok").count()
        summary.facts["failed_sends"] = failed
        ways.unpersist()


def sent_of(records: DataFrame, topics: tuple[str, ...]) -> DataFrame:
    """Return messages that were sent, each once: message_id, topic, sent, producer group."""
    from pyspark.sql import functions as f

    found = records.where("kind = 'pub' AND NOT startswith(topic, '%RETRY%')")
    if topics:
        found = found.where(f.col("topic").isin(*topics))
    return found.groupBy("message_id").agg(
        f.min("when").alias("sent"),
        f.min_by("topic", "when").alias("topic"),
        f.min_by("group_name", "when").alias("producer_group"),
        f.min("cost_ms").alias("send_ms"),
        f.bool_or("is_ok").alias("is_ok"),
    )


def handed_of(records: DataFrame) -> DataFrame:
    """Return each handing of a message to a group, with its end as far as there is one."""
    from pyspark.sql import functions as f

    before = records.where("kind = 'before'").select(
        "message_id", "request_id", "group_name", "client", "retries", f.col("when").alias("handed")
    )
    after = (
        records.where("kind = 'after'")
        .groupBy("message_id", "request_id")
        .agg(f.max("cost_ms").alias("cost_ms"), f.bool_or("is_ok").alias("is_done"))
    )
    before = before.dropDuplicates(["message_id", "request_id"])
    return before.join(after, ["message_id", "request_id"], "left")


def ways_of(sent: DataFrame, handed: DataFrame) -> DataFrame:
    """Return what became of each message in each group: one row for both."""
    from pyspark.sql import functions as f

    done = f.when(f.col("is_done"), f.unix_millis("handed") + f.col("cost_ms"))
    ways = handed.groupBy("message_id", "group_name").agg(
        f.min("handed").alias("handed"),
        f.min(done).alias("done_ms"),
        f.max("cost_ms").alias("cost_ms"),
        f.count("*").alias("handings"),
        f.sum(f.col("cost_ms").isNull().cast("int")).alias("unanswered"),
        f.max("handed").alias("last_handed"),
        f.sum(f.coalesce((~f.col("is_done")).cast("int"), f.lit(0))).alias("failures"),
        f.max_by("client", "cost_ms").alias("slowest_client"),
    )
    both = ways.join(sent, "message_id")
    return both.withColumn("total_ms", f.col("done_ms") - f.unix_millis("sent")).withColumn(
        "waiting_ms", f.unix_millis("handed") - f.unix_millis("sent")
    )


def _shares(column: str) -> list[Any]:
    from pyspark.sql import functions as f

    return [
        f.expr(f"percentile_approx({column}, {share / 100}, 10000)").alias(name)
        for name, share in SHARES.items()
    ]


def latency(ways: DataFrame, *by: str) -> DataFrame:
    """Return percentiles of the way from producer to the end of consumption, in milliseconds."""
    from pyspark.sql import functions as f

    done = ways.where("total_ms IS NOT NULL")
    found = done.groupBy(*by).agg(
        f.count("*").alias("consumed"), *_shares("total_ms"), f.max("total_ms").alias("max")
    )
    return found.orderBy(f.desc("p99"), *by)


def consumers(ways: DataFrame) -> DataFrame:
    """Return the groups, those first whose work takes longest."""
    from pyspark.sql import functions as f

    found = ways.groupBy(f.col("group_name").alias("group"), "topic").agg(
        f.count("*").alias("messages"),
        f.expr("percentile_approx(waiting_ms, 0.5)").alias("waiting_p50"),
        f.expr("percentile_approx(cost_ms, 0.5)").alias("working_p50"),
        f.expr("percentile_approx(cost_ms, 0.99)").alias("working_p99"),
        f.expr("percentile_approx(total_ms, 0.99)").alias("end_to_end_p99"),
        f.sum("failures").alias("failures"),
        f.max_by("slowest_client", "cost_ms").alias("slowest_client"),
    )
    return found.orderBy(f.desc("working_p99"), "group", "topic")


def latency_over_time(ways: DataFrame) -> DataFrame:
    """Return the median and the 99th percentile for each minute of sending."""
    from pyspark.sql import functions as f

    done = ways.where("total_ms IS NOT NULL")
    minute = f.date_trunc("minute", "sent").alias("minute")
    return done.groupBy("topic", minute).agg(
        f.count("*").alias("messages"),
        f.expr("percentile_approx(total_ms, 0.5)").alias("p50"),
        f.expr("percentile_approx(total_ms, 0.99)").alias("p99"),
    ).orderBy("topic", "minute")  # fmt: skip


def lost_messages(sent: DataFrame, ways: DataFrame, until: Any) -> DataFrame:
    """Return messages that a group which consumes their topic was never handed."""
    from pyspark.sql import functions as f

    readers = ways.select("topic", "group_name").distinct()
    expected = sent.where("is_ok").where(f.col("sent") < f.lit(until)).join(readers, "topic")
    return expected.join(ways.select("message_id", "group_name"), ["message_id", "group_name"], "left_anti")


def lost(sent: DataFrame, ways: DataFrame, until: Any) -> DataFrame:
    """Return how many messages are lost, by topic and group; topics that nobody consumes are not there."""
    from pyspark.sql import functions as f

    found = lost_messages(sent, ways, until).groupBy("topic", f.col("group_name").alias("group"))
    return found.agg(f.count("*").alias("lost"), f.min("sent").alias("first_sent")).orderBy(f.desc("lost"))


def stuck(ways: DataFrame, until: Any) -> DataFrame:
    """Return how many messages were handed out and never done with, by topic and group."""
    from pyspark.sql import functions as f

    found = ways.where("done_ms IS NULL").where(f.col("last_handed") < f.lit(until))
    counted = found.groupBy("topic", f.col("group_name").alias("group")).agg(
        f.count("*").alias("stuck"),
        f.sum((f.col("unanswered") > 0).cast("int")).alias("without_an_answer"),
        f.sum((f.col("failures") > 0).cast("int")).alias("only_failures"),
        f.min("handed").alias("first_handed"),
    )
    return counted.orderBy(f.desc("stuck"))


def examples(found: DataFrame) -> list[Row]:
    """Return some of the lost messages, the oldest first."""
    rows = found.orderBy("sent").limit(EXAMPLES_MAX).select("topic", "group_name", "message_id", "sent")
    return collected(rows.withColumnRenamed("group_name", "group"))


def page_of(summary: Summary, where: str) -> Page:
    """Return the report."""
    page = Page("Message traces", where)
    tables = summary.tables
    page.say(f"{summary.facts['records']:,} records in {summary.rows:,} messages of the trace topic.")
    if tables["latency_by_topic"]:
        series = {
            str(row["topic"]): [(f"p{share:g}", float(row[name])) for name, share in SHARES.items()]
            for row in tables["latency_by_topic"]
        }
        page.plot("End to end by topic", lines(series, "milliseconds"))
        times: dict[str, list[tuple[Any, float]]] = {}
        for row in tables["latency_over_time"]:
            times.setdefault(f"{row['topic']} p99", []).append((row["minute"], float(row["p99"])))
        page.plot("End to end over time", lines(times, "p99, milliseconds"))
    page.table("End to end by topic, milliseconds", tables["latency_by_topic"])
    if tables["consumers"]:
        slow = {
            f"{row['group']} · {row['topic']}": float(row["working_p99"] or 0) for row in tables["consumers"]
        }
        page.plot("Slowest consumers", bars(slow, "p99 of their work, milliseconds"))
    page.table("Consumers", tables["consumers"])
    page.table("Lost: never handed to a group that consumes the topic", tables.get("lost", []))
    page.table("Examples of lost messages", tables.get("lost_examples", []))
    page.table("Stuck: handed out, never done with", tables.get("stuck", []))
    return page


if __name__ == "__main__":
    from roquet.spark.pipelines import program

    sys.exit(program.main(Trace))
