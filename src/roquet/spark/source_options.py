"""The options of the source `roquet`, batch and stream: the table and its rules.

Names are those of Spark's Kafka source where it has the same thing. `read_options` gives every value, or
raises OptionError that names what is wrong: unknown, missing, unreadable, contradictory, or without
meaning where it stands. Pure: no Spark, no network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal

from roquet.spark import options as opt
from roquet.spark.plan import assigned, per_queue
from roquet.spark.pushdown import PUSHDOWN

EARLIEST, LATEST = -2, -1
"""What these offsets mean in JSON, as in Spark's Kafka source."""

Mode = Literal["batch", "stream"]


def _offsets(*words: str) -> opt.Kind:
    def read(text: str) -> Any:
        if text.lower() in words:
            return text.lower()
        if not text.startswith("{"):
            raise ValueError(f"it must be one of {', '.join(words)}, or JSON")
        return per_queue(json.loads(text), least=EARLIEST)

    return opt.Kind(" \\| ".join((*words, 'JSON `{"orders": {"broker-a": {"0": 17}}}`')), read)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(str(error)) from None


PATTERN: Final = opt.Kind("regular expression", _pattern)
QUEUES: Final = opt.Kind(
    'JSON `{"orders": {"broker-a": [0, 1]}}`', lambda text: assigned(opt.OBJECT.read(text))
)

OPTIONS: Final = opt.Table(
    "roquet",
    opt.Option(
        "namesrv",
        opt.TEXT,
        opt.REQUIRED,
        "Name servers: `host:port;host:port`.",
        used_by="all",
        aliases=("nameServer",),
    ),
    opt.Option(
        "subscribe",
        opt.WORDS,
        (),
        "Topics to read. One of `subscribe`, `subscribePattern` and `assign` is needed.",
        aliases=("topic",),
    ),
    opt.Option(
        "subscribePattern",
        PATTERN,
        None,
        "Topics to read, by an expression for the whole name; topics of the servers, of retries and "
        "of dead letters are not among them.",
    ),
    opt.Option(
        "assign",
        QUEUES,
        (),
        "Queues to read.",
    ),
    opt.Option(
        "tags",
        opt.TEXT,
        "*",
        "Only messages with one of these tags: `created || paid`.",
    ),
    opt.Option(
        "sql",
        opt.TEXT,
        None,
        "Only messages whose properties meet this SQL92 condition; the broker must allow it "
        "(`enablePropertyFilter`).",
    ),
    opt.Option(
        "startingOffsets",
        _offsets("earliest", "latest", "group"),
        None,
        "Where to begin: `earliest` is the default of a batch, `latest` that of a stream; `group` is "
        "where the option `group` has got to. In JSON −2 is earliest and −1 latest; queues that it "
        "lacks begin at the default. A stream uses it only when it has no checkpoint yet.",
    ),
    opt.Option(
        "endingOffsets",
        _offsets("latest", "group"),
        None,
        "Where to end, exclusive: `latest` is the default.",
        used_by="batch",
    ),
    opt.Option(
        "startingTimestamp",
        opt.TIME,
        None,
        "Begin with the first message stored at this time or later.",
    ),
    opt.Option(
        "endingTimestamp",
        opt.TIME,
        None,
        "End with the last message stored before this time.",
        used_by="batch",
    ),
    opt.Option(
        "startingTimestampStrategy",
        opt.choice("error", "latest"),
        "error",
        "What to do in a queue that has no message of `startingTimestamp` or later: fail, or read "
        "nothing of what it has now. (For `endingTimestamp` such a queue is read to its end.)",
        aliases=("startingOffsetsByTimestampStrategy",),
    ),
    opt.Option(
        "maxOffsetsPerTrigger",
        opt.number(1),
        None,
        "Messages of one batch at most, divided among the queues by what waits in them.",
        used_by="stream",
    ),
    opt.Option(
        "minOffsetsPerTrigger",
        opt.number(1),
        None,
        "Wait until so many messages have come, …",
        used_by="stream",
    ),
    opt.Option(
        "maxTriggerDelay",
        opt.DURATION,
        timedelta(minutes=15),
        "… but no longer than this.",
        used_by="stream",
    ),
    opt.Option(
        "maxBytesPerTrigger",
        opt.number(1),
        None,
        "Bytes of one batch, about: estimated from the first of the messages that wait.",
        used_by="stream",
    ),
    opt.Option(
        "maxRecordsPerPartition",
        opt.number(1),
        None,
        "Messages of one partition at most.",
    ),
    opt.Option(
        "minPartitions",
        opt.number(1),
        1,
        "Partitions at least; long queues are split.",
    ),
    opt.Option(
        "maxPartitions",
        opt.number(1),
        8,
        "Partitions at most, unless the two options above want more; best is the number of cores. "
        "Small reads take fewer: a partition costs about 35 ms.",
    ),
    opt.Option(
        "failOnDataLoss",
        opt.SWITCH,
        True,
        "Fail when messages that should be read are gone (deleted by age, topic deleted, queue away); "
        "otherwise warn and go on.",
    ),
    opt.Option(
        "includeProperties",
        opt.SWITCH,
        True,
        "Have the column `properties`, the dearest one.",
    ),
    opt.Option(
        "format",
        opt.choice("string", "json", "avro", "protobuf"),
        None,
        "Decode bodies into the column `value`.",
        aliases=("valueFormat",),
    ),
    opt.Option(
        "valueSchema",
        opt.TEXT,
        None,
        "The type of `value`. json: a Spark type, such as `id bigint, name string`; avro: a schema in "
        "JSON; protobuf: a file of descriptors (`protoc --include_imports --descriptor_set_out`), or "
        "its bytes in base64.",
    ),
    opt.Option(
        "valueMessage",
        opt.TEXT,
        None,
        "protobuf: the full name of the message.",
    ),
    opt.Option(
        "badValues",
        opt.choice("error", "column"),
        "error",
        "What a body is that does not decode: an error, or null with the reason in the column `value_error`.",
    ),
    opt.Option(
        "group",
        opt.TEXT,
        None,
        "Group to commit progress to, so that its lag is visible everywhere. Spark reports a batch of a "
        "stream when the next one begins. The checkpoint alone decides where a query goes on.",
    ),
    opt.Option(
        "queueDiscoveryInterval",
        opt.DURATION,
        timedelta(seconds=10),
        "How often new topics, brokers and queues are looked for; they are read from their oldest message.",
        used_by="stream",
    ),
    opt.Option(
        "timeout",
        opt.DURATION,
        timedelta(seconds=10),
        "Patience with one request.",
        used_by="all",
        aliases=("pullTimeoutMs",),
    ),
    opt.Option(
        "retries",
        opt.number(0),
        3,
        "Further tries of a request that failed in passing.",
        used_by="all",
        aliases=("fetchOffset.numRetries",),
    ),
    opt.Option(
        "retryInterval",
        opt.DURATION,
        timedelta(milliseconds=200),
        "Pause before the first of them; it doubles.",
        used_by="all",
        aliases=("fetchOffset.retryIntervalMs",),
    ),
    opt.Option(
        "pullMessages",
        opt.number(1),
        8192,
        "Messages to ask for at once; Apache's brokers give 32.",
        aliases=("pullBatchSize",),
    ),
    opt.Option(
        "pullBytes",
        opt.number(1024),
        1 << 20,
        "Bytes to ask for at once.",
        aliases=("pullMaxBytes",),
    ),
    opt.Option(
        "pullPipeline",
        opt.number(1),
        8,
        "Requests under way at once in a task; memory is this times `pullBytes`.",
    ),
    opt.Option(
        "arrowBatchRows",
        opt.number(1),
        10000,
        "Rows of one Arrow batch.",
    ),
    opt.Option(
        "namespace",
        opt.TEXT,
        "",
        "Namespace of topics and groups.",
        used_by="all",
    ),
    PUSHDOWN._replace(used_by="batch"),
)

CLIENT_SETTINGS: Final = ("unit", "instance", "encoding")
"""What `rocketmq.*` passes through to the client."""


def read_options(given: Mapping[str, str], mode: Mode | None = None) -> dict[str, Any]:
    """Return every option's value; raises OptionError. Without a mode what depends on it is not checked."""
    values = OPTIONS.parse(given)
    values["client"] = opt.client_settings(OPTIONS.passed_through(given), CLIENT_SETTINGS)
    named = OPTIONS.named(given)
    _check_topics(values)
    _one_of(named, "tags", "sql")
    _one_of(named, "startingOffsets", "startingTimestamp")
    _one_of(named, "endingOffsets", "endingTimestamp")
    if "group" in (values["startingOffsets"], values["endingOffsets"]) and not values["group"]:
        raise opt.OptionError("startingOffsets=group needs the option group: whose offsets?")
    if "maxPartitions" in named and values["minPartitions"] > values["maxPartitions"]:
        raise opt.OptionError("minPartitions is larger than maxPartitions")
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise opt.OptionError("minOffsetsPerTrigger is larger than maxOffsetsPerTrigger")
    _check_values(values)
    if mode is not None:
        _check_mode(values, named, mode)
    return values


def _check_topics(values: Mapping[str, Any]) -> None:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if values[name]]
    if not ways:
        raise opt.OptionError(
            "option subscribe of roquet is missing (or subscribePattern, or assign): what to read?"
        )
    if len(ways) > 1:
        raise opt.OptionError(f"{' and '.join(ways)} exclude each other: give one of them")


def _one_of(named: set[str], *names: str) -> None:
    both = [name for name in names if name in named]
    if len(both) > 1:
        raise opt.OptionError(f"{' and '.join(both)} exclude each other: give one of them")


def _check_values(values: Mapping[str, Any]) -> None:
    kind = values["format"]
    if kind in (None, "string"):
        for name in ("valueSchema", "valueMessage"):
            if values[name] is not None:
                raise opt.OptionError(f"{name} has a meaning only with format=json, avro or protobuf")
    if kind in ("avro", "protobuf") and values["valueSchema"] is None:
        raise opt.OptionError(f"format={kind} needs the option valueSchema")
    if kind == "protobuf" and values["valueMessage"] is None:
        raise opt.OptionError("format=protobuf needs the option valueMessage: the full name of the message")


def _check_mode(values: Mapping[str, Any], named: set[str], mode: Mode) -> None:
    other = "stream" if mode == "batch" else "batch"
    for option in OPTIONS.options:
        if option.name in named and option.used_by == other:
            raise opt.OptionError(
                f"option {option.name} has a meaning only in a {other}, and this is a {mode}"
            )
    if mode == "batch" and values["startingOffsets"] == "latest":
        raise opt.OptionError("startingOffsets=latest leaves nothing for a batch to read")
