"""What pipelines say: the live line here and there, summaries for people and for programs."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest

from roquet.spark.pipelines.summary import PLAIN_EVERY_S, Live, Summary, size, table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Hand:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 5.0

    def monotonic(self) -> float:
        return self.now


def live(stream: io.StringIO) -> tuple[Live, Hand]:
    hand = Hand()
    return Live(stream, hand), hand  # type: ignore[arg-type]


def test_a_terminal_gets_one_line_that_changes() -> None:
    stream = Terminal()
    line, _ = live(stream)
    line.say("one")
    line.say("two")
    line.note("stays")
    assert stream.getvalue() == "\r\x1b[2Kone\r\x1b[2Ktwo\r\x1b[2Kstays\n"


def test_a_log_gets_a_line_now_and_then() -> None:
    stream = io.StringIO()
    line, hand = live(stream)
    line.say("one")
    line.say("too soon")
    hand.now += PLAIN_EVERY_S
    line.say("two")
    line.clear()
    assert stream.getvalue() == "one\ntwo\n"
    assert line.seconds == PLAIN_EVERY_S


def test_a_summary_for_programs() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    summary = Summary("audit", rows=3, size_bytes=10, seconds=2.0, tables={"topics": [{"first": noon}]})
    summary.skip("gone", 2)
    summary.skip("gone", 1)
    summary.skip("never", 0)
    summary.facts["is_same"] = True
    assert json.loads(summary.as_json()) == {
        "pipeline": "audit",
        "rows": 3,
        "bytes": 10,
        "seconds": 2.0,
        "skipped": {"gone": 3},
        "is_same": True,
        "topics": [{"first": "2026-11-15T12:00:00+00:00"}],
        "files": [],
    }


def test_a_summary_for_people() -> None:
    summary = Summary("replay", 1500, 2048, 3.0, tables={"chosen": [{"topic": "a", "messages": 1500}]})
    summary.files.append("report/index.html")
    assert summary.as_text() == (
        "chosen\n  topic  messages\n  a         1,500\n\n"
        "replay: 1,500 messages, 2.0 KiB, 3.0 s, 500/s\nskipped: nothing\nreport: report/index.html"
    )


def test_a_long_table_is_cut_and_an_empty_one_says_so() -> None:
    assert table([]) == "  none"
    assert table([{"n": number} for number in range(5)], most=2).splitlines() == [
        "  n",
        "  0",
        "  1",
        "  … and 3 more",
    ]


def test_words_of_messages_do_not_steer_the_terminal() -> None:
    assert "\x1b" not in table([{"key": "\x1b[2J"}])


def test_sizes() -> None:
    assert [size(each) for each in (0, 1023, 1536, 5 << 20, 7 << 40)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "5.0 MiB",
        "7.0 TiB",
    ]


def test_work_that_looks_is_asked_to_stop_and_other_work_is_interrupted() -> None:
    line, _ = live(io.StringIO())
    with pytest.raises(KeyboardInterrupt):
        line.stop()
    line.is_watched = True
    line.stop()
    assert line.is_stopping
    with pytest.raises(KeyboardInterrupt):  # who asks twice does not want to wait
        line.stop()


def test_the_line_says_how_far_it_has_come() -> None:
    stream = Terminal()
    line, _ = live(stream)
    line.beat("nothing is said yet")
    line.say("reading")
    line.beat("1 of 2 tasks")
    line.clear()
    line.beat("2 of 2 tasks")
    shown = stream.getvalue().split("\r\x1b[2K")
    assert shown == ["", "reading · nothing is said yet", "reading · 1 of 2 tasks", ""]
