"""Trace records, compared with what Apache's encoder writes for the same values."""

from __future__ import annotations

from roquet.client.core import trace_text


def test_a_sent_message() -> None:
    told = trace_text.sent(
        1,
        "DefaultRegion",
        "g",
        "t",
        "ID",
        "paid",
        ["a", "b"],
        "127.0.0.1:10911",
        3,
        5,
        "delay",
        "OFFSET",
        True,
    )
    fields = [
        "Pub",
        "1",
        "DefaultRegion",
        "g",
        "t",
        "ID",
        "paid",
        "a~b",
        "127.0.0.1:10911",
        "3",
        "5",
        "3",
        "OFFSET",
        "true",
    ]
    assert told.text == "\x01".join(fields).replace("~", " ") + "\x02"
    assert list(told.keys) == ["ID", "a", "b"]


def test_what_is_absent_is_null() -> None:
    told = trace_text.sent(1, "r", "g", "t", "ID", "", [], "h:1", 3, 0, "normal", "O", False)
    assert told.text.split("\x01")[6:8] == ["null", "null"]
    assert told.text.endswith("\x010\x01O\x01false\x02")


def test_a_message_that_is_consumed() -> None:
    before = trace_text.about_to_consume(1, "r", "g", "REQ", "ID", 2, ["k"])
    after = trace_text.consumed(9, "g", "REQ", "ID", 8, "ok", ["k"])
    late = trace_text.consumed(9, "g", "REQ", "ID", 8, "retry", [])
    assert before.text == "\x01".join(["SubBefore", "1", "r", "g", "REQ", "ID", "2", "k"]) + "\x02"
    assert after.text == "\x01".join(["SubAfter", "REQ", "ID", "8", "true", "k", "0", "9", "g"]) + "\x02"
    assert late.text == "\x01".join(["SubAfter", "REQ", "ID", "8", "false", "null", "4", "9", "g"]) + "\x02"


def test_the_end_of_a_transaction() -> None:
    told = trace_text.ended(1, "r", "g", "t", "ID", "", ["k"], "h:1", "TX", "rollback", True)
    fields = "EndTransaction 1 r g t ID null k h:1 2 TX ROLLBACK_MESSAGE true"
    assert told.text == "\x01".join(fields.split()) + "\x02"
    unknown = trace_text.ended(1, "r", "g", "t", "ID", "", [], "h:1", "TX", "unknown", False)
    assert "\x01UNKNOW\x01" in unknown.text


def test_a_recall() -> None:
    assert (
        trace_text.recalled(1, "r", "g", "t", "ID", True).text
        == "Recall 1 r g t ID true".replace(" ", "\x01") + "\x02"
    )
