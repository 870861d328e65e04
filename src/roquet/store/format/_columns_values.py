"""What the two column readers share: the columns, what to sift out, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from roquet.store.format._record_values import Stop

Kind = Literal["int32", "int64", "text", "bytes", "texts", "pairs"]
Buffer = bytes | bytearray | memoryview

OFFSET_MAX: Final = (1 << 63) - 1

KINDS: Final[Mapping[str, Kind]] = {
    "topic": "text",
    "queue_id": "int32",
    "queue_offset": "int64",
    "body": "bytes",
    "tag": "text",
    "keys": "texts",
    "properties": "pairs",
    "message_id": "text",
    "born_us": "int64",
    "store_us": "int64",
    "born_host": "text",
    "store_host": "text",
    "reconsume_times": "int32",
    "sys_flag": "int32",
    "flag": "int32",
    "log_offset": "int64",
    "prepared_log_offset": "int64",
    "size_bytes": "int32",
}
"""Every column of a record, and how its buffers look."""

BYTES_MAX: Final = 1 << 30
"""Bytes of one column after which a read stops: offsets of a column are 32 bits wide."""


class Sieve(NamedTuple):
    """Which records become rows; the rest is stepped over. Ends are exclusive, empty means all."""

    topics: tuple[bytes, ...] = ()
    queue_ids: tuple[int, ...] = ()
    queue_offset_from: int = 0
    queue_offset_to: int = OFFSET_MAX
    store_ms_from: int = 0
    store_ms_to: int = OFFSET_MAX


EVERY: Final = Sieve()


class Columns(NamedTuple):
    """Rows as buffers, and where and why the read stopped.

    `position` is where the next record begins. Stop.MORE: the bytes end there or enough rows were read.
    `buffers` holds for each column, with 32-bit offsets in the byte order of the machine:
    int32 and int64 (values), text and bytes (offsets, data), texts (list offsets, offsets, data), pairs
    (list offsets, name offsets, names, value offsets, values).
    """

    rows: int
    position: int
    stop: Stop
    fault: str
    buffers: dict[str, tuple[Buffer, ...]]
