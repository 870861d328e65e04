"""Dead letters: what groups gave up or try again, why and since when; a report, and sending some again.

    spark-submit dead_letters.py --namesrv 127.0.0.1:9876 --report report/
    spark-submit dead_letters.py --namesrv … --groups billing --where "error LIKE '%Timeout%'" --send

    %DLQ%<group>, %RETRY%<group> ─▶ letters: kind, group, first topic, error, age ─▶ groups · errors · ages
                                                                                   ─▶ to their first topic

The error is what consumers put into a property (`--error-properties`); the protocol has none for it. A retry
topic holds each attempt, those that went well in the end among them; a dead letter stays until it expires.
"""

from __future__ import annotations

import sys
import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from roquet.arrow import COLUMNS
from roquet.model.names import DLQ_PREFIX, RETRY_PREFIX
from roquet.spark.access import Turns
from roquet.spark.options import OptionError
from roquet.spark.pipelines import arguments, sending
from roquet.spark.pipelines.report import Page, bars, lines, stacks, with_zeros
from roquet.spark.pipelines.sources import From, check, collected, condition, messages
from roquet.spark.pipelines.summary import Live, Row, Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGES: Final = {
    "under 1 h": timedelta(hours=1),
    "1 h to 1 d": timedelta(days=1),
    "1 d to 3 d": timedelta(days=3),
}
OLDER: Final = "over 3 d"
ERROR_CHARS_MAX: Final = 120
EXAMPLES_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Study what groups gave up or try again, and send a selection once more."""

    namesrv: arguments.Namesrv = ""
    store: arguments.Store = ""
    archive: arguments.ArchiveFolder = ""
    groups: Annotated[tuple[str, ...], "Only of these groups."] = ()
    since: arguments.Since = None
    until: arguments.Until = None
    where: Annotated[
        str, "Only letters that meet this SQL condition; `error`, `group_name`, `age_s` too."
    ] = ""
    error_properties: Annotated[
        tuple[str, ...], "Properties that tell what went wrong; the first counts."
    ] = (
        "error",
        "exception",
        "ERROR",
        "EXCEPTION",
    )
    report: arguments.Report = ""
    send: Annotated[bool, "Send the dead letters (not the retries) again."] = False
    to: Annotated[str, "Topic to send them to; otherwise each goes where it first came from."] = ""
    rate: Annotated[float, "Messages a second at most; 0 does not limit."] = 0.0

    def run(self, spark: SparkSession, live: Live) -> Summary:
        """Study the letters, write the report, and send what is asked for."""
        where = check(From(self.namesrv, (), self.store, self.archive, self.since, self.until))
        if self.send and not where.namesrv:
            raise OptionError("--send needs --namesrv: letters of files are sent by `roquet pipeline replay`")
        if where.namesrv:
            live.say("dead letters: asking which there are")
            found = letter_topics(where.namesrv, self.groups)
            if not found:
                return self._done(Summary("dead-letters"), where, live)
            where = where._replace(topics=found)
        stored = messages(spark, where, COLUMNS)
        letters = condition(letters_of(stored, self.error_properties, datetime.now(UTC)), self.where)
        if self.groups:
            letters = letters.where(letters["group_name"].isin(*self.groups))
        letters = letters.cache()
        try:
            summary = study(letters, live)
            if self.send:
                self._send(letters.where("kind = 'dead'"), where.namesrv, summary, live)
        finally:
            letters.unpersist()
        return self._done(summary, where, live)

    def _send(self, letters: DataFrame, namesrv: str, summary: Summary, live: Live) -> None:
        """Send dead letters to where they came from, or to where they shall go."""
        from pyspark.sql import functions as f

        aimed = letters.withColumn("target", f.lit(self.to) if self.to else f.col("first_topic"))
        rows = aimed.where(sending.is_sendable("target"))
        summary.skip("do not say where they came from", letters.count() - rows.count())
        origin = f.create_map(f.lit("DLQ_ORIGIN_MESSAGE_ID"), f.col("message_id"))
        kept = f.map_filter("properties", lambda name, _: name != "DLQ_ORIGIN_MESSAGE_ID")
        rows = rows.withColumn("properties", f.map_concat(kept, origin))
        how = sending.How(namesrv, per_second=self.rate, name=f"letters-{uuid.uuid4().hex[:12]}")
        summary.facts["sent_again"] = sending.send(rows, how, live)

    def _done(self, summary: Summary, where: From, live: Live) -> Summary:
        for name in ("groups", "errors", "ages", "over_time", "newest"):
            summary.tables.setdefault(name, [])
        if self.report:
            summary.files = page_of(summary, where.shown).save(self.report)
        summary.seconds = live.seconds
        return summary


def letter_topics(namesrv: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics of dead letters and retries that hold anything; raises RoquetError."""
    with Turns() as turns:
        return turns.run(_letter_topics(namesrv, groups))


async def _letter_topics(namesrv: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    from roquet.client.admin import Admin

    async with Admin(namesrv) as admin:
        found = [topic for topic in await admin.topics.list() if group_of(topic)]
        wanted = [topic for topic in found if not groups or group_of(topic) in groups]
        return tuple([topic for topic in wanted if (await admin.topics.stats(topic)).messages])


def group_of(topic: str) -> str:
    """Return whose letters a topic holds; empty for other topics."""
    for prefix in (DLQ_PREFIX, RETRY_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return ""


def letters_of(stored: DataFrame, error_properties: tuple[str, ...], now: datetime) -> DataFrame:
    """Return the letters among stored messages, with what is known of each."""
    from pyspark.sql import functions as f

    def property_of(name: str) -> Any:
        return f.nullif(f.col("properties").getItem(name), f.lit(""))

    topic = f.col("topic")
    is_dead, is_retry = topic.startswith(DLQ_PREFIX), topic.startswith(RETRY_PREFIX)
    errors = [property_of(name) for name in error_properties]
    age_s = f.lit(now).cast("double") - f.col("store_time").cast("double")
    bucket = f.lit(OLDER)
    for name, limit in reversed(AGES.items()):
        bucket = f.when(age_s < limit.total_seconds(), name).otherwise(bucket)
    letters = stored.where(is_dead | is_retry).withColumns(
        {
            "kind": f.when(is_dead, "dead").otherwise("retry"),
            "group_name": f.when(is_dead, f.substring(topic, len(DLQ_PREFIX) + 1, 255)).otherwise(
                f.substring(topic, len(RETRY_PREFIX) + 1, 255)
            ),
            "first_topic": f.coalesce(property_of("RETRY_TOPIC"), property_of("DLQ_ORIGIN_TOPIC")),
            "error": f.substring(f.coalesce(*errors, f.lit("")), 1, ERROR_CHARS_MAX),
            "age_s": age_s,
            "age": bucket,
        }
    )
    # A retry topic, in itself the origin of nothing, stands for a letter that lost its history.
    known = ~f.col("first_topic").startswith(RETRY_PREFIX) & ~f.col("first_topic").startswith(DLQ_PREFIX)
    return letters.withColumn("first_topic", f.when(known, f.col("first_topic")))


def study(letters: DataFrame, live: Live) -> Summary:
    """Group the letters in all the ways that a report shows."""
    from pyspark.sql import functions as f

    summary = Summary("dead-letters")
    live.say("dead letters: reading them")
    by_group = letters.groupBy(f.col("group_name").alias("group"), f.col("first_topic").alias("topic")).agg(
        f.count_if(f.col("kind") == "dead").alias("dead"),
        f.count_if(f.col("kind") == "retry").alias("retries"),
        f.sum(f.length("body")).alias("body_bytes"),
        f.min("store_time").alias("oldest"),
        f.max("store_time").alias("newest"),
    )
    summary.tables["groups"] = collected(by_group.orderBy(f.desc("dead"), f.desc("retries")))
    by_error = letters.groupBy("error", f.col("group_name").alias("group")).agg(
        f.count_if(f.col("kind") == "dead").alias("dead"),
        f.count_if(f.col("kind") == "retry").alias("retries"),
    )
    summary.tables["errors"] = collected(by_error.orderBy(f.desc("dead"), f.desc("retries")))
    by_age = letters.groupBy(f.col("group_name").alias("group"), "kind", "age").count()
    summary.tables["ages"] = collected(by_age.orderBy("group", "kind", "age"))
    hour = f.date_trunc("hour", "store_time").alias("hour")
    by_hour = letters.groupBy(f.col("group_name").alias("group"), hour).count()
    summary.tables["over_time"] = collected(by_hour.orderBy("group", "hour"))
    newest = letters.orderBy(f.desc("store_time")).limit(EXAMPLES_MAX)
    summary.tables["newest"] = collected(
        newest.select(
            "kind",
            f.col("group_name").alias("group"),
            f.col("first_topic").alias("topic"),
            "message_id",
            "keys",
            "reconsume_times",
            "error",
            "store_time",
        )  # fmt: skip
    )
    summary.rows = sum(row["dead"] + row["retries"] for row in summary.tables["groups"])
    summary.size_bytes = sum(row["body_bytes"] or 0 for row in summary.tables["groups"])
    return summary


def page_of(summary: Summary, where: str) -> Page:
    """Return the report."""
    page = Page("Dead letters and retries", where)
    tables = summary.tables
    dead = sum(row["dead"] for row in tables["groups"])
    page.say(f"{dead:,} dead letters and {summary.rows - dead:,} attempts in retry topics.")
    if tables["groups"]:
        page.plot("By age", stacks(_by_age(tables["ages"]), "dead letters and retries"))
        named = {f"{row['error'] or '(no error given)'}": 0.0 for row in tables["errors"]}
        for row in tables["errors"]:
            named[row["error"] or "(no error given)"] += row["dead"] + row["retries"]
        page.plot("By error", bars(named, "dead letters and retries"))
        times: dict[str, list[tuple[Any, float]]] = defaultdict(list)
        for row in tables["over_time"]:
            times[row["group"]].append((row["hour"], float(row["count"])))
        hours = {group: with_zeros(points, timedelta(hours=1)) for group, points in times.items()}
        page.plot("By hour", lines(hours, "letters stored in the hour"))
    page.table("Groups", tables["groups"])
    page.table("Errors", tables["errors"])
    page.table("Newest", tables["newest"])
    return page


def _by_age(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Return counts by group, and in each by age in its order."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        ages = found.setdefault(row["group"], dict.fromkeys((*AGES, OLDER), 0.0))
        ages[row["age"]] += row["count"]
    return found


if __name__ == "__main__":
    from roquet.spark.pipelines import program

    sys.exit(program.main(DeadLetters))
