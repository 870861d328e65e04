"""Cutting a run of records, in plain Python: the specification of the compiled one."""

from __future__ import annotations

import struct

from roquet.model.message import SysFlag
from roquet.store.format._record_py import decode
from roquet.store.format._record_values import MAGIC_V1, MAGIC_V2, RECORD_SIZE_BYTES_MIN, Record

_SIZE_MAGIC = struct.Struct(">iI")
_INT = struct.Struct(">i")
_BORN_V6 = int(SysFlag.BORN_HOST_V6)
_STORE_V6 = int(SysFlag.STORE_HOST_V6)


def read_page(data: bytes) -> list[Record]:
    """Return the records; raises ValueError where there is none."""
    records: list[Record] = []
    position, end = 0, len(data)
    while position < end:
        size = _check(data, position, end)
        records.append(decode(data, position))
        position += size
    return records


def _check(data: bytes, position: int, end: int) -> int:
    """Return the size of the record at a position, once its fields are known to fit it exactly."""
    if end - position < RECORD_SIZE_BYTES_MIN:
        raise ValueError(f"no record at {position}: only {end - position} bytes are left")
    size, magic = _SIZE_MAGIC.unpack_from(data, position)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise ValueError(f"no record at {position}: it begins with {magic:08x}")
    if not RECORD_SIZE_BYTES_MIN <= size <= end - position:
        raise ValueError(f"no record at {position}: its size would be {size}")
    stop = position + size
    sys_flag = data[position + 39]
    at = position + 84 + (12 if sys_flag & _BORN_V6 else 0) + (12 if sys_flag & _STORE_V6 else 0)
    topic_field = 2 if magic == MAGIC_V2 else 1
    if at + 4 + topic_field + 2 <= stop:
        body_size = _INT.unpack_from(data, at)[0]
        at += 4 + body_size
        if body_size >= 0 and at + topic_field + 2 <= stop:
            at += topic_field + int.from_bytes(data[at : at + topic_field], "big")
            if at + 2 <= stop and at + 2 + int.from_bytes(data[at : at + 2], "big", signed=True) == stop:
                return int(size)
    raise ValueError(f"no record at {position}: its fields do not fit {size} bytes")
