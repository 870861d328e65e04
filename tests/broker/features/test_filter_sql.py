"""Selectors: what Apache's own parser and evaluator say of many of them, and the bounds that are ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.broker.features.filter.bloom import bloom_for
from roquet.broker.features.filter.lexer import SqlError
from roquet.broker.features.filter.nodes import DEPTH_MAX
from roquet.broker.features.filter.sql import CHARS_MAX, parse
from roquet.broker.features.filter.values import NoMatch

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "golden" / "sql92.json").read_text("utf-8")
)
WORDS = ["a", "b", "1", "2.5", "'x'", "=", "<>", "<", ">=", "(", ")", "AND", "OR", "NOT", "IS", "NULL"]
WORDS += ["IN", ",", "BETWEEN", "+", "-", "TRUE", "CONTAINS", "ENDSWITH", "--", "/*", "*/", "\n", "'"]


def answer(expression: str, properties: dict[str, str]) -> str:
    """Return what a selector makes of a message, in the words of the golden table."""
    try:
        selector = parse(expression)
    except SqlError:
        return "refused"
    try:
        value = selector.evaluate(properties)
    except NoMatch:
        value_words = "error"
    else:
        value_words = "null" if value is None else str(value).lower()
    assert selector.matches(properties) == (value_words == "true")
    return value_words


def test_selectors_answer_as_apache_does() -> None:
    rows = GOLDEN["selectors"]
    assert {row[2] for row in rows} == {"true", "false", "null", "error", "refused"}
    assert [row for row in rows if answer(row[0], row[1]) != row[2]] == []


def test_bloom_positions_are_those_of_apache() -> None:
    for error_percent, groups, text, hash_count, bit_count, positions in GOLDEN["blooms"]:
        bloom = bloom_for(error_percent, groups)
        assert (bloom.hash_count, bloom.bit_count) == (hash_count, bit_count)
        assert list(bloom.positions(text)) == positions


@pytest.mark.parametrize(
    ("expression", "column", "words"),
    [
        ("", 1, "expected a property"),
        ("a = ", 5, "found the end"),
        ("a = 1 AND", 10, "found the end"),
        ("a > 'x'", 5, "only numbers"),
        ("a = NULL", 5, "IS NULL"),
        ("price BETWEEN 9 AND 3", 15, "smaller value first"),
        ("a IN (1)", 7, "string in quotes"),
        ("5 IN ('x')", 1, "needs a property"),
        ("a = 'open", 5, "no end"),
        ("a /* open", 3, "no end"),
        ("a != 1", 3, "'!' cannot stand here"),
        ("a = 1 AND b NOT LIKE 'x'", 17, "after NOT"),
        ("a = 99999999999999999999", 5, "64 bits"),
        ("a = 1e999", 5, "greater than"),
        ("a = 0.0", 5, "write 0"),
        ("(a = 1", 7, "expected )"),
        ("'x'", 1, "expected a condition"),
        ("TRUE = 1", 8, "cannot be compared"),
        ("a IS 5", 6, "expected NULL"),
    ],
)
def test_errors_point_at_the_column(expression: str, column: int, words: str) -> None:
    with pytest.raises(SqlError) as refused:
        parse(expression)
    assert refused.value.column == column
    assert words in str(refused.value)


def test_what_follows_a_whole_expression_is_ignored_as_apache_does_but_said() -> None:
    selector = parse("a = 1 LIKE 'x'")
    assert selector.matches({"a": "1"})
    assert "column 7" in selector.ignored
    assert parse("a = 1 -- the end").ignored and not parse("a = 1 /* the end */ ").ignored


def test_length_and_depth_are_bounded() -> None:
    with pytest.raises(SqlError, match="1048576 characters"):
        parse("x" * (1 << 20))
    longest = "a = 1 OR " * ((CHARS_MAX - 10) // 9) + "b = 1"
    assert parse(longest).matches({"b": "1"})
    nested = "(" * (DEPTH_MAX - 2) + "a = 1" + ")" * (DEPTH_MAX - 2)
    assert parse(nested).matches({"a": "1"})
    for wide in ("(" * 20_000, "NOT " * 8_000 + "a", "-" * 30_000 + "1 = a", "a" + " = a" * 8_000):
        with pytest.raises(SqlError, match="nested deeper"):
            parse(wide)
    assert parse("a IS NULL" + " IS NOT NULL" * 40).evaluate({}) is True


def test_parsed_expressions_are_kept_and_so_are_failures() -> None:
    assert parse("a = 1 AND b = 2") is parse("a = 1 AND b = 2")
    failures = []
    for _ in range(2):
        with pytest.raises(SqlError) as refused:
            parse("a = = b")
        failures.append(refused.value)
    assert failures[0] is failures[1]


@pytest.mark.parametrize("text", ["1" * 30_000 + "x", "." * 30_000, "1e" * 15_000, "0x" + "f" * 30_000])
def test_long_values_that_are_no_numbers_do_not_match(text: str) -> None:
    assert not parse("a > 1.5").matches({"a": text})
    assert not parse("a > 1").matches({"a": text})


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(WORDS), max_size=14), st.dictionaries(st.sampled_from("ab"), st.text(max_size=5))
)
def test_any_words_are_parsed_or_refused_and_evaluated_to_one_of_three_values(
    words: list[str], properties: dict[str, str]
) -> None:
    assert answer(" ".join(words), properties) in {"true", "false", "null", "error", "refused"}


@settings(max_examples=200)
@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    assert answer(text, {"a": text or "x"}) in {"true", "false", "null", "error", "refused"}
