"""`df.write.format("roquet")` and `df.writeStream.format("roquet")`: a table's rows as messages.

    df.selectExpr("to_json(struct(*)) AS body", "country AS tag").write.format("roquet")
      .option("namesrv", "127.0.0.1:9876").option("topic", "orders").mode("append").save()

Columns: body, topic, tag, keys, properties, delay or deliver_at, ordering_key or queue_id; or the options of
those names. Here is delivery at least once: a task returns when every row is confirmed, and one that is
run again sends its rows again. `staged` delivers exactly once. Spark makes a writer for each batch.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from roquet.spark import options as opt
from roquet.spark.outbox import Outbox, Wires
from roquet.spark.rows import Fixed, check_columns, groups

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger("roquet.spark")

CLIENT_SETTINGS: Final = ("unit", "instance", "encoding")
IMMUNITY_S_MAX: Final = 2**31 // 1000
SPARKS_OWN_OF_STREAMS: Final = ("path", "checkpointlocation", "queryname")
"""Options of Spark's that reach the writer of a stream with its own: `.queryName(…)` is one."""


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text):
        raise ValueError("it must be 1 to 64 letters, digits, dots, - or _")
    return text


def _texts(text: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in opt.OBJECT.read(text).items()}


NAME: Final = opt.Kind("name", _name)
TEXTS: Final = opt.Kind("JSON object of texts", _texts)

SINK_OPTIONS: Final = opt.Table(
    "roquet (sink)",
    opt.Option("namesrv", opt.TEXT, opt.REQUIRED, "Name servers: `host:port;host:port`.", "write",
               ("nameServer",)),
    opt.Option("namespace", opt.TEXT, "", "Namespace of topics and groups.", "write"),
    opt.Option("topic", opt.TEXT, "", "Topic of rows that have none of their own.", "write"),
    opt.Option("tag", opt.TEXT, "", "Tag of rows that have none of their own.", "write"),
    opt.Option("keys", opt.TEXT, "", "Keys of rows that have none, with spaces between.", "write"),
    opt.Option("properties", TEXTS, {}, "Properties of every row, as JSON.", "write"),
    opt.Option("delay", opt.DURATION, None, "Deliver rows so long after they were sent.", "write"),
    opt.Option("deliverAt", opt.TIME, None, "Deliver rows at this time.", "write"),
    opt.Option("orderingKey", opt.TEXT, "", "Ordering key of rows that have none of their own.", "write"),
    opt.Option("queueId", opt.number(0), None, "Queue of rows that name none.", "write"),
    opt.Option("delivery", opt.choice("at-least-once", "exactly-once"), "at-least-once",
               "What a failure may do: repeat rows, or nothing. Exactly once takes two more writes a row.",
               "write", ("deliveryGuarantee",)),
    opt.Option("producerGroup", NAME, "roquet-spark", "Producer group that the brokers see.", "write"),
    opt.Option("timeout", opt.DURATION, timedelta(seconds=30),
               "Patience with one request, all its tries together.", "write", ("sendTimeoutMs",)),
    opt.Option("retries", opt.number(0), 8, "Further tries of a request.", "write"),
    opt.Option("sendBatchBytes", opt.number(1024), 1 << 20, "Bytes of one request at most.", "write"),
    opt.Option("sendPipeline", opt.number(1), 16,
               "Requests under way at once in a task; memory is this times `sendBatchBytes`.", "write"),
    opt.Option("queryId", NAME, None,
               "exactly-once: name of a batch write. One that ran before under it has no second effect; "
               "a stream has a name of its own.", "write"),
    opt.Option("transactionTimeout", opt.DURATION, timedelta(hours=1),
               "exactly-once: how long staged rows wait for the end of their batch, and for the restart of "
               "a query that died there.", "write"),
    opt.Option("manifestTopic", opt.TEXT, "ROQUET_SPARK_MANIFEST",
               "exactly-once: topic of the commits; made on one broker, with one queue.", "write"),
    opt.Option("onApache", opt.choice("warn", "refuse"), "warn",
               "exactly-once: what to do where a broker stores a row twice that is committed twice. Apache's "
               "do: there a restart looks for rows that are visible already, and two drivers of one query "
               "at the same time may repeat rows.", "write"),
)  # fmt: skip


class Written(WriterCommitMessage):
    """What a task has sent."""

    def __init__(self, rows: int, size_bytes: int) -> None:
        self.rows = rows
        self.size_bytes = size_bytes


class Sending:
    """What the writers of a batch and of a stream do alike: a task's rows, confirmed."""

    def __init__(self, wires: Wires, fixed: Fixed) -> None:
        self._wires = wires
        self._fixed = fixed

    def send(self, batches: Iterator[pa.RecordBatch]) -> Written:
        with Outbox(self._wires) as outbox:
            for batch in batches:
                for group in groups(batch, self._fixed):
                    outbox.send(group)
            outbox.finish()
            return Written(outbox.rows, outbox.size_bytes)


class BatchSink(DataSourceArrowWriter):
    """Writes a table, each row at least once."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sending.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _report(messages, "")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _warn(messages, "the write")


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each row at least once."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sending.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _report(messages, f"batch {batchId}: ")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _warn(messages, f"batch {batchId}")


def writer_of(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Return the writer of a batch; raises OptionError before anything is sent."""
    given, fixed = read_options(options, schema, overwrite)
    if given["delivery"] == "exactly-once":
        from roquet.spark.staged import StagedBatchSink, staging_of

        return StagedBatchSink(staging_of(given, fixed, wires_of(given)))
    return BatchSink(Sending(wires_of(given), fixed))


def stream_writer_of(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return the writer of a stream's batch; raises OptionError before anything is sent."""
    given, fixed = read_options(options, schema, overwrite, is_stream=True)
    if given["delivery"] == "exactly-once":
        from roquet.spark.staged import StagedStreamSink, staging_of

        return StagedStreamSink(staging_of(given, fixed, wires_of(given)))
    return StreamSink(Sending(wires_of(given), fixed))


def read_options(
    options: Mapping[str, str], schema: StructType, overwrite: bool, *, is_stream: bool = False
) -> tuple[dict[str, Any], Fixed]:
    """Return every option's value and what they say for all rows; raises OptionError."""
    if overwrite:
        raise opt.OptionError('a topic cannot be overwritten: use mode("append"), or outputMode("append")')
    given = SINK_OPTIONS.parse(options, ignore=SPARKS_OWN_OF_STREAMS if is_stream else ("path",))
    given["client"] = opt.client_settings(SINK_OPTIONS.passed_through(options), CLIENT_SETTINGS)
    fixed = Fixed(
        given["topic"], given["tag"], given["keys"], given["properties"], given["delay"], given["deliverAt"],
        given["orderingKey"], given["queueId"],
    )  # fmt: skip
    columns = check_columns(schema, fixed)
    if given["delivery"] == "exactly-once":
        if {"delay", "deliver_at"} & set(columns) or fixed.delay or fixed.deliver_at:
            raise opt.OptionError(
                "delay and deliver_at do not go with delivery=exactly-once: brokers keep no staged messages "
                "for later"
            )
        if is_stream and given["queryId"]:
            raise opt.OptionError("queryId is for batch writes: a stream has its own, in its checkpoint")
        if not 1 <= given["transactionTimeout"].total_seconds() <= IMMUNITY_S_MAX:
            raise opt.OptionError(f"transactionTimeout must be 1 to {IMMUNITY_S_MAX} seconds")
    else:
        _only_exactly_once(SINK_OPTIONS.named(options))
    return given, fixed


def _only_exactly_once(named: set[str]) -> None:
    for name in ("queryId", "transactionTimeout", "manifestTopic", "onApache"):
        if name in named:
            raise opt.OptionError(f"option {name} has a meaning only with delivery=exactly-once")


def wires_of(given: Mapping[str, Any]) -> Wires:
    """Return how to reach the brokers."""
    return Wires(
        given["namesrv"], given["namespace"], given["producerGroup"], given["timeout"].total_seconds(),
        given["retries"], given["sendBatchBytes"], given["sendPipeline"], given["client"],
    )  # fmt: skip


def _report(messages: list[WriterCommitMessage | None], what: str) -> None:
    done = [message for message in messages if isinstance(message, Written)]
    rows, size_bytes = sum(each.rows for each in done), sum(each.size_bytes for each in done)
    log.info("%s%d rows were sent, %d bytes of bodies", what, rows, size_bytes)


def _warn(messages: list[WriterCommitMessage | None], what: str) -> None:
    rows = sum(message.rows for message in messages if isinstance(message, Written))
    log.warning("%s failed; %d rows or more were sent all the same and may come again", what, rows)
