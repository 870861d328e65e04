"""Messages as they move through the broker: the draft before the log, the entry behind it.

A `Draft` is what a producer (or a feature) wants stored. The log gives it an offset, a queue offset
and a store time; what comes out of the log again, in log order, is an `Entry`. Neither knows how it
is laid out in bytes: that is `store.format.record`. Values never change once built; `_replace` makes
the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import NamedTuple

NAME_SEPARATOR = "\x01"
PAIR_SEPARATOR = "\x02"


class SysFlag(IntFlag):
    """Bits of a message's system flag."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    COMPRESSION_MASK = 0x700


class Host(NamedTuple):
    """An address as records carry it: 4 or 16 raw bytes and a port."""

    ip: bytes
    port: int

    @property
    def is_v6(self) -> bool:
        return len(self.ip) == 16


class Draft(NamedTuple):
    """A message on its way into the log.

    `properties` is the wire text `name 0x01 value 0x02 …` in UTF-8, already complete: the store adds
    nothing to it. `tag_code` is what goes into the queue entry (Java's hash of the tag, 0 for none).
    `keys` are the words that the index files the message under (its unique key first).
    """

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    flag: int
    sys_flag: int
    born_ms: int
    born_host: Host
    reconsume_times: int = 0
    prepared_log_offset: int = 0
    tag_code: int = 0
    keys: tuple[str, ...] = ()


class Entry(NamedTuple):
    """One record of the log as dispatch sees it, in log order, live and again after recovery."""

    log_offset: int
    size_bytes: int
    topic: str
    queue_id: int
    queue_offset: int
    tag_code: int
    store_ms: int
    sys_flag: int
    prepared_log_offset: int
    keys: tuple[str, ...]
    properties: bytes


def parse_properties(text: str) -> dict[str, str]:
    """Return the pairs of a property text; pairs without a name or a value are dropped."""
    pairs: dict[str, str] = {}
    for pair in text.split(PAIR_SEPARATOR):
        name, separator, value = pair.partition(NAME_SEPARATOR)
        if name and value and separator:
            pairs[name] = value
    return pairs


def format_properties(pairs: Mapping[str, str]) -> str:
    """Return the property text of the pairs, each ended by its separator."""
    return "".join(
        f"{name}{NAME_SEPARATOR}{value}{PAIR_SEPARATOR}" for name, value in pairs.items() if name and value
    )


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: signed 32 bits over UTF-16 units."""
    value = 0
    if text.isascii():
        for byte in text.encode():
            value = (31 * value + byte) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value
