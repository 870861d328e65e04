"""Fuzz target: reading a commit log whose bytes were damaged.

Promises: `scan` never raises and never runs away, whatever lies on the disk; both twins of it agree; what
they let through adds up, and `decode` opens all of it.
"""

from __future__ import annotations

from roquet.model.message import Draft, Host
from roquet.store.format import _record_py, record

LOG_OFFSET = 1 << 30
DELAYS_MS = (1_000, 5_000, 10_000)
ENTRIES_MAX = 100
STORE_HOST = Host(bytes((127, 0, 0, 1)), 10911)

HOSTS = (Host(bytes((127, 0, 0, 2)), 40001), Host(bytes(15) + b"\1", 40001))
TOPICS = ("t", "SCHEDULE_TOPIC_XXXX", "long-" * 40, "消息")
PROPERTIES = (
    b"",
    b"UNIQ_KEY\x017F000001\x02TAGS\x01a\x02KEYS\x01one two\x02",
    b"DELAY\x013\x02REAL_TOPIC\x01t\x02",
    b"DELAY\x01" + b"9" * 30 + b"\x02",
)


def corpus() -> list[bytes]:
    """Return logs of one to three records, some with the blank that ends a file."""
    logs = []
    for host in HOSTS:
        for topic in TOPICS:
            for properties in PROPERTIES:
                draft = Draft(topic, 3, b"body", properties, 0, 0, 1_000, host)
                first = record.encode(draft, 0, LOG_OFFSET, 1_001, STORE_HOST)
                second = record.encode_with_crc(draft, 1, LOG_OFFSET + len(first), 1_002, host)
                logs += [first, first + second, first + record.blank(64) + bytes(56)]
    return [*logs, bytes(200)]


def mend(data: bytearray) -> None:
    """Make the first record as long as it says, so that the mutation inside is reached."""
    if len(data) >= 91:
        data[0:4] = len(data).to_bytes(4, "big")


def check(data: bytes) -> None:
    """Raise when a promise is broken."""
    for check_crc in (False, True):
        for file_end in (LOG_OFFSET + len(data), LOG_OFFSET + len(data) + 4096):
            found = record.scan(data, LOG_OFFSET, file_end, check_crc, DELAYS_MS, ENTRIES_MAX)
            plain = _record_py.scan(data, LOG_OFFSET, file_end, check_crc, DELAYS_MS, ENTRIES_MAX)
            assert found == plain, f"the twins differ: {found!r} and {plain!r}"
            assert isinstance(found.stop, record.Stop)
            assert bool(found.reason) == (found.stop is record.Stop.BROKEN)
            at = LOG_OFFSET
            for entry in found.entries:
                assert entry.log_offset == at
                at += entry.size_bytes
                _open(data, entry.log_offset - LOG_OFFSET)
            assert at == found.end_offset <= LOG_OFFSET + len(data)


def _open(data: bytes, position: int) -> None:
    opened = record.decode(data, position)
    assert opened.log_offset == LOG_OFFSET + position
    assert record.store_ms_of(data[position : position + record.HEAD_SIZE_BYTES]) == opened.store_ms
    assert len(opened.body) + len(opened.properties) < opened.size_bytes
