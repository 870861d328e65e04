"""The body of a batch send: messages one after another, without what they share.

total 4 · magic 4 · crc 4 · flag 4 · body 4+n · properties 2+n          magic and crc are not used
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_FIXED = struct.Struct(">iiiii")

ITEMS_MAX: Final = 65_536
"""A legal batch of 4 MiB cannot hold more: an item takes 22 bytes without a body, and one needs a body."""


class BatchItem(NamedTuple):
    flag: int
    body: bytes
    properties: bytes


class BatchError(ValueError):
    """The body is no batch."""


def split_batch(body: bytes) -> list[BatchItem]:
    """Return the messages of a batch body; raises BatchError that says where it breaks."""
    items: list[BatchItem] = []
    position = 0
    end = len(body)
    while position < end:
        if len(items) >= ITEMS_MAX:
            raise BatchError(f"the batch holds more than {ITEMS_MAX} messages")
        if end - position < _FIXED.size + 2:
            raise BatchError(f"the batch breaks off at byte {position}")
        total, _, _, flag, body_size = _FIXED.unpack_from(body, position)
        body_start = position + _FIXED.size
        properties_start = body_start + body_size + 2
        if body_size < 0 or properties_start > end:
            raise BatchError(f"message {len(items)} of the batch claims a body of {body_size} bytes")
        properties_size = int.from_bytes(body[properties_start - 2 : properties_start], "big", signed=True)
        stop = properties_start + properties_size
        if properties_size < 0 or stop > end or stop - position != total:
            raise BatchError(f"message {len(items)} of the batch does not fill its {total} bytes")
        items.append(BatchItem(flag, body[body_start : body_start + body_size], body[properties_start:stop]))
        position = stop
    return items


def join_item(flag: int, body: bytes, properties: bytes) -> bytes:
    """Return one message of a batch; a batch body is these one behind the other."""
    size = len(body)
    total = _FIXED.size + size + 2 + len(properties)
    return b"".join(
        (_FIXED.pack(total, 0, 0, flag, size), body, len(properties).to_bytes(2, "big"), properties)
    )
