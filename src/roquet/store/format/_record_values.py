"""Constants and values of the record codec, shared by its plain and its compiled form."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from roquet.model.message import Entry, Host

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194

RECORD_SIZE_BYTES_MIN = 91
"""A record with IPv4 hosts and no body, topic or properties."""
BLANK_SIZE_BYTES_MIN = 8
CRC_PROPERTY_SIZE_BYTES = 20
V1_TOPIC_CHARS_MAX = 127
TOPIC_BYTES_MAX = 255
PROPERTIES_BYTES_MAX = 32_767
DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"
TAG_KEY = "T#"
"""What a tag is preceded by when it is filed as a key: Apache does so since 5.5.0."""


class Record(NamedTuple):
    """All fields of one record."""

    size_bytes: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    log_offset: int
    sys_flag: int
    born_ms: int
    born_host: Host
    store_ms: int
    store_host: Host
    reconsume_times: int
    prepared_log_offset: int
    body: bytes
    topic: str
    properties: bytes


class Stop(IntEnum):
    """Why a scan ended where it did."""

    MORE = 0
    """The bytes end inside a record (or enough entries were read)."""
    FILE_END = 1
    """A blank: the log goes on in the next file."""
    ZEROS = 2
    """Nothing has ever been written here: the end of the log."""
    BROKEN = 3
    """Something was written here that is no record."""


class Scan(NamedTuple):
    """What a scan found. `size_bytes` is the length field of the record it stopped at, if it can be one."""

    entries: list[Entry]
    end_offset: int
    stop: Stop
    size_bytes: int
    reason: str


class Part(NamedTuple):
    """Queue entries of one queue that follow each other without a gap, 20 bytes each."""

    topic: str
    queue_id: int
    first_offset: int
    entries: bytes


class Survey(NamedTuple):
    """What a stretch of the log means for queues and index; the rest is as in `Scan`.

    The parts of one queue are in log order; `key_rows` is drawn in `format.entries`; `sys_flags` has each
    bit that any of the records has. Place and store time of the last record are 0 when there was none.
    """

    record_count: int
    parts: list[Part]
    key_rows: bytes
    sys_flags: int
    last_log_offset: int
    last_store_ms: int
    end_offset: int
    stop: Stop
    size_bytes: int
    reason: str
