"""Frames to test with: strategies for frames and for every row of the table, and bytes made by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import strategies as st

from roquet.wire.codes import LANGUAGES
from roquet.wire.frame import BINARY, JSON, Frame
from roquet.wire.row import Field, Header

Split = Callable[[bytes | bytearray], tuple[list[Frame], int]]

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)

# Everything that UTF-8 can carry; control characters separate the properties of a message.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["true", "0", "-1", "a\x01b\x02", '"quoted"', "back\\slash", "ünï", "消息", "🚀", "line\nbreak", "/"]
)
NAMES = st.sampled_from(["a", "i", "topic", "queueId", "MSG_REGION", "_UNIQUE_KEY_QUERY", "ключ"]) | TEXT


def frames(encoding: int) -> st.SearchStrategy[Frame]:
    """Frames that the encoding can carry without loss: sixteen-bit codes and no empty values in binary."""
    binary = encoding == BINARY
    return st.builds(
        Frame,
        code=INT16 if binary else INT32,
        opaque=INT32,
        flag=st.integers(0, 3) | INT32,
        ext=st.dictionaries(NAMES, TEXT.filter(bool) if binary else TEXT, max_size=6),
        body=st.binary(max_size=40),
        remark=TEXT | st.just(""),
        language=st.integers(0, len(LANGUAGES) - 1),
        version=INT16 if binary else INT32,
        encoding=st.just(encoding),
    )


ANY_FRAME = frames(JSON) | frames(BINARY)


def values(field: Field, encoding: int) -> st.SearchStrategy[object]:
    """Values of one field of a header, None included when it may be absent."""
    kinds: dict[str, st.SearchStrategy[object]] = {
        "text": TEXT.filter(bool) if encoding == BINARY else TEXT,
        "int32": INT32,
        "int64": INT64,
        "flag": st.booleans(),
    }
    kind = kinds[field.kind]
    return kind | st.none() if not field.required and field.default is None else kind


def headers(declared: type[Header], encoding: int) -> st.SearchStrategy[Header]:
    """Values of a request or an answer that the encoding can carry."""
    return st.builds(declared, **{field.attribute: values(field, encoding) for field in declared.WIRE})


def whole(header: bytes, body: bytes = b"", encoding: int = JSON) -> bytes:
    """Return a frame around header bytes made by hand."""
    return struct.pack(">iI", 4 + len(header) + len(body), encoding << 24 | len(header)) + header + body


def binary_header(ext: bytes = b"", remark: bytes = b"", code: int = 0, language: int = 0) -> bytes:
    """Return a ROCKETMQ header around ext bytes made by hand."""
    fixed = struct.pack(">hbhii", code, language, 513, 7, 0)
    return fixed + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(ext)) + ext


def binary_field(name: bytes, value: bytes) -> bytes:
    """Return one ext field as the ROCKETMQ header writes it."""
    return struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value
