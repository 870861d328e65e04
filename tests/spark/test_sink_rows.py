"""Columns to messages: which are refused, what texts they become, where they go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

from roquet.client.core.bulk import OWNED
from roquet.client.errors import BadMessage
from roquet.model.message import parse_properties
from roquet.spark.options import OptionError
from roquet.spark.rows import Fixed, Group, check_columns, groups

BODY = t.StructField("body", t.BinaryType())
TOPIC = Fixed(topic="orders")
MAP = pa.map_(pa.string(), pa.string())


def schema(*fields: t.StructField) -> t.StructType:
    return t.StructType(list(fields))


def only(batch: pa.RecordBatch, fixed: Fixed = TOPIC) -> Group:
    found = list(groups(batch, fixed))
    assert len(found) == 1
    return found[0]


# --- columns


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([BODY, t.StructField("Tags", t.StringType())], "no column Tags: did you mean tag?"),
        ([BODY, t.StructField("odering_key", t.StringType())], "did you mean ordering_key?"),
        ([BODY, t.StructField("xyz", t.StringType())], "the sink takes body, topic"),
        ([t.StructField("body", t.LongType())], "column body must be binary or string, not bigint"),
        ([BODY, t.StructField("keys", t.ArrayType(t.LongType()))], "column keys must be array<string>"),
        ([BODY, t.StructField("deliver_at", t.TimestampNTZType())], "column deliver_at must be timestamp"),
        ([BODY, t.StructField("delay", t.YearMonthIntervalType())], "column delay must be interval day"),
        ([t.StructField("topic", t.StringType())], "needs a column body"),
        (
            [BODY, t.StructField("delay", t.LongType()), t.StructField("deliver_at", t.TimestampType())],
            "delay and deliver_at exclude each other",
        ),
        (
            [BODY, t.StructField("queue_id", t.LongType()), t.StructField("ordering_key", t.StringType())],
            "ordering_key and queue_id exclude each other",
        ),
    ],
)
def test_wrong_columns_are_named(fields: list[t.StructField], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_columns(schema(*fields), TOPIC)
    assert words in str(caught.value)


def test_a_topic_must_come_from_somewhere() -> None:
    with pytest.raises(OptionError, match="give the option topic"):
        check_columns(schema(BODY), Fixed())
    assert check_columns(schema(BODY, t.StructField("topic", t.StringType())), Fixed()) == ("body", "topic")


def test_an_option_and_a_column_exclude_each_other_too() -> None:
    with pytest.raises(OptionError, match="delay and deliver_at"):
        check_columns(
            schema(BODY, t.StructField("deliver_at", t.TimestampType())),
            TOPIC._replace(delay=timedelta(seconds=1)),
        )


def test_all_kinds_of_columns_are_taken() -> None:
    fields = [BODY] + [
        t.StructField("topic", t.StringType()),
        t.StructField("tag", t.StringType()),
        t.StructField("keys", t.ArrayType(t.StringType())),
        t.StructField("properties", t.MapType(t.StringType(), t.StringType())),
        t.StructField("delay", t.DayTimeIntervalType()),
        t.StructField("ordering_key", t.StringType()),
    ]
    assert len(check_columns(schema(*fields), Fixed())) == len(fields)


# --- values


def test_a_row_with_everything() -> None:
    batch = pa.record_batch(
        {
            "body": pa.array(["ü", "b"]),
            "tag": pa.array(["paid", None]),
            "keys": pa.array([["1", "2"], []]),
            "properties": pa.array([[("a", "1"), ("b", "2")], None], MAP),
            "ordering_key": pa.array(["customer", None]),
        }
    )
    group = only(batch)
    assert group.bodies == ["ü".encode(), b"b"]
    assert parse_properties(group.texts[0]) == {
        "TAGS": "paid",
        "KEYS": "1 2",
        "a": "1",
        "b": "2",
        "__SHARDINGKEY": "customer",
    }
    assert group.texts[1] == ""
    assert group.ordering_keys == ["customer", None]


def test_options_fill_what_rows_leave_open() -> None:
    fixed = Fixed("orders", tag="t", keys="k", properties={"p": "v"}, queue_id=3)
    batch = pa.record_batch({"body": pa.array([b"a", b"b"]), "tag": pa.array([None, "own"])})
    group = only(batch, fixed)
    assert [parse_properties(text) for text in group.texts] == [
        {"TAGS": "t", "KEYS": "k", "p": "v"},
        {"TAGS": "own", "KEYS": "k", "p": "v"},
    ]
    assert group.queue_ids == [3, 3]


def test_rows_go_by_topic_and_those_for_later_by_themselves() -> None:
    batch = pa.record_batch(
        {
            "body": pa.array([b"0", b"1", b"2", b"3"]),
            "topic": pa.array(["a", "b", "a", None]),
            "delay": pa.array([0, None, 5, 7]),
        }
    )
    found = {(group.topic, bool(group.dues)): group for group in groups(batch, Fixed(topic="c"))}
    assert {where: group.bodies for where, group in found.items()} == {
        ("a", False): [b"0"],
        ("a", True): [b"2"],
        ("b", False): [b"1"],
        ("c", True): [b"3"],
    }
    assert found["a", True].dues == [timedelta(milliseconds=5)]


def test_lists_and_maps_that_spark_knows_to_hold_no_nulls() -> None:
    words = pa.list_(pa.field("element", pa.string(), nullable=False))
    pairs = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
    batch = pa.record_batch(
        {
            "body": pa.array([b"0"]),
            "keys": pa.array([["a", "b"]], words),
            "properties": pa.array([[("c", "d")]], pairs),
        }
    )
    assert parse_properties(only(batch).texts[0]) == {"KEYS": "a b", "c": "d"}


def test_a_time_is_a_time() -> None:
    when = datetime(2030, 1, 1, tzinfo=UTC)
    batch = pa.record_batch(
        {"body": pa.array([b"0"]), "deliver_at": pa.array([when], pa.timestamp("us", "UTC"))}
    )
    assert only(batch).dues == [when]


def test_what_the_protocol_owns_is_not_sent_again() -> None:
    pairs = [(name, "x") for name in sorted(OWNED)] + [("mine", "1"), ("empty", "")]
    batch = pa.record_batch({"body": pa.array([b"0"]), "properties": pa.array([pairs], MAP)})
    assert only(batch).texts == ["mine\x011\x02"]


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"body": pa.array([b"a", None])}, OptionError, "column body is null"),
        (
            {"body": pa.array([b"a"]), "topic": pa.array([None], pa.string())},
            OptionError,
            "column topic is null",
        ),
        ({"body": pa.array([b"a"]), "keys": pa.array([["a b"]])}, OptionError, "a key with a space"),
        ({"body": pa.array([b"a"]), "keys": pa.array([[""]])}, OptionError, "null or empty"),
        ({"body": pa.array([b"a"]), "tag": pa.array(["a\x01b"])}, BadMessage, "the character 1 or 2"),
        (
            {"body": pa.array([b"a"]), "properties": pa.array([[("a", "x" * 40_000)]], MAP)},
            BadMessage,
            "the properties take 40003 bytes",
        ),
    ],
)
def test_bad_values_are_refused(columns: dict[str, pa.Array], error: type[Exception], words: str) -> None:
    fixed = Fixed() if "topic" in columns else TOPIC
    with pytest.raises(error) as caught:
        list(groups(pa.record_batch(columns), fixed))
    assert words in str(caught.value)


WORD = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=6)
TEXT = st.none() | st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=6)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1), st.sampled_from("abc"), TEXT, st.none() | st.dictionaries(WORD, TEXT)
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 3),
)
def test_every_row_arrives_as_a_plain_loop_would_send_it(
    given_rows: list[tuple[bytes, str, str | None, dict[str, str | None] | None]], cut: int
) -> None:
    bodies, topics, tags, maps = zip(*given_rows, strict=True)
    batch = pa.record_batch(
        {
            "body": pa.array(bodies, pa.binary()),
            "topic": pa.array(topics),
            "tag": pa.array(tags, pa.string()),
            "properties": pa.array([None if each is None else list(each.items()) for each in maps], MAP),
        }
    ).slice(min(cut, len(given_rows) - 1))
    expected: dict[str, list[tuple[bytes, dict[str, str]]]] = {}
    for body, topic, tag, properties in given_rows[min(cut, len(given_rows) - 1) :]:
        wanted = {name: value for name, value in (properties or {}).items() if value and name not in OWNED}
        expected.setdefault(topic, []).append((body, {"TAGS": tag, **wanted} if tag else wanted))
    found = {
        group.topic: [
            (body, parse_properties(text)) for body, text in zip(group.bodies, group.texts, strict=True)
        ]
        for group in groups(batch, Fixed())
    }
    assert found == expected
