"""Cutting frames out of a stream, on both twins: whole, byte by byte, with trailing bytes, and refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roquet.wire import _frame_py
from roquet.wire.frame import (
    BINARY,
    EXT_FIELDS_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    JSON,
    Frame,
    FrameError,
    join,
)
from tests.wire.frames import ANY_FRAME, Split, binary_field, binary_header, whole

EXAMPLES = [
    Frame(0),
    Frame(105, 1, 0, {"topic": "cliT"}),
    Frame(310, -1, 0, {"a": "g", "b": "t", "i": "UNIQ_KEY\x017F\x02TAGS\x01a\x02"}, b"x" * 300),
    Frame(11, 2**31 - 1, 2, {"subscription": "ü || 消息 || 🚀"}, b"\0\1\2"),
    Frame(0, 5, 1, {}, b"", 'a remark with "quotes" and \\'),
    Frame(-1, -(2**31), 1, {"k": "v"}, b"{}", "remark", 0, 513),
]


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def encoding(request: pytest.FixtureRequest) -> int:
    kind: int = request.param
    return kind


@pytest.mark.parametrize("frame", EXAMPLES)
def test_three_ways(split: Split, encoding: int, frame: Frame) -> None:
    frame = frame._replace(encoding=encoding)
    data = join(frame)
    assert split(data) == ([frame], len(data))
    for size in range(len(data)):
        assert split(data[:size]) == ([], 0)
    for size in range(9):
        assert split(data + data[:size]) == ([frame], len(data))


@given(st.lists(ANY_FRAME, max_size=5), st.data())
def test_round_trip(split: Split, frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(map(join, frames))
    tail = join(frames[0])[:-1] if frames else b""
    assert split(stream + tail) == (frames, len(stream))
    assert split(bytearray(stream)) == (frames, len(stream))
    cut = data.draw(st.integers(0, len(stream)))
    first, used = split(stream[:cut])
    second, rest = split(stream[used:])
    assert first + second == frames
    assert used + rest == len(stream)


def test_a_frame_keeps_its_type(split: Split) -> None:
    [frame], _ = split(join(Frame(0, 5, 1, {"a": "b"}, b"body")))
    assert type(frame) is Frame
    assert frame.is_reply and not frame.is_one_way
    assert type(frame.body) is bytes and type(frame.code) is int


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, FRAME_BYTES_MAX - 3, 2**31 - 1])
def test_an_impossible_length_is_refused_at_its_fourth_byte(split: Split, length: int) -> None:
    assert split(struct.pack(">i", length)[:3]) == ([], 0)
    with pytest.raises(FrameError, match=str(length)):
        split(struct.pack(">i", length))
    with pytest.raises(FrameError, match=str(length)):
        split(join(Frame(1)) + struct.pack(">i", length))


def test_the_largest_frame_passes(split: Split) -> None:
    header = b'{"code":1}'
    data = whole(header, bytes(FRAME_BYTES_MAX - 8 - len(header)))
    assert len(data) == FRAME_BYTES_MAX
    [frame], used = split(data)
    assert used == len(data) and len(frame.body) == FRAME_BYTES_MAX - 8 - len(header)


@pytest.mark.parametrize("encoding", [0, 1, 2, 255])
def test_a_header_that_lies_about_its_size_is_refused_before_the_frame_is_whole(
    split: Split, encoding: int
) -> None:
    with pytest.raises(FrameError, match="header of 100 bytes in a frame of 103"):
        split(struct.pack(">iI", 103, encoding << 24 | 100))
    with pytest.raises(FrameError, match="header of 16777215"):
        split(struct.pack(">iI", 4, encoding << 24 | 0xFFFFFF))
    assert split(struct.pack(">iI", 104, encoding << 24 | 100)) == ([], 0)


def test_the_largest_header_passes_and_one_more_byte_does_not(split: Split, encoding: int) -> None:
    if encoding == JSON:
        header = b'{"code":1}'.ljust(HEADER_BYTES_MAX)
    else:
        empty = len(binary_header(binary_field(b"k", b"")))
        header = binary_header(binary_field(b"k", b"v" * (HEADER_BYTES_MAX - empty)))
    assert len(split(whole(header, b"", encoding))[0]) == 1
    with pytest.raises(FrameError, match=f"allowed are {HEADER_BYTES_MAX}"):
        split(whole(header + b" ", b"", encoding))


def test_the_most_ext_fields_pass_and_one_more_does_not(split: Split, encoding: int) -> None:
    ext = {f"name{number}": "v" for number in range(EXT_FIELDS_MAX)}
    frame = Frame(1, ext=ext, encoding=encoding)
    assert split(join(frame))[0] == [frame]
    with pytest.raises(FrameError, match=f"{EXT_FIELDS_MAX}"):
        split(join(frame._replace(ext=ext | {"more": "v"})))


@pytest.mark.parametrize("unknown", [2, 3, 127, 255])
def test_an_unknown_encoding_is_refused(split: Split, unknown: int) -> None:
    with pytest.raises(FrameError, match=f"encoding {unknown}"):
        split(whole(b'{"code":1}', b"", unknown))


def test_an_empty_header_is_refused(split: Split, encoding: int) -> None:
    with pytest.raises(FrameError):
        split(whole(b"", b"body", encoding))


@given(st.binary(max_size=60))
@example(b"")
def test_garbage_raises_only_frame_errors(split: Split, data: bytes) -> None:
    for candidate in (data, whole(data), whole(data, b"", BINARY), whole(data, b"b", 7)):
        try:
            split(candidate)
        except FrameError:
            continue


JSON_PIECES = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            '"',
            '"',
            '"code"',
            '"opaque"',
            '"flag"',
            '"version"',
            '"language"',
            '"remark"',
            '"extFields"',
            '"a"',
            '"JAVA"',
            '"serializeTypeCurrentRPC"',
            '"JSON"',
            '"topic"',
            "0",
            "1",
            "-1",
            "513",
            "12345678901",
            "1.5",
            "1e3",
            "-0",
            "01",
            "true",
            "null",
            "\\",
            "\\u",
            "\\u0001",
            "\\ud83d\\ude80",
            "\\ud83d",
            "\\n",
            "\\x",
            "\x01",
            "\x7f",
            "ü",
            "🚀",
        ]
    )
    | st.sampled_from([" ", "\n", '{"code":', '"extFields":{"a":"', '"}', '"remark":"', '","', "}}"]),
    max_size=14,
).map("".join)


@given(
    st.one_of(
        JSON_PIECES.map(lambda text: text.encode()),
        JSON_PIECES.map(lambda text: b'{"code":1,' + text.encode() + b"}"),
        JSON_PIECES.map(lambda text: b'{"extFields":{"k":"' + text.encode() + b'"}}'),
        st.binary(max_size=30).map(lambda tail: b'{"remark":"' + tail + b'"}'),
    ),
    st.binary(max_size=3),
)
def test_the_twins_agree_on_json(split: Split, header: bytes, body: bytes) -> None:
    assert outcome(split, whole(header, body)) == outcome(_frame_py.split, whole(header, body))


@given(
    st.one_of(
        st.binary(max_size=50),
        st.builds(binary_header, st.binary(max_size=30), st.binary(max_size=5)),
        st.builds(
            lambda fields, cut: binary_header(b"".join(binary_field(*field) for field in fields))[:cut],
            st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4)), max_size=3),
            st.integers(0, 70),
        ),
    )
)
def test_the_twins_agree_on_binary(split: Split, header: bytes) -> None:
    data = whole(header, b"body", BINARY)
    assert outcome(split, data) == outcome(_frame_py.split, data)


@given(ANY_FRAME, st.integers(0, 10_000), st.integers(0, 255))
def test_the_twins_agree_on_a_changed_byte(split: Split, frame: Frame, place: int, value: int) -> None:
    data = bytearray(join(frame))
    data[place % len(data)] = value
    assert outcome(split, data) == outcome(_frame_py.split, data)


def outcome(split: Split, data: bytes | bytearray) -> tuple[list[Frame], int] | str:
    """Return what the twin gives, or the text of its error."""
    try:
        return split(data)
    except FrameError as error:
        return str(error)
