"""Options: read, refused with the name of the nearest right one, and shown in the documentation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from roquet.spark import sink, source_options
from roquet.spark.describe import PAGE, TABLES, with_tables
from roquet.spark.options import OptionError
from roquet.spark.source_options import Mode, read_options
from tests.spark.shop import queue

PLAIN = {"namesrv": "127.0.0.1:9876", "subscribe": "orders"}
DOCS = Path(__file__).parents[2] / "docs" / PAGE


def test_names_have_no_case_and_values_have_types() -> None:
    given = {
        "NameSrv": "a:1;b:2",
        "SUBSCRIBE": "orders, payments",
        "startingtimestamp": "2026-01-02T03:04:05",
        "maxTriggerDelay": "2m",
        "retryInterval": "5",
        "failOnDataLoss": "FALSE",
        "maxOffsetsPerTrigger": "10",
        "rocketmq.unit": "east",
    }
    values = read_options(given, "stream")
    assert values["subscribe"] == ("orders", "payments")
    assert values["startingTimestamp"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert values["maxTriggerDelay"] == timedelta(minutes=2)
    assert values["retryInterval"] == timedelta(milliseconds=5)
    assert values["failOnDataLoss"] is False
    assert values["maxOffsetsPerTrigger"] == 10
    assert values["client"] == {"unit": "east"}
    assert values["pullPipeline"] == 8


def test_offsets_by_queue() -> None:
    text = '{"orders": {"broker-a": {"0": 17, "1": -2, "2": -1}}}'
    values = read_options({**PLAIN, "startingOffsets": text})
    assert values["startingOffsets"] == {queue("orders"): 17, queue("orders", 1): -2, queue("orders", 2): -1}
    assigned = read_options({"namesrv": "a:1", "assign": '{"orders": {"broker-a": [1, 0, 1]}}'})
    assert assigned["assign"] == (queue("orders", 0), queue("orders", 1))


WRONG: list[tuple[dict[str, str], Mode | None, str]] = [
    ({"subscribe": "orders"}, None, "namesrv of roquet is missing"),
    ({"namesrv": "a:1"}, None, "subscribe of roquet is missing"),
    ({**PLAIN, "startingOffset": "earliest"}, None, "did you mean startingOffsets"),
    ({**PLAIN, "topic": "payments"}, None, "are the same option"),
    ({**PLAIN, "subscribePattern": "o.*"}, None, "subscribe and subscribePattern exclude each other"),
    ({"namesrv": "a:1", "subscribePattern": "("}, None, "wants regular expression"),
    ({"namesrv": "a:1", "assign": "{}"}, None, "names no queue"),
    ({"namesrv": "a:1", "assign": '{"orders": {"broker-a": 0}}'}, None, "wants a list of queue ids"),
    ({**PLAIN, "tags": "A", "sql": "a > 1"}, None, "tags and sql exclude each other"),
    ({**PLAIN, "startingOffsets": "earliest", "startingTimestamp": "1"}, None, "exclude each other"),
    ({**PLAIN, "startingOffsets": "newest"}, None, "one of earliest, latest, group, or JSON"),
    ({**PLAIN, "startingOffsets": '{"orders": {"broker-a": {"x": 1}}}'}, None, "is no queue id"),
    ({**PLAIN, "startingOffsets": '{"orders": {"broker-a": {"0": -3}}}'}, None, "-3 of orders/broker-a/0 is"),
    ({**PLAIN, "startingOffsets": "group"}, None, "needs the option group"),
    ({**PLAIN, "startingOffsets": "latest"}, "batch", "leaves nothing for a batch"),
    ({**PLAIN, "endingOffsets": "earliest"}, "batch", "one of latest, group, or JSON"),
    ({**PLAIN, "endingOffsets": "latest"}, "stream", "endingOffsets has a meaning only in a batch"),
    ({**PLAIN, "maxOffsetsPerTrigger": "5"}, "batch", "maxOffsetsPerTrigger has a meaning only in a stream"),
    ({**PLAIN, "pushdown": "true"}, "stream", "pushdown has a meaning only in a batch"),
    ({**PLAIN, "maxOffsetsPerTrigger": "0"}, None, "it must be at least 1"),
    ({**PLAIN, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, None, "is larger than maxOffsets"),
    ({**PLAIN, "minPartitions": "9", "maxPartitions": "5"}, None, "minPartitions is larger than max"),
    ({**PLAIN, "failOnDataLoss": "maybe"}, None, "true or false"),
    ({**PLAIN, "timeout": "5 weeks"}, None, "unit must be ms, s, m, h or d"),
    ({**PLAIN, "format": "xml"}, None, "one of string, json, avro, protobuf"),
    ({**PLAIN, "valueSchema": "a int"}, None, "only with format=json"),
    ({**PLAIN, "format": "avro"}, None, "format=avro needs the option valueSchema"),
    ({**PLAIN, "format": "protobuf", "valueSchema": "x"}, None, "needs the option valueMessage"),
    ({**PLAIN, "rocketmq.units": "east"}, None, "did you mean rocketmq.unit"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "mode", "what"), WRONG)
def test_what_is_wrong_is_named(given: dict[str, str], mode: Mode | None, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        read_options(given, mode)


def test_the_page_shows_every_option() -> None:
    page = DOCS.read_text()
    assert with_tables(page) == page, "run make docs"
    for table in TABLES.values():
        for option in table.options:
            assert f"`{option.name}`" in page


def test_every_option_is_tried_on_both_kinds_of_brokers() -> None:
    """The files there run on a broker of ours and on Apache's."""
    folder = Path(__file__).with_name("any_broker")
    names = ("test_batch", "test_stream", "test_topics_that_change")
    text = "".join((folder / f"{name}.py").read_text() for name in names)
    elsewhere = {"valueMessage", "pushdown"}  # test_values has no broker at all; test_session has Spark
    missing = [
        option.name
        for option in source_options.OPTIONS.options
        if option.name not in elsewhere and f"{option.name}=" not in text and f'"{option.name}"' not in text
    ]
    assert missing == []


def test_the_docstring_shows_every_option() -> None:
    from roquet.spark.source import RoquetSource

    for option in (*source_options.OPTIONS.options, *sink.SINK_OPTIONS.options):
        assert option.name in (RoquetSource.__doc__ or "")
