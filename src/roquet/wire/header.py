"""The two encodings of a frame's header, and the `Frame` value that both carry.

JSON:   {"code":11,"extFields":{"topic":"t"},"flag":0,"language":"JAVA","opaque":1,
         "serializeTypeCurrentRPC":"JSON","version":513}          members missing or unknown are fine
binary: code 2 · language 1 · version 2 · opaque 4 · flag 4 · remark 4+n · ext 4+(key 2+n, value 4+n)*

    0000 00 0201 000003e8 00000001 00000000 0000000d 0006 6f6666736574 00000001 37
    code java 513 opaque    flag     no remark  13 bytes     "offset"            "7"

An answer is encoded by the responder's own choice (JSON unless told otherwise), not by the request's.
Facts: RemotingCommand and RocketMQSerializable of Apache 5.5.0, tests/golden/frames.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from roquet.wire.codes import FLAG_ONE_WAY, FLAG_REPLY, LANGUAGES, PYTHON, VERSION

JSON: Final = 0
BINARY: Final = 1

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""With its length word; Apache's default `frameMaxLength`."""

HEADER_BYTES_MAX: Final = 64 * 1024
"""The largest legal header carries 32,767 bytes of properties; twice that leaves room for escapes."""

EXT_FIELDS_MAX: Final = 512

EMPTY: Final[Mapping[str, str]] = {}


class FrameError(Exception):
    """The peer sent bytes that are no frame; the connection cannot go on."""


class Frame(NamedTuple):
    """A request or an answer. An empty `body` and an absent one are the same."""

    code: int
    opaque: int = 0
    flag: int = 0
    ext: Mapping[str, str] = EMPTY
    body: bytes = b""
    remark: str = ""
    language: int = PYTHON
    version: int = VERSION
    encoding: int = JSON

    @property
    def is_reply(self) -> bool:
        return bool(self.flag & FLAG_REPLY)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & FLAG_ONE_WAY)


class _JsonHeader(msgspec.Struct):
    """The header as nearly every client writes it; others go through `_decode_loosely`."""

    code: int = 0
    extFields: dict[str, str] | None = None
    flag: int = 0
    language: str | None = None
    opaque: int = 0
    remark: str | None = None
    version: int = 0


_strict = msgspec.json.Decoder(_JsonHeader)
_loose = msgspec.json.Decoder()
_encode_json = msgspec.json.Encoder().encode
_LANGUAGE_CODES = {name: code for code, name in enumerate(LANGUAGES)}
_INT32 = range(-(2**31), 2**31)
_FIXED = struct.Struct(">hbhii")
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # the last for thousands of brackets


def decode_header(encoding: int, header: bytes, body: bytes) -> Frame:
    """Return the frame of a header and a body; raises FrameError."""
    if encoding == JSON:
        try:
            read = _strict.decode(header)
        except _NOT_JSON:
            return _decode_loosely(header, body)
        ext = read.extFields or EMPTY
        if len(ext) > EXT_FIELDS_MAX:
            raise FrameError(f"{len(ext)} ext fields, allowed are {EXT_FIELDS_MAX}")
        if (
            read.opaque not in _INT32
            or read.code not in _INT32
            or read.flag not in _INT32
            or read.version not in _INT32
        ):
            raise FrameError("code, flag, opaque or version is wider than 32 bits")
        return Frame(
            read.code,
            read.opaque,
            read.flag,
            ext,
            body,
            read.remark or "",
            _language(read.language),
            read.version,
            JSON,
        )
    if encoding == BINARY:
        return _decode_binary(header, body)
    raise FrameError(f"header encoding {encoding}, known are 0 (JSON) and 1 (ROCKETMQ)")


def encode_header(frame: Frame) -> bytes:
    """Return the header bytes of a frame in the encoding that it names."""
    if frame.encoding == BINARY:
        return _encode_binary(frame)
    ext = b'"extFields":%b,' % _encode_json(frame.ext)
    remark = b'"remark":%b,' % _encode_json(frame.remark) if frame.remark else b""
    return (
        b'{"code":%d,%b"flag":%d,"language":"%b","opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}'
        % (
            frame.code,
            ext,
            frame.flag,
            LANGUAGES[frame.language].encode(),
            frame.opaque,
            remark,
            frame.version,
        )
    )


def _language(name: object) -> int:
    if isinstance(name, str):
        return _LANGUAGE_CODES.get(name.upper(), _LANGUAGE_CODES["OTHER"])
    if isinstance(name, int) and 0 <= name < len(LANGUAGES):
        return int(name)
    return 0  # Java's default when the member is missing


def _decode_loosely(header: bytes, body: bytes) -> Frame:
    """Read what Java's parser forgives: numbers as text, and any value as an ext field."""
    try:
        read = _loose.decode(header)
    except _NOT_JSON as error:
        raise FrameError(f"header is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise FrameError("header is not a JSON object")
    ext = read.get("extFields")
    if ext is None:
        ext = {}
    if not isinstance(ext, dict) or len(ext) > EXT_FIELDS_MAX:
        raise FrameError(f"extFields must be an object of at most {EXT_FIELDS_MAX} members")
    fields = {name: _as_text(value) for name, value in ext.items() if value is not None}
    remark = read.get("remark")
    return Frame(
        _as_int(read, "code"),
        _as_int(read, "opaque"),
        _as_int(read, "flag"),
        fields,
        body,
        remark if isinstance(remark, str) else "",
        _language(read.get("language")),
        _as_int(read, "version"),
        JSON,
    )


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return _encode_json(value).decode()


def _as_int(read: dict[str, object], name: str) -> int:
    value = read.get(name)
    if value is None:
        return 0
    if isinstance(value, str):
        text = value
        try:
            value = int(text)
        except ValueError:
            raise FrameError(f"{name} is {text[:80]!r}, not a number") from None
    if isinstance(value, bool) or not isinstance(value, int) or value not in _INT32:
        raise FrameError(f"{name} is not a 32-bit number")
    return value


def _decode_binary(header: bytes, body: bytes) -> Frame:
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header, 0)
        remark, position = _text(header, _FIXED.size, 4)
        ext_size = int.from_bytes(header[position : position + 4], "big", signed=True)
        position += 4
        if ext_size < 0 or position + ext_size > len(header):
            raise FrameError(f"ext section of {ext_size} bytes in a header of {len(header)}")
        end = position + ext_size
        ext: dict[str, str] = {}
        while position < end:
            name, position = _text(header, position, 2)
            value, position = _text(header, position, 4)
            if value:  # an empty value reads as an absent one
                ext[name] = value
            if len(ext) > EXT_FIELDS_MAX:
                raise FrameError(f"more than {EXT_FIELDS_MAX} ext fields")
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"binary header: {error}") from None
    if position > end or len(header) < _FIXED.size + 8:
        raise FrameError("binary header is cut short")
    known = language if 0 <= language < len(LANGUAGES) else LANGUAGES.index("OTHER")
    return Frame(code, opaque, flag, ext, body, remark, known, version, BINARY)


def _text(header: bytes, position: int, width: int) -> tuple[str, int]:
    size = int.from_bytes(header[position : position + width], "big", signed=True)
    start = position + width
    if size < 0 or start + size > len(header):
        raise FrameError(f"text of {size} bytes at {position} in a header of {len(header)}")
    return header[start : start + size].decode(), start + size


def _encode_binary(frame: Frame) -> bytes:
    remark = frame.remark.encode()
    pieces: list[bytes] = []
    for name, value in frame.ext.items():
        name_bytes, value_bytes = name.encode(), value.encode()
        pieces += (
            len(name_bytes).to_bytes(2, "big"),
            name_bytes,
            len(value_bytes).to_bytes(4, "big"),
            value_bytes,
        )
    ext = b"".join(pieces)
    code = (frame.code & 0xFFFF) - (frame.code & 0x8000) * 2  # sixteen bits are all there is
    return b"".join(
        (
            _FIXED.pack(code, frame.language, frame.version, frame.opaque, frame.flag),
            len(remark).to_bytes(4, "big"),
            remark,
            len(ext).to_bytes(4, "big"),
            ext,
        )
    )
