"""What goes over the wire, and what is refused before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.client.compression import Compression, inflate
from roquet.client.core.sending import (
    BATCH_MESSAGES_MAX,
    Rules,
    as_bytes,
    check_batch,
    check_body,
    check_delay,
    check_topic,
    item_of,
    level_pairs,
    pack_body,
    pairs_of,
    recall_broker,
    runs,
    text_of,
    timer_pairs,
)
from roquet.client.errors import BadMessage, Misuse
from roquet.client.message import Outgoing
from roquet.model.message import parse_properties
from roquet.wire.bodies.batch import split_batch

RULES = Rules("", 1000, 100, "zlib")


def outgoing(**given: Any) -> Outgoing:
    return Outgoing(**({"topic": "t", "body": b"x"} | given))


@pytest.mark.parametrize(
    "body", [b"caf\xc3\xa9", bytearray(b"caf\xc3\xa9"), memoryview(b"caf\xc3\xa9"), "café"]
)
def test_a_body_is_bytes_or_text(body: bytes | bytearray | memoryview | str) -> None:
    assert as_bytes(body) == b"caf\xc3\xa9"


def test_other_bodies_are_refused_with_advice() -> None:
    with pytest.raises(Misuse, match=r"not dict; encode it, .*json"):
        as_bytes({})  # type: ignore[arg-type]


def test_properties_hold_tag_keys_order_and_namespace() -> None:
    message = outgoing(tag="paid", keys=["a", "b"], properties={"x": "1"}, ordering_key="k")
    assert pairs_of(message, "ID", "shop") == {
        "UNIQ_KEY": "ID",
        "x": "1",
        "TAGS": "paid",
        "KEYS": "a b",
        "__SHARDINGKEY": "k",
        "INSTANCE_ID": "shop",
    }


def test_one_text_is_its_keys_too() -> None:
    assert pairs_of(outgoing(keys="a b"), "ID", "")["KEYS"] == "a b"


@given(st.dictionaries(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9), max_size=5))
def test_a_property_text_reads_back_or_is_refused(pairs: dict[str, str]) -> None:
    holds_separators = any(mark in name + value for name, value in pairs.items() for mark in "\x01\x02")
    if holds_separators:
        with pytest.raises(BadMessage):
            text_of(pairs)
    else:
        assert parse_properties(text_of(pairs)) == pairs


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"properties": {"KEYS": "x"}}, "give keys="),
        ({"properties": {"TIMER_DELAY_MS": "1"}}, "give delay="),
        ({"properties": {"TRAN_MSG": "true"}}, "Producer.transaction"),
        ({"properties": {"RETRY_TOPIC": "x"}}, "the servers make it"),
        ({"properties": {"x": ""}}, "no empty ones"),
        ({"properties": {"": "x"}}, "no empty ones"),
        ({"properties": {"x": 5}}, "use str"),
        ({"keys": ["a b"]}, "spaces separate keys"),
        ({"keys": [""]}, "spaces separate keys"),
        ({"ordering_key": ""}, "leave it out"),
    ],
)
def test_what_breaks_a_rule_is_refused_in_words(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadMessage, match=words) as refused:
        pairs_of(outgoing(**given), "ID", "")
    assert refused.value.code == 13
    assert not refused.value.retriable


def test_properties_have_a_limit_in_bytes() -> None:
    text_of({"x": "é" * 16_000})
    with pytest.raises(BadMessage, match="allowed are 32767"):
        text_of({"x": "é" * 16_400})


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("", "blank"),
        ("a/b", "illegal characters"),
        ("t" * 128, "longer"),
        ("SCHEDULE_TOPIC_XXXX", "belongs to the servers"),
    ],
)
def test_topics_that_cannot_be_are_refused(topic: str, words: str) -> None:
    with pytest.raises(BadMessage, match=words):
        check_topic(topic, "")


def test_a_namespace_is_part_of_the_name() -> None:
    assert check_topic("orders", "shop") == "shop%orders"
    with pytest.raises(BadMessage, match="longer"):
        check_topic("t" * 120, "a-long-namespace")


def test_bodies_have_two_limits() -> None:
    check_body(b"x" * 1000, RULES)
    with pytest.raises(BadMessage, match="1001 bytes, allowed are 1000; split it"):
        check_body(b"x" * 1001, RULES)
    with pytest.raises(BadMessage, match="empty"):
        check_body(b"", RULES)


@pytest.mark.parametrize(("kind", "flag"), [("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)])
def test_long_bodies_are_compressed(kind: Compression, flag: int) -> None:
    body = b"abc" * 100
    packed, sys_flag = pack_body(body, RULES._replace(compression=kind))
    assert (sys_flag, len(packed) < len(body)) == (flag, True)
    assert inflate(packed, sys_flag) == body


def test_what_gains_nothing_stays_as_it_is() -> None:
    short, noise = b"x" * 100, bytes(range(256))
    assert pack_body(short, RULES) == (short, 0)
    assert pack_body(noise, RULES) == (noise, 0)
    assert pack_body(b"x" * 500, RULES._replace(compress_above_bytes=None)) == (b"x" * 500, 0)


def test_a_delay_is_told_to_the_millisecond() -> None:
    message = outgoing(delay=timedelta(seconds=1.5))
    assert check_delay(message, 0) == 1500
    assert timer_pairs(message) == {"TIMER_DELAY_MS": "1500"}


def test_a_moment_is_told_as_such() -> None:
    message = outgoing(deliver_at=datetime(2026, 1, 1, tzinfo=UTC))
    due_ms = 1767225600000
    assert check_delay(message, due_ms - 250) == 250
    assert check_delay(message, due_ms + 1) == 0
    assert timer_pairs(message) == {"TIMER_DELIVER_MS": str(due_ms)}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delay": timedelta(1), "deliver_at": datetime.now(UTC)}, "exclude"),
        ({"delay": timedelta(-1)}, "negative"),
        ({"deliver_at": datetime(2026, 1, 1)}, "no time zone"),
    ],
)
def test_delays_that_make_no_sense_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Misuse, match=words):
        check_delay(outgoing(**given), 0)


@pytest.mark.parametrize(
    ("delay_ms", "level"), [(1, 1), (1_000, 1), (1_001, 2), (30_000, 4), (601_000, 15), (7_200_000, 18)]
)
def test_old_brokers_get_the_next_level(delay_ms: int, level: int) -> None:
    assert level_pairs(delay_ms) == {"DELAY": str(level)}


def test_old_brokers_cannot_wait_for_longer_than_two_hours() -> None:
    with pytest.raises(BadMessage, match="older than 5.0"):
        level_pairs(7_200_001)


def test_an_item_of_a_batch_reads_back() -> None:
    item = item_of(outgoing(body=b"body", flag=7), {"a": "1"}, RULES)
    assert split_batch(item + item) == [(7, b"body", b"a\x011\x02")] * 2


@given(st.lists(st.integers(1, 400), max_size=60), st.integers(100, 2_000), st.integers(0, 50))
@settings(max_examples=150)
def test_runs_cover_every_item_and_keep_the_limit(sizes: list[int], bytes_max: int, extra: int) -> None:
    items = [b"x" * size for size in sizes]
    cut = runs(items, extra, bytes_max)
    assert [place for run in cut for place in range(run.start, run.stop)] == list(range(len(items)))
    for run in cut:
        total = sum(len(item) + extra for item in items[run])
        assert total <= bytes_max or run.stop - run.start == 1
    for run, after in zip(cut, cut[1:], strict=False):  # none could have taken the next one, too
        assert sum(len(item) + extra for item in items[run.start : after.start + 1]) > bytes_max


def test_a_run_has_at_most_a_thousand_messages() -> None:
    cut = runs([b"x"] * (BATCH_MESSAGES_MAX + 1), 0, 1 << 20)
    assert cut == [slice(0, BATCH_MESSAGES_MAX), slice(BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX + 1)]


@pytest.mark.parametrize(
    "refused",
    [
        lambda: check_batch("%RETRY%group", [outgoing()]),
        lambda: check_batch("t", [outgoing(), outgoing(delay=timedelta(1))]),
        lambda: check_batch("t", [outgoing(deliver_at=datetime.now(UTC))]),
    ],
)
def test_what_cannot_share_a_request(refused: Callable[[], None]) -> None:
    with pytest.raises(Misuse):
        refused()


def test_a_recall_handle_names_its_broker() -> None:
    assert recall_broker("djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDM2MDAwMDEgN0Y=") == "broker-a"
    for handle in ("", "nonsense", "djIgYSBiIGMgZA==", "é"):
        with pytest.raises(Misuse, match="recall handle"):
            recall_broker(handle)
