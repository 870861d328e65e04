"""Begin an answer: the readable twin, which is the specification of `_reply_c`."""

from __future__ import annotations

from collections.abc import Mapping

from roquet.wire.codes import FLAG_REPLY
from roquet.wire.header import Frame, encode_header


def reply_head(
    code: int, opaque: int, ext: Mapping[str, str], remark: str, body_size: int, encoding: int
) -> bytes:
    """Return an answer's bytes up to its body."""
    header = encode_header(Frame(code, opaque, FLAG_REPLY, ext, b"", remark, encoding=encoding))
    return b"".join(
        (
            (4 + len(header) + body_size).to_bytes(4, "big"),
            (encoding << 24 | len(header)).to_bytes(4, "big"),
            header,
        )
    )
