"""Frames that an Apache 5.5.0 broker, name server and their clients put on the wire: we read them all.

What is read is written again to an equal value in both encodings, and each request that Apache answered
with success passes through the row of its code, as its answer does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roquet.wire.requests  # noqa: F401  (fills the table)
from roquet.wire.frame import BINARY, JSON, Frame, join
from roquet.wire.row import TABLE
from tests.wire.frames import Split

FOLDER = Path(__file__).parents[1] / "golden"
FILES = sorted((FOLDER / "frames").glob("*.bin"))
ROWS: list[dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text())["frames"]
SUCCESSFUL = [row for row in ROWS if row.get("answer") == 0 and row["code"] in TABLE]


def read(split: Split, name: str) -> Frame:
    data = (FOLDER / "frames" / name).read_bytes()
    [frame], used = split(data)
    assert used == len(data)
    return frame


def test_there_are_golden_frames() -> None:
    assert len(FILES) > 100 and len(SUCCESSFUL) > 50


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_frame_is_read_and_written_again(split: Split, path: Path) -> None:
    frame = read(split, path.name)
    assert frame.is_reply == path.name.endswith(".res.bin")
    assert split(join(frame._replace(encoding=JSON)))[0] == [frame._replace(encoding=JSON)]
    if -(2**15) <= frame.code < 2**15 and all(frame.ext.values()):
        assert split(join(frame._replace(encoding=BINARY)))[0] == [frame._replace(encoding=BINARY)]


@pytest.mark.parametrize("row", SUCCESSFUL, ids=lambda row: str(row["stem"]))
def test_the_rows_read_what_apache_accepted_and_answered(split: Split, row: dict[str, Any]) -> None:
    declared = TABLE[row["code"]]
    request = declared.header.decode(read(split, f"{row['stem']}.req.bin").ext)
    assert declared.header.decode(request.encode()) == request
    if declared.reply is not None:
        answer = declared.reply.decode(read(split, f"{row['stem']}.res.bin").ext)
        assert declared.reply.decode(answer.encode()) == answer
