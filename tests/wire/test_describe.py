"""The page about the protocol is as new as the table."""

from __future__ import annotations

from pathlib import Path

from roquet.wire.describe import describe
from roquet.wire.row import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == describe(), "run `python -m roquet.wire.describe > docs/protocol.md`"


def test_every_row_is_on_the_page() -> None:
    page = describe()
    for row in TABLE.values():
        assert page.count(f"| {row.code} | {row.name} |") == 1
    assert "`queueId:int32`" in page and "`committed?:flag`" in page and "*loopback*" in page
