"""The table of requests: every row survives both encodings, and a bad field is named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roquet.wire.requests  # noqa: F401  (fills the table)
from roquet.wire.frame import BINARY, JSON, Frame, join
from roquet.wire.requests.offsets import GetMaxOffset
from roquet.wire.requests.query import QueryMessage
from roquet.wire.requests.send import Send, SendV2
from roquet.wire.row import TABLE, FieldError, Header, Row, flag, row_of
from tests.wire.frames import Split, headers

ROWS = [TABLE[code] for code in sorted(TABLE)]
REPLIES = {row.reply for row in ROWS if row.reply is not None}
DECLARED = sorted({row.header for row in ROWS} | REPLIES, key=lambda declared: declared.__name__)


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
@settings(max_examples=10)
@given(data=st.data())
def test_every_header_survives_both_encodings(
    split: Split, declared: type[Header], data: st.DataObject
) -> None:
    for encoding in (JSON, BINARY):
        sent = data.draw(headers(declared, encoding))
        [frame], _ = split(join(Frame(0, ext=sent.encode(), encoding=encoding)))
        assert declared.decode(frame.ext) == sent
        assert declared.decode({**frame.ext, "unknown": "field", "ns": "namespace"}) == sent


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
def test_every_missing_or_unreadable_field_is_named(declared: type[Header]) -> None:
    texts = {"text": "t", "int32": "1", "int64": "1", "flag": "true"}
    good = {field.wire: texts[field.kind] for field in declared.WIRE}
    declared.decode(good)
    for field in declared.WIRE:
        without = {name: text for name, text in good.items() if name != field.wire}
        if field.required:
            with pytest.raises(FieldError, match=f"the field {field.wire} is missing"):
                declared.decode(without)
        else:
            assert getattr(declared.decode(without), field.attribute) == field.default
        if field.kind in ("int32", "int64"):
            too_wide = str(2**31 if field.kind == "int32" else 2**63)
            for text in ("", "x", "1.5", "0x10", too_wide, "-" + too_wide + "0", "9" * 5000):
                with pytest.raises(FieldError, match=f"the field {field.wire} is '{text[:80]}': "):
                    declared.decode({**good, field.wire: text})


def test_an_absent_field_is_left_out() -> None:
    assert GetMaxOffset("t", 3).encode() == {"topic": "t", "queueId": "3"}
    assert GetMaxOffset("t", 3, committed=False).encode()["committed"] == "false"


def test_wire_names() -> None:
    assert [field.wire for field in SendV2.WIRE] == list("abcdefghijklmn")
    assert [field.attribute for field in SendV2.WIRE][:13] == [field.attribute for field in Send.WIRE]
    assert "_UNIQUE_KEY_QUERY" in {field.wire for field in QueryMessage.WIRE}
    assert "queueId" in {field.wire for field in GetMaxOffset.WIRE}


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("True", True), ("1", False), ("", False), ("yes", False)],
)
def test_a_flag_is_read_as_java_reads_it(text: str, value: bool) -> None:
    assert flag(text) is value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_is_complete(row: Row) -> None:
    assert row_of(row.header) is row and TABLE[row.code] is row
    assert row.doc.endswith(".") and row.name == row.name.upper() and row.to
    wires = [field.wire for field in row.header.WIRE]
    assert len(wires) == len(set(wires))


def test_names_are_unique() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_headers_are_values() -> None:
    one = GetMaxOffset("t", 3)
    assert one == GetMaxOffset("t", 3) and one != GetMaxOffset("t", 4)
    with pytest.raises(AttributeError):
        one.topik = "t"  # type: ignore[attr-defined]
