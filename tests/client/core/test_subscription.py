"""Subscriptions: tags and their hashes, SQL, everything, and what says nothing."""

from __future__ import annotations

import pytest

from roquet.client.core.subscription import Sql, as_mapping, parse, tag_of, wanted_tags
from roquet.client.errors import Misuse
from roquet.model.message import java_hash


def test_tags_are_split_and_hashed() -> None:
    read = parse("T", " created || paid ||created", 7)
    assert (read.tags_set, read.sub_version, read.expression_type) == (("created", "paid"), 7, "TAG")
    assert read.code_set == (java_hash("created"), java_hash("paid"))
    assert wanted_tags(read) == {b"created", b"paid"}
    assert parse("T", "A | B", 0).tags_set == ("A | B",)


@pytest.mark.parametrize("expression", ["*", "", "  * "])
def test_everything(expression: str) -> None:
    read = parse("T", expression, 0)
    assert (read.sub_string, read.tags_set, read.code_set) == ("*", (), ())
    assert not wanted_tags(read)


def test_sql_is_passed_on() -> None:
    read = parse("T", Sql("amount > 10"), 0)
    assert (read.expression_type, read.sub_string, read.tags_set) == ("SQL92", "amount > 10", ())


@pytest.mark.parametrize(("topic", "expression"), [("T", "||"), ("T", Sql(" ")), ("a b", "*"), ("", "*")])
def test_subscriptions_that_say_nothing_are_refused(topic: str, expression: str) -> None:
    with pytest.raises(Misuse):
        parse(topic, expression, 0)


def test_short_forms_of_subscribe() -> None:
    assert as_mapping("T") == {"T": "*"}
    assert as_mapping(["S", "T"]) == {"S": "*", "T": "*"}
    assert as_mapping({"T": "A"}) == {"T": "A"}


@pytest.mark.parametrize(
    ("properties", "tag"),
    [
        (b"TAGS\x01A\x02KEYS\x01k\x02", b"A"),
        (b"KEYS\x01k\x02TAGS\x01B", b"B"),
        (b"MYTAGS\x01C\x02", b""),
        (b"", b""),
    ],
)
def test_the_tag_of_a_record(properties: bytes, tag: bytes) -> None:
    assert tag_of(properties) == tag
