"""One remoting request over a plain socket: enough to ask a name server who has registered.

A frame is `length header_length header body`, both lengths 32-bit big-endian; the header is JSON. This is
written apart from `roquet.wire` on purpose: what waits for a server should not depend on what is tested.
"""

import json
import socket
import struct
from typing import NamedTuple

GET_BROKER_CLUSTER_INFO = 106
JAVA_CLIENT_5_5_0 = 513
TIMEOUT_S = 30.0


class Answer(NamedTuple):
    code: int
    fields: dict[str, str]
    remark: str
    body: bytes


def ask(address: str, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Answer:
    """Send one request to `host:port` and return the answer; raises OSError when nobody answers."""
    host, port = address.rsplit(":", 1)
    header = {"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": JAVA_CLIENT_5_5_0}
    encoded = json.dumps({**header, "extFields": fields or {}, "serializeTypeCurrentRPC": "JSON"}).encode()
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(encoded) + len(body), len(encoded)) + encoded + body)
        with connection.makefile("rb") as stream:
            length, header_length = struct.unpack(">ii", _exactly(stream.read(8), 8))
            frame = _exactly(stream.read(length - 4), length - 4)
    answered = json.loads(frame[: header_length & 0xFFFFFF])
    return Answer(
        answered["code"],
        answered.get("extFields") or {},
        answered.get("remark") or "",
        frame[header_length & 0xFFFFFF :],
    )


def _exactly(data: bytes, size_bytes: int) -> bytes:
    if len(data) != size_bytes:
        raise ConnectionError(f"the connection closed after {len(data)} of {size_bytes} bytes")
    return data


def is_registered(namesrv: str, broker: str) -> bool:
    """Say whether the name server lists a broker at this address."""
    try:
        return f'"{broker}"'.encode() in ask(namesrv, GET_BROKER_CLUSTER_INFO).body
    except OSError:
        return False
