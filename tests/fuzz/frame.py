"""Fuzz target: cutting frames out of garbage.

Promises: `FrameError` and nothing else; both twins agree; a stream in two pieces gives the same frames;
what was read can be written and read again.
"""

from __future__ import annotations

import os
from pathlib import Path

import roquet.wire.requests  # noqa: F401  (fills the table)
from roquet.wire import _frame_py
from roquet.wire.connection import Connection
from roquet.wire.frame import BINARY, FRAME_BYTES_MAX, JSON, Frame, FrameError, join
from roquet.wire.row import TABLE

if os.environ.get("ROQUET_PURE") == "1":
    _other_split = _frame_py.split
else:
    from roquet.wire import _frame_c

    _other_split = _frame_c.split

GOLDEN = Path(__file__).parents[1] / "golden" / "frames"
SAMPLES = {"text": "a\x01b\x02ü", "int32": "-2147483648", "int64": "9223372036854775807", "flag": "true"}
LARGEST_BYTES = 4096  # of a golden frame in the corpus: mutations of large bodies find nothing


def corpus() -> list[bytes]:
    """Return frames to begin with: one of every row in both encodings, and those that Apache wrote."""
    made = [
        join(Frame(row.code, 7, 0, {field.wire: SAMPLES[field.kind] for field in row.header.WIRE}, b"body"))
        for _, row in sorted(TABLE.items())
    ]
    binary = [
        join(Frame(row.code & 0x7FFF, 7, 1, {"k": "v"}, b"", row.name, encoding=BINARY))
        for _, row in sorted(TABLE.items())
    ]
    odd = [
        join(Frame(1, ext={"a": "b"}, remark='"\\/\b\f\n\r\t消🚀')),
        _around(b'{"code":"105","extFields":{"n":5,"o":{"a":[1,2]},"t":true,"x":null,"d":1.5e3}}'),
        _around(rb'{"code":1,"remark":"\"\\\/\b\f\n\r\t\u0001\u00e9\u6d88\ud83d\ude80","language":"GO"}'),
    ]
    golden = [path.read_bytes() for path in sorted(GOLDEN.glob("*.bin"))]
    return made + binary + odd + [data for data in golden if len(data) <= LARGEST_BYTES]


def _around(header: bytes) -> bytes:
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


def mend(data: bytearray) -> None:
    """Make the length words fit, so that the mutation inside the header is reached."""
    if len(data) >= 8:
        data[0:4] = (len(data) - 4).to_bytes(4, "big")
        header_size = min(int.from_bytes(data[5:8], "big"), len(data) - 8)
        data[5:8] = header_size.to_bytes(3, "big")


def check(data: bytes) -> None:
    """Raise when a promise is broken."""
    expected = _outcome(data)
    try:
        got: tuple[list[Frame], int] | str = _other_split(data)
    except FrameError as error:
        got = str(error)
    assert got == expected, f"the twins differ: {expected!r} and {got!r}"
    if isinstance(expected, str):
        return
    frames, used = expected
    assert 0 <= used <= len(data) < used + FRAME_BYTES_MAX
    connection: Connection[None] = Connection()
    half = len(data) // 2
    assert connection.receive_data(data[:half]) + connection.receive_data(data[half:]) == frames
    for frame in frames:
        if frame.encoding == JSON:
            assert _frame_py.split(join(frame))[0] == [frame]


def _outcome(data: bytes) -> tuple[list[Frame], int] | str:
    try:
        return _frame_py.split(data)
    except FrameError as error:
        return str(error)
