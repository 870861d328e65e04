"""Lag: how far groups are behind, in messages, bytes and time, and in which queues.

    spark-submit lag.py --namesrv 127.0.0.1:9876 --groups billing --report report/

    brokers: positions of groups and ends of queues ─▶ behind, in messages
    messages between the two, read once for all groups ─▶ behind, in bytes and seconds · hot queues

`--quick` asks the brokers only. A group's own position is told by the broker, so what it is working on counts
as not yet done.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from roquet.model.names import is_dead_letter, is_retry
from roquet.model.route import QueueName
from roquet.spark.access import Turns
from roquet.spark.pipelines import arguments
from roquet.spark.pipelines.report import Page, bars
from roquet.spark.pipelines.sources import collected, namesrv_of
from roquet.spark.pipelines.summary import Live, Row, Summary
from roquet.spark.plan import to_json
from roquet.spark.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Position(NamedTuple):
    """Where a group is in a queue, and where the queue ends."""

    group: str
    queue: QueueName
    done: int
    end: int
    in_flight: int

    @property
    def behind(self) -> int:
        return max(self.end - self.done, 0)


class Told(NamedTuple):
    """What the brokers say."""

    positions: tuple[Position, ...]
    consume_tps: dict[str, float]
    put_tps: dict[str, float]


class Waiting(NamedTuple):
    """Messages of a queue that a group has not done with, as they were read."""

    group: str
    queue: QueueName
    messages: int
    size_bytes: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far groups are behind: in messages, bytes and time, and in which queues."""

    namesrv: arguments.Namesrv = ""
    groups: Annotated[tuple[str, ...], "Only these groups."] = ()
    topics: Annotated[tuple[str, ...], "Only these topics."] = ()
    quick: Annotated[bool, "Ask for offsets only; do not read the messages that wait."] = False
    report: arguments.Report = ""

    def run(self, spark: SparkSession, live: Live) -> Summary:
        """Ask the brokers, read what waits, and say how much it is."""
        namesrv = namesrv_of(self.namesrv)
        live.say("lag: asking for the positions of groups")
        told = ask(namesrv, self.groups, self.topics)
        waiting: list[Waiting] = []
        if not self.quick:
            live.say("lag: reading what waits")
            waiting = read_waiting(spark, namesrv, told.positions)
        summary = summary_of(told, waiting, datetime.now(UTC))
        if self.report:
            summary.files = page_of(summary, namesrv).save(self.report)
        summary.seconds = live.seconds
        return summary


def ask(namesrv: str, groups: Sequence[str], topics: Sequence[str]) -> Told:
    """Return the positions of groups in topics; raises RoquetError."""
    with Turns() as turns:
        return turns.run(_ask(namesrv, groups, topics))


async def _ask(namesrv: str, groups: Sequence[str], topics: Sequence[str]) -> Told:
    from roquet.client.admin import Admin
    from roquet.client.errors import NoRoute, NotFound

    async with Admin(namesrv) as admin:
        positions: list[Position] = []
        consumed: dict[str, float] = {}
        for group in groups or await admin.groups.list():
            try:
                progress = await admin.offsets.progress(group)
            except (NoRoute, NotFound):
                if groups:
                    raise
                continue  # a group that never consumed anything has no positions
            consumed[group] = progress.consume_tps
            positions += [
                Position(group, each.queue, each.consumer_offset, each.broker_offset, each.in_flight)
                for each in progress.queues
                if is_wanted(each.queue.topic, topics)
            ]
        put = {}
        for topic in sorted({each.queue.topic for each in positions}):
            put[topic] = (await admin.topics.stats(topic)).put_tps
        return Told(tuple(positions), consumed, put)


def is_wanted(topic: str, topics: Sequence[str]) -> bool:
    """True for a topic that is asked for; without a list, for all but dead letters."""
    return topic in topics if topics else not is_dead_letter(topic)


def read_waiting(spark: SparkSession, namesrv: str, positions: Iterable[Position]) -> list[Waiting]:
    """Read what lies between positions and ends, each message once, and sum it up by group and queue."""
    from pyspark.sql import functions as f

    behind = [each for each in positions if each.behind]
    if not behind:
        return []
    options = {"namesrv": namesrv, **between_options(behind)}
    names = ("topic", "broker", "queue_id", "queue_offset", "body", "store_time")
    frame = spark.read.format("roquet").options(**options).schema(ddl(names)).load()
    rows = [
        (each.group, each.queue.topic, each.queue.broker_name, each.queue.queue_id, each.done)
        for each in behind
    ]
    asked = spark.createDataFrame(
        rows, "group string, topic string, broker string, queue_id int, done bigint"
    )
    joined = frame.join(f.broadcast(asked), ["topic", "broker", "queue_id"]).where("queue_offset >= done")
    found = joined.groupBy("group", "topic", "broker", "queue_id").agg(
        f.count("*").alias("messages"),
        f.sum(f.length("body")).alias("size_bytes"),
        f.min("store_time").alias("oldest"),
    )
    return [
        Waiting(
            row["group"],
            QueueName(row["broker"], row["queue_id"], row["topic"]),
            row["messages"],
            row["size_bytes"],
            row["oldest"],
        )  # fmt: skip
        for row in collected(found)
    ]


def between_options(behind: Sequence[Position]) -> dict[str, str]:
    """Return options that read each queue from the lowest position to its end, as they were told."""
    starts: dict[QueueName, int] = {}
    ends: dict[QueueName, int] = {}
    for each in behind:
        starts[each.queue] = min(each.done, starts.get(each.queue, each.done))
        ends[each.queue] = max(each.end, ends.get(each.queue, 0))
    queues: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for queue in sorted(ends):
        queues[queue.topic][queue.broker_name].append(queue.queue_id)
    return {
        "assign": json.dumps(queues),
        "startingOffsets": json.dumps(to_json(starts)["topics"]),
        "endingOffsets": json.dumps(to_json(ends)["topics"]),
        "failOnDataLoss": "false",  # what expired before it was consumed is no longer behind
    }


def summary_of(told: Told, waiting: Sequence[Waiting], now: datetime) -> Summary:
    """Return the tables of a report."""
    summary = Summary("lag")
    by_pair: dict[tuple[str, str], list[Position]] = defaultdict(list)
    for each in told.positions:
        by_pair[each.group, each.queue.topic].append(each)
    read: dict[tuple[str, str], list[Waiting]] = defaultdict(list)
    for one in waiting:
        read[one.group, one.queue.topic].append(one)
    rows = [_row(told, pair, by_pair[pair], read[pair], now) for pair in sorted(by_pair)]
    summary.tables["groups"] = sorted(rows, key=lambda row: -row["behind"])
    summary.tables["hot_queues"] = hot_queues(told.positions)
    summary.rows = sum(each.messages for each in waiting)
    summary.size_bytes = sum(each.size_bytes for each in waiting)
    total = sum(each.behind for each in told.positions)
    summary.facts["behind"] = total
    if waiting:
        summary.skip("expired before they were consumed", max(total - summary.rows, 0))
    return summary


def _row(
    told: Told, pair: tuple[str, str], positions: list[Position], waiting: list[Waiting], now: datetime
) -> Row:
    group, topic = pair
    oldest = min((each.oldest for each in waiting if each.oldest), default=None)
    row: dict[str, Any] = {
        "group": group,
        "topic": topic,
        "behind": sum(each.behind for each in positions),
        "in_flight": sum(each.in_flight for each in positions),
        "queues": len(positions),
        "queues_behind": sum(each.behind > 0 for each in positions),
        "bytes": sum(each.size_bytes for each in waiting),
        "oldest_s": None if oldest is None else round((now - oldest).total_seconds(), 1),
        "in_per_s": round(told.put_tps.get(topic, 0.0), 1),
        "out_per_s": round(told.consume_tps.get(group, 0.0), 1),
    }
    return row


def hot_queues(positions: Iterable[Position], most: int = 20) -> list[Row]:
    """Return the queues that are furthest behind, beside the mean of their group's queues."""
    by_pair: dict[tuple[str, str], list[Position]] = defaultdict(list)
    for each in positions:
        by_pair[each.group, each.queue.topic].append(each)
    rows: list[Row] = []
    for (group, topic), queues in by_pair.items():
        mean = sum(each.behind for each in queues) / len(queues)
        rows += [
            {
                "group": group,
                "topic": topic,
                "broker": each.queue.broker_name,
                "queue_id": each.queue.queue_id,
                "behind": each.behind,
                "times_the_mean": round(each.behind / mean, 2),
            }
            for each in queues
            if each.behind
        ]
    return sorted(rows, key=lambda row: -row["behind"])[:most]


def page_of(summary: Summary, where: str) -> Page:
    """Return the report."""
    page = Page("How far groups are behind", where)
    page.say(
        f"{summary.facts['behind']:,} messages wait for {len(summary.tables['groups'])} groups and topics."
    )
    behind = {f"{row['group']} · {row['topic']}": float(row["behind"]) for row in summary.tables["groups"]}
    if any(behind.values()):
        page.plot("Behind", bars(behind, "messages"))
        queues = {
            f"{row['group']} · {row['topic']} · {row['broker']}/{row['queue_id']}": float(row["behind"])
            for row in summary.tables["hot_queues"]
        }
        page.plot("Hot queues", bars(queues, "messages behind"))
    retries = [row for row in summary.tables["groups"] if is_retry(row["topic"])]
    page.table("Groups", [row for row in summary.tables["groups"] if row not in retries])
    page.table("Retries that wait", retries)
    page.table("Queues furthest behind", summary.tables["hot_queues"])
    return page


if __name__ == "__main__":
    from roquet.spark.pipelines import program

    sys.exit(program.main(Lag))
