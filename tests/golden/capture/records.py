"""Reads Apache's message records (pull bodies, commit log) into plain dictionaries for `expected.json`.

Used by `stores.py` only. Deliberately written without `roquet.store.format`, so that what the golden stores
are expected to hold was not read by the code that they test.
    total:4 magic:4 crc:4 queue:4 flag:4 queue offset:8 log offset:8 sysflag:4 born:8 host store:8 host
    tries:4 prepared offset:8 │ body length:4 body │ topic length:1 (V2: 2) topic │ length:2 properties
Reference: org.apache.rocketmq.common.message.MessageDecoder, release 5.5.0.
"""

import hashlib
import ipaddress
import struct
from typing import Any

V2 = 0xDAA320AB
BORN_IPV6, STORE_IPV6 = 0x10, 0x20


def split(data: bytes) -> list[dict[str, Any]]:
    """Return the records that lie one behind the other in a pull answer's body."""
    records: list[dict[str, Any]] = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        records.append(record(data[at : at + size]))
        at += size
    return records


def record(data: bytes) -> dict[str, Any]:
    """Return one record's fields; the body as length and hash of the stored bytes."""
    _size, magic, crc, queue, flag, queue_offset, log_offset, sys_flag, born = struct.unpack_from(
        ">iIiiiqqiq", data
    )
    at = 48
    born_host, at = _host(data, at, bool(sys_flag & BORN_IPV6))
    (stored,) = struct.unpack_from(">q", data, at)
    id_start = at + 8
    store_host, at = _host(data, id_start, bool(sys_flag & STORE_IPV6))
    message_id = (data[id_start:at] + data[28:36]).hex().upper()
    tries, prepared, body_size = struct.unpack_from(">iqi", data, at)
    at += 16
    body = data[at : at + body_size]
    at += body_size
    width = 2 if magic == V2 else 1
    topic_end = at + width + int.from_bytes(data[at : at + width])
    topic = data[at + width : topic_end].decode()
    properties = _properties(data[topic_end + 2 :].decode())
    return {
        "topic": topic,
        "queue_id": queue,
        "queue_offset": queue_offset,
        "log_offset": log_offset,
        "msg_id": message_id,
        "size_bytes": len(data),
        "magic": f"{magic:08x}",
        "body_crc": crc,
        "body_size_bytes": body_size,
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "flag": flag,
        "sys_flag": sys_flag,
        "born_timestamp_ms": born,
        "born_host": born_host,
        "store_timestamp_ms": stored,
        "store_host": store_host,
        "reconsume_times": tries,
        "prepared_offset": prepared,
        "tags": properties.get("TAGS", ""),
        "keys": properties.get("KEYS", ""),
        "properties": properties,
    }


def _host(data: bytes, at: int, is_ipv6: bool) -> tuple[str, int]:
    size = 16 if is_ipv6 else 4
    address = ipaddress.ip_address(data[at : at + size])
    (port,) = struct.unpack_from(">i", data, at + size)
    text = f"[{address}]" if is_ipv6 else str(address)
    return f"{text}:{port}", at + size + 4


def _properties(text: str) -> dict[str, str]:
    pairs = (pair.split("\1", 1) for pair in text.split("\2") if "\1" in pair)
    return {pair[0]: pair[1] for pair in pairs}
