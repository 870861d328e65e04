"""How an append or a read of the store ended, by the names that the protocol prints.

The store answers with these; `broker.handlers` turns them into response codes. Conditions follow
Apache's PutMessageStatus and GetMessageStatus (5.5.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class PutStatus(Enum):
    """Fate of an append. The first three have stored the message."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


class Appended(NamedTuple):
    """What became of one append (of one draft, or of several that are stored as a whole).

    The numbers are meaningful only when the message is stored; `queue_offset` is the first draft's. `reason`
    says in words what was refused and what to do, and is empty otherwise.
    """

    status: PutStatus
    log_offsets: Sequence[int] = ()
    queue_offset: int = 0
    store_ms: int = 0
    size_bytes: int = 0
    reason: str = ""
    queue_offsets: Sequence[int] = ()


class GetStatus(Enum):
    """Fate of a read of one queue."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


class Got(NamedTuple):
    """What a read of one queue found.

    `records` are whole stored records, in queue order; `pieces` are the same bytes in as few pieces as they
    could be read in.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: Sequence[bytes | memoryview] = ()
    size_bytes: int = 0
    suggest_slave: bool = False
    pieces: Sequence[bytes | bytearray | memoryview] = ()
    behind_bytes: int = 0
    """From the last message that was looked at to the end of the log."""


class Boundary(Enum):
    """Which message a search by time means when several fit."""

    LOWER = "LOWER"
    UPPER = "UPPER"
