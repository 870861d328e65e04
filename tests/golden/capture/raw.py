"""Frames by hand: builds a remoting request, asks it over a plain socket, keeps both frames byte for byte.

Middle of the capture chain (`frames.py`, `stores.py` say what to ask). Deliberately written without
`roquet.wire`: golden bytes that our own codec had a hand in would prove nothing about it.
    length:4 │ type:1 (0 JSON, 1 ROCKETMQ) │ header length:3 │ header │ body
Reference: org.apache.rocketmq.remoting.protocol.RemotingCommand, RocketMQSerializable, release 5.5.0.
"""

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

VERSION = 513  # the ordinal of 5.5.0
JSON_TYPE, BINARY_TYPE = 0, 1
ONEWAY = 2
TIMEOUT_S = 20.0


class Header(NamedTuple):
    """What a capture needs to know of a frame; the bytes themselves are kept apart."""

    code: int
    flag: int
    opaque: int
    remark: str
    fields: dict[str, str]

    @property
    def is_response(self) -> bool:
        return bool(self.flag & 1)


class Exchange(NamedTuple):
    """One request and its answer, as they went over the wire."""

    request: bytes
    response: bytes

    @property
    def header(self) -> Header:
        return header_of(self.response)

    @property
    def body(self) -> bytes:
        return body_of(self.response)


def frame(
    code: int,
    fields: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 0,
    flag: int = 0,
    version: int = VERSION,
    kind: int = JSON_TYPE,
) -> bytes:
    """Build a request; a None among the fields is left out, everything else travels as text."""
    texts = {name: _text(value) for name, value in (fields or {}).items() if value is not None}
    if kind == JSON_TYPE:
        members: dict[str, Any] = {"code": code}
        if fields is not None:
            members["extFields"] = texts
        members |= {"flag": flag, "language": "JAVA", "opaque": opaque}
        members |= {"serializeTypeCurrentRPC": "JSON", "version": version}
        header = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    else:
        pairs = b"".join(_pair(name, value) for name, value in texts.items())
        header = struct.pack(">hbhii", code, 0, version, opaque, flag) + struct.pack(">i", 0)
        header += struct.pack(">i", len(pairs)) + pairs
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pair(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(text)) + text


def header_of(data: bytes) -> Header:
    """Decode the header of a whole frame, whichever of the two encodings it has."""
    (word,) = struct.unpack_from(">I", data, 4)
    header = data[8 : 8 + (word & 0xFFFFFF)]
    if word >> 24 == BINARY_TYPE:
        return _binary_header(header)
    members = json.loads(header)
    fields = members.get("extFields") or {}
    return Header(members["code"], members["flag"], members["opaque"], members.get("remark") or "", fields)


def _binary_header(header: bytes) -> Header:
    code, _language, _version, opaque, flag, remark_size = struct.unpack_from(">hbhiii", header)
    at = 17 + remark_size
    remark = header[17:at].decode()
    (left,) = struct.unpack_from(">i", header, at)
    at += 4
    end = at + left
    fields: dict[str, str] = {}
    while at < end:
        (key_size,) = struct.unpack_from(">h", header, at)
        key = header[at + 2 : at + 2 + key_size].decode()
        at += 2 + key_size
        (size,) = struct.unpack_from(">i", header, at)
        fields[key] = header[at + 4 : at + 4 + size].decode()
        at += 4 + size
    return Header(code, flag, opaque, remark, fields)


def body_of(data: bytes) -> bytes:
    """Return the body of a whole frame."""
    (word,) = struct.unpack_from(">I", data, 4)
    return data[8 + (word & 0xFFFFFF) :]


class Wire:
    """One connection; answers are matched by opaque, requests of the peer are kept in `pushed`."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._opaque = 1000
        self.pushed: list[bytes] = []

    def ask(
        self,
        code: int,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        version: int = VERSION,
        kind: int = JSON_TYPE,
    ) -> Exchange:
        """Send a request and wait for its answer."""
        self._opaque += 1
        request = frame(code, fields, body, opaque=self._opaque, version=version, kind=kind)
        self._socket.sendall(request)
        while True:
            data = self.read()
            header = header_of(data)
            if header.is_response and header.opaque == self._opaque:
                return Exchange(request, data)
            self.pushed.append(data)

    def read(self) -> bytes:
        """Read one whole frame."""
        length = self._exactly(4)
        return length + self._exactly(int.from_bytes(length))

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            chunk = self._socket.recv(size_bytes - len(data))
            if not chunk:
                raise ConnectionError(f"the peer closed after {len(data)} of {size_bytes} bytes")
            data += chunk
        return bytes(data)

    def close(self) -> None:
        self._socket.close()
