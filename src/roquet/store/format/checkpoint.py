"""The layout of the checkpoint: how far the log, the queues and the index are known to be on disk.

Six numbers at the start of a file of one page; the rest is zeros. Big-endian and signed.

    0 log ms · 8 queues ms · 16 index ms · 24 master flushed offset · 32 confirm offset
    40 log offset that the queues have reached (5.5.0; older files have 0 there)

Reference: Apache's StoreCheckpoint, 5.5.0.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

FILE_SIZE_BYTES = 4096
_LAYOUT = struct.Struct(">qqqqqq")


class CheckpointPage(NamedTuple):
    """The six numbers; times are store times in ms of the last message that is on disk."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    queues_log_offset: int = 0


def encode_checkpoint(page: CheckpointPage) -> bytes:
    """Return the bytes that go to the start of the file."""
    return _LAYOUT.pack(*page)


def decode_checkpoint(data: bytes) -> CheckpointPage:
    """Return the numbers; what is missing at the end of a short file counts as 0."""
    return CheckpointPage(*_LAYOUT.unpack(data[: _LAYOUT.size].ljust(_LAYOUT.size, b"\0")))
