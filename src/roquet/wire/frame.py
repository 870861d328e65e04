"""Frames: how requests and answers are cut out of the stream and joined into it.

    0        4     5          8                8+h
    ┌────────┬─────┬──────────┬────────────────┬──────────┐
    │ length │ enc │ h 24 bit │ header h bytes │ body     │    length = 4 + h + body, without itself
    └────────┴─────┴──────────┴────────────────┴──────────┘    enc: 0 JSON, 1 ROCKETMQ binary

A `Frame` is the value in between, the same for both header encodings (see `header.py`). Knows nothing
of request codes or connections. `ROQUET_PURE=1` picks the readable twins (`_frame_py`,
`_reply_py`) over the compiled ones; both give the same values or the same errors (tests/wire/test_frame.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from roquet.wire.header import (
    BINARY,
    EXT_FIELDS_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    JSON,
    Frame,
    FrameError,
    encode_header,
)

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.wire._frame_py import split
    from roquet.wire._reply_py import reply_head

    COMPILED: Final = False
else:
    try:
        from roquet.wire._frame_c import split
        from roquet.wire._reply_c import reply_head

        COMPILED = True
    except ImportError:
        from roquet.wire._frame_py import split
        from roquet.wire._reply_py import reply_head

        COMPILED = False

__all__ = [
    "BINARY",
    "COMPILED",
    "EXT_FIELDS_MAX",
    "FRAME_BYTES_MAX",
    "HEADER_BYTES_MAX",
    "JSON",
    "Frame",
    "FrameError",
    "join",
    "reply_head",
    "split",
]


def join(frame: Frame) -> bytes:
    """Return the bytes of a frame, its body included."""
    header = encode_header(frame)
    body = frame.body
    return b"".join(
        (
            (4 + len(header) + len(body)).to_bytes(4, "big"),
            (frame.encoding << 24 | len(header)).to_bytes(4, "big"),
            header,
            body,
        )
    )
