"""Parts of pipelines that need neither Spark nor a broker: pacing, lag's sums, what is asked for, errors."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.client.errors import NamesUnreachable
from roquet.model.route import QueueName
from roquet.spark.options import OptionError
from roquet.spark.pipelines import dead_letters, program, sending
from roquet.spark.pipelines.archive import Archive, behind
from roquet.spark.pipelines.archive_files import ParquetShelf
from roquet.spark.pipelines.lag import Position, Told, Waiting, between_options, is_wanted, summary_of
from roquet.spark.pipelines.replay import Replay
from roquet.spark.pipelines.sources import From, check, in_tasks, namesrv_of
from roquet.spark.pipelines.summary import Refused
from tests.spark.pipelines.test_archive_files import commit, rows

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ORDERS = [QueueName("a", queue_id, "orders") for queue_id in range(2)]


# --- pacing


class Batch(NamedTuple):
    """As much of an Arrow batch as pacing knows."""

    rows: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def slice(self, at: int, count: int) -> Batch:
        return Batch(self.rows[at : at + count])


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def wait_until(self, when: float) -> None:
        assert when > self.now, "it only waits for what is to come"
        self.now = when


@given(st.lists(st.integers(0, 50), max_size=8), st.floats(0.5, 500))
def test_rows_come_in_order_and_never_faster_than_allowed(sizes: list[int], per_second: float) -> None:
    numbers = iter(range(sum(sizes)))
    batches = [Batch(tuple(next(numbers) for _ in range(size))) for size in sizes]
    clock = Clock()
    seen: list[int] = []
    for part in sending.pace(batches, per_second, lambda: clock.now, clock.wait_until):
        # What went before this part took at least so long; the part itself is a tenth of a second's worth.
        assert clock.now - 100.0 >= len(seen) / per_second - 1e-9
        assert part.num_rows <= max(1, per_second / sending.STEPS_PER_SECOND)
        seen += part.rows
    assert seen == list(range(sum(sizes)))


# --- lag


def position(queue: QueueName, done: int, end: int, group: str = "g") -> Position:
    return Position(group, queue, done, end, 0)


def test_each_queue_is_read_from_the_lowest_position_on() -> None:
    options = between_options(
        [position(ORDERS[0], 5, 9), position(ORDERS[0], 3, 8, "h"), position(ORDERS[1], 0, 1)]
    )
    assert json.loads(options["assign"]) == {"orders": {"a": [0, 1]}}
    assert json.loads(options["startingOffsets"]) == {"orders": {"a": {"0": 3, "1": 0}}}
    assert json.loads(options["endingOffsets"]) == {"orders": {"a": {"0": 9, "1": 1}}}


def test_sums_of_lag() -> None:
    told = Told((position(ORDERS[0], 4, 10), position(ORDERS[1], 7, 5)), {"g": 2.0}, {"orders": 3.0})
    waiting = [Waiting("g", ORDERS[0], 5, 500, NOON - timedelta(seconds=90))]
    summary = summary_of(told, waiting, NOON)
    (row,) = summary.tables["groups"]
    assert row == {
        "group": "g", "topic": "orders", "behind": 6, "in_flight": 0, "queues": 2, "queues_behind": 1,
        "bytes": 500, "oldest_s": 90.0, "in_per_s": 3.0, "out_per_s": 2.0,
    }  # fmt: skip
    assert summary.skipped == {"expired before they were consumed": 1}
    assert [each["times_the_mean"] for each in summary.tables["hot_queues"]] == [2.0]


def test_dead_letters_are_nobodys_lag_unless_they_are_asked_for() -> None:
    assert not is_wanted("%DLQ%g", ()) and is_wanted("%RETRY%g", ()) and is_wanted("%DLQ%g", ("%DLQ%g",))
    assert [dead_letters.group_of(topic) for topic in ("%DLQ%g", "%RETRY%h", "orders")] == ["g", "h", ""]


# --- what is asked for


def test_messages_come_from_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.delenv("ROQUET_NAMESRV", raising=False)
    assert check(From(store="s")) == From(store="s")
    with pytest.raises(OptionError, match="--store and --archive exclude each other"):
        check(From(store="s", archive="a"))
    with pytest.raises(OptionError, match="--namesrv is missing"):
        check(From())
    with pytest.raises(OptionError, match="--since must be before"):
        check(From(store="s", since=NOON, until=NOON))
    monkeypatch.setenv("NAMESRV_ADDR", "h:1")
    assert check(From()).namesrv == namesrv_of("") == "h:1"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "say what to replay"),
        ({"archive": "a", "to": "no topic"}, "illegal characters"),
        ({"archive": "a", "name": "a b"}, "--name must be"),
        ({"source_namesrv": "h:1", "namesrv": "h:1"}, "into themselves"),
    ],
)
def test_a_replay_that_cannot_be(given: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Replay(**given).plan()


def test_the_options_of_an_archives_stream() -> None:
    wanted = Archive(to="x", topics=("a", "b"), namesrv="h:1", group="g", tags="x", allow_loss=True)
    assert wanted.source_options() == {
        "namesrv": "h:1",
        "subscribe": "a,b",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "2000000",
        "minPartitions": "1",
        "failOnDataLoss": "false",
        "group": "g",
        "tags": "x",
    }
    assert Archive(to="x", pattern="o.*", namesrv="h:1").source_options()["subscribePattern"] == "o.*"
    for topics, pattern in (((), ""), (("a",), "a")):
        with pytest.raises(OptionError, match="say what to archive"):
            Archive(to="x", namesrv="h:1", topics=topics, pattern=pattern).source_options()


def test_without_a_checkpoint_new_queues_begin_at_their_first_message() -> None:
    gone = QueueName("a", 9, "orders")
    assert json.loads(behind({ORDERS[0]: 42, gone: 7}, ORDERS)) == {"orders": {"a": {"0": 42, "1": -2}}}


def test_files_are_dealt_out_by_their_rows(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from roquet.spark.pipelines import sources

    monkeypatch.setattr(sources, "ROWS_PER_TASK", 2)
    shelf = ParquetShelf(str(tmp_path))
    for batch in range(5):
        commit(shelf, "q", batch, rows(("a", 0, batch)))
    assert [len(group) for group in in_tasks(shelf.live())] == [2, 2, 1]
    assert in_tasks([]) == []


# --- errors as one sentence


class PythonException(Exception):
    """As Spark raises what a data source raised."""


PythonException.__module__ = "pyspark.errors.exceptions.captured"

REMOTE = """[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):
  File "x.py", line 1, in f
roquet.spark.options.OptionError: roquet has no option subscrib: did you mean subscribe?
SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OptionError("no"), ("no", program.USAGE)),
        (Refused("no"), ("no", program.FAILED)),
        (
            PythonException(REMOTE),
            ("roquet has no option subscrib: did you mean subscribe?", program.USAGE),
        ),
        (
            PythonException("…\nroquet.client.errors.NamesUnreachable: nobody answers\n"),
            ("nobody answers", program.UNREACHABLE),
        ),
        (PythonException("a bug"), None),
        (ZeroDivisionError("a bug"), None),
    ],
)
def test_errors_are_told_in_words_and_bugs_are_not_hidden(
    error: Exception, told: tuple[str, int] | None
) -> None:
    assert program.explain(error) == told


def test_no_name_server_has_its_own_exit_code() -> None:
    found = program.explain(NamesUnreachable("no name server answers"))
    assert found is not None and found[1] == program.UNREACHABLE


def test_a_wrong_command_line_needs_no_spark() -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert program.main(Archive, ["--topics", "orders"]) == program.USAGE
    assert (out.getvalue(), err.getvalue().count("\n")) == ("", 1)
    assert err.getvalue().startswith("roquet: --to is missing")
