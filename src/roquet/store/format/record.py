"""One record of the commit log, byte for byte as Apache writes it; pure.

The log is records one behind the other, each file of it ending in a blank (what is left of the file,
and the blank magic). Everything is big-endian. `v4` offsets; an IPv6 host is 12 bytes longer.

     0     4     8     12     16    20      28      36      40     48     52    56      64     68
    +-----+-----+-----+------+-----+-------+-------+-------+------+------+-----+-------+------+-----+
    |total|magic| crc |queue | flag| queue |  log  |  sys  | born | born |port | store |store |port |
    |size |     |     |  id  |     | offset| offset|  flag |  ms  | host |     |  ms   | host |     |
    +-----+-----+-----+------+-----+-------+-------+-------+------+------+-----+-------+------+-----+
     72      76        84     88            1 (V1) or 2 (V2)    2
    +-------+---------+------+------+------+-------+----------+------------+
    | recon-| prepared| body | body | topic| topic | property | properties |
    | sumed | offset  | size |      | size |       | size     | n 01 v 02… |
    +-------+---------+------+------+------+-------+----------+------------+

A body "hi" to queue 3 of topic "t", the second of its queue, at 232, born at 1000 ms on 127.0.0.1:5,
stored 1 ms later by 127.0.0.2:10911:
    0000005e daa320a7 58932aac 00000003 00000000 0000000000000001 00000000000000e8 00000000
    00000000000003e8 7f000001 00000005 00000000000003e9 7f000002 00002a9f 00000000
    0000000000000000 00000002 6869 01 74 0000
`crc` is CRC-32 of the body without its top bit. V2 is for topics of more than 127 characters.
A compiled twin is taken when it is there and ROQUET_PURE is not 1. Reference: Apache's
MessageExtEncoder and CommitLog, 5.5.0.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from roquet.store.format._record_py import decode, encode_with_crc, properties_of, store_ms_of
from roquet.store.format._record_values import (
    BLANK_SIZE_BYTES_MIN,
    CRC_PROPERTY_SIZE_BYTES,
    DELAY_TOPIC,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_BYTES_MAX,
    RECORD_SIZE_BYTES_MIN,
    TAG_KEY,
    TOPIC_BYTES_MAX,
    V1_TOPIC_CHARS_MAX,
    Part,
    Record,
    Scan,
    Stop,
    Survey,
)

__all__ = [
    "BLANK_SIZE_BYTES_MIN",
    "COMPILED",
    "CRC_PROPERTY_SIZE_BYTES",
    "DELAY_TOPIC",
    "HEAD_SIZE_BYTES",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "PROPERTIES_BYTES_MAX",
    "RECORD_SIZE_BYTES_MIN",
    "TAG_KEY",
    "TOPIC_BYTES_MAX",
    "V1_TOPIC_CHARS_MAX",
    "Part",
    "Record",
    "Scan",
    "Stop",
    "Survey",
    "blank",
    "decode",
    "describe",
    "encode",
    "encode_with_crc",
    "properties_of",
    "scan",
    "store_ms_of",
    "survey",
]

HEAD_SIZE_BYTES = 76
"""Bytes of a record that hold its store time, whatever the hosts."""

if TYPE_CHECKING or os.environ.get("ROQUET_PURE") == "1":
    from roquet.store.format._record_py import describe, encode, scan, survey

    COMPILED: Final = False
else:
    try:
        from roquet.store.format._record_c import describe, encode, scan, survey

        COMPILED = True
    except ImportError:
        from roquet.store.format._record_py import describe, encode, scan, survey

        COMPILED = False


def blank(size_bytes: int) -> bytes:
    """Return the head of the blank that fills the last `size_bytes` of a file."""
    assert size_bytes >= BLANK_SIZE_BYTES_MIN
    return size_bytes.to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")
