"""Replay: send messages of an archive, of a store's files or of topics once more.

    spark-submit replay.py --archive archive/ --topics orders --since 2026-11-15T10:00 --to orders-again

Chosen by time, by key or by any SQL condition on the columns. Without `--send` it only counts what would
go, by topic and queue; with it the same is counted first and then sent, as fast as `--rate` allows.
"""

from __future__ import annotations

import re
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from roquet.arrow import COLUMNS
from roquet.model.names import topic_fault
from roquet.spark.options import OptionError
from roquet.spark.pipelines import arguments, sending
from roquet.spark.pipelines.sources import From, check, condition, messages, namesrv_of
from roquet.spark.pipelines.summary import Live, Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Send stored messages once more, chosen by time, key or SQL; counts them first."""

    archive: arguments.ArchiveFolder = ""
    store: arguments.Store = ""
    source_namesrv: Annotated[str, "Read from the brokers of these name servers instead."] = ""
    topics: arguments.Topics = ()
    since: arguments.Since = None
    until: arguments.Until = None
    with_keys: Annotated[tuple[str, ...], "Only messages with one of these keys."] = ()
    where: Annotated[str, "Only messages that meet this SQL condition: tag = 'paid' AND queue_id < 4."] = ""
    to: Annotated[str, "Topic to send to; otherwise each goes to its own."] = ""
    namesrv: Annotated[str, "Name servers of the brokers to send to."] = ""
    keys: Annotated[sending.Keys, "Keys of the new messages: those they have, or one made anew."] = "original"
    rate: Annotated[float, "Messages a second at most; 0 does not limit."] = 0.0
    in_order: Annotated[bool, "Send in the order of storing, by one task."] = False
    delivery: Annotated[sending.Delivery, "What a failed task may do: repeat messages, or nothing."] = (
        "at-least-once"
    )
    name: Annotated[str, "Name of this run; exactly once, a second run of that name sends nothing."] = ""
    send: Annotated[bool, "Send them; otherwise only count."] = False

    def run(self, spark: SparkSession, live: Live) -> Summary:
        """Count what is meant, and send it if that is asked for."""
        where, how = self.plan()
        summary = Summary("replay")
        live.say("replay: counting")
        frame = self.chosen(messages(spark, where, COLUMNS))
        if not how.to:
            summary.skip("of inner topics", frame.where(~sending.is_sendable()).count())
            frame = frame.where(sending.is_sendable())
        summary.tables["chosen"] = sending.counts(frame)
        chosen = sum(row["messages"] for row in summary.tables["chosen"])
        chosen_bytes = sum(row["body_bytes"] for row in summary.tables["chosen"])
        summary.facts |= {"chosen": chosen, "chosen_bytes": chosen_bytes}
        summary.facts |= {"is_dry_run": not self.send, "run": how.name}
        if self.send and chosen:
            live.note(f"replay: {chosen:,} messages to {how.to or 'their own topics'}")
            rows = frame.orderBy("store_time", "log_offset").coalesce(1) if self.in_order else frame
            summary.rows = sending.send(rows, how, live)
            summary.size_bytes = chosen_bytes if summary.rows else 0
            summary.skip("sent before under that name", chosen if not summary.rows else 0)
        elif chosen:
            live.note("this was a dry run: give --send to send them")
        summary.seconds = live.seconds
        return summary

    def plan(self) -> tuple[From, sending.How]:
        """Return what is read and how it is sent; raises OptionError."""
        if not (self.archive or self.store or self.source_namesrv):
            raise OptionError("say what to replay: --archive, --store or --source-namesrv")
        if self.to and topic_fault(self.to):
            raise OptionError(f"--to: {topic_fault(self.to)}")
        if self.name and not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", self.name):
            raise OptionError("--name must be 1 to 64 letters, digits, dots, - or _")
        where = check(
            From(self.source_namesrv, self.topics, self.store, self.archive, self.since, self.until)
        )
        if where.namesrv and not self.to and namesrv_of(self.namesrv) == where.namesrv:
            raise OptionError("this would send the topics into themselves: give --to another topic")
        name = self.name or f"replay-{uuid.uuid4().hex[:12]}"
        namesrv = namesrv_of(self.namesrv) if self.send else self.namesrv
        return where, sending.How(namesrv, self.to, self.keys, self.rate, self.delivery, name)

    def chosen(self, frame: DataFrame) -> DataFrame:
        """Return the messages with the keys and conditions that are asked for."""
        from pyspark.sql import functions as f

        if self.with_keys:
            wanted = f.array(*(f.lit(key) for key in self.with_keys))
            frame = frame.where(f.arrays_overlap("keys", wanted))
        return condition(frame, self.where)


if __name__ == "__main__":
    from roquet.spark.pipelines import program

    sys.exit(program.main(Replay))
