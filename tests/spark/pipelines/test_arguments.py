"""Arguments of pipelines: made from their fields, the same for both command lines, wrong ones in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from roquet.spark.options import OptionError
from roquet.spark.pipelines import HOMES, load
from roquet.spark.pipelines.archive import Archive
from roquet.spark.pipelines.arguments import arguments_of, build, parse
from roquet.spark.pipelines.audit import Audit
from roquet.spark.pipelines.replay import Replay


@pytest.mark.parametrize("name", HOMES)
def test_every_argument_says_what_it_is_for(name: str) -> None:
    pipeline = load(name)
    assert pipeline.__doc__
    for argument in arguments_of(pipeline):
        assert len(argument.doc) > 10 and argument.kind.name, argument


def test_texts_become_what_the_fields_are() -> None:
    made = build(
        Archive, {"to": "x", "topics": "a, b", "every": "90s", "rows_per_batch": "7", "follow": True}
    )
    assert made == Archive(
        to="x", topics=("a", "b"), every=timedelta(seconds=90), rows_per_batch=7, follow=True
    )


def test_times_are_points_or_ago() -> None:
    assert build(Audit, {"since": "2026-11-15T10:00"}).since == datetime(2026, 11, 15, 10, tzinfo=UTC)
    assert build(Audit, {"since": "1794735670216"}).since == datetime.fromtimestamp(1794735670.216, UTC)
    ago = build(Audit, {"since": "2h"}).since
    assert ago is not None
    assert timedelta(hours=2) <= datetime.now(UTC) - ago < timedelta(hours=2, minutes=5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "--to is missing"),
        ({"to": "x", "topix": "a"}, "no argument --topix: did you mean --topics"),
        ({"to": "x", "every": "soon"}, "--every wants duration"),
        ({"to": "x", "rows_per_batch": "-1"}, "--rows-per-batch wants number"),
        ({"to": "x", "format": "csv"}, "--format wants parquet | delta"),
    ],
)
def test_wrong_ones_are_one_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("|", r"\|")) as caught:
        build(Archive, given)
    assert "\n" not in str(caught.value)


def test_a_time_that_is_none() -> None:
    with pytest.raises(OptionError, match="--since wants time"):
        build(Audit, {"since": "yesterday"})


def test_the_command_line_of_spark_submit() -> None:
    made, as_json = parse(Replay, ["--archive", "a", "--to", "t", "--rate", "5.5", "--send", "--json"])
    assert (made, as_json) == (Replay(archive="a", to="t", rate=5.5, send=True), True)
    assert parse(Replay, ["--archive", "a"]) == (Replay(archive="a"), False)
    with pytest.raises(OptionError, match="unrecognized arguments: --ratte"):
        parse(Replay, ["--ratte", "5"])
