"""A stored record as a draft again: the readable twin, which is the specification of `_redraft_c`."""

from __future__ import annotations

from roquet.broker.core._redraft_values import Stored, keys_of, tag_code_of
from roquet.model.message import Draft, parse_properties
from roquet.store.format.record import Record, decode


def reopen(data: bytes | memoryview) -> Stored:
    """Return what a whole record says: the draft that would store it again, its properties, its place."""
    record = decode(data)
    draft, properties = draft_of(record)
    return Stored(
        draft, properties, record.queue_offset, record.log_offset, record.size_bytes, record.store_ms
    )


def draft_of(record: Record) -> tuple[Draft, dict[str, str]]:
    """Return the draft that would store the record again, and its properties."""
    properties = parse_properties(bytes(record.properties).decode(errors="replace"))
    draft = Draft(
        record.topic,
        record.queue_id,
        record.body,
        bytes(record.properties),
        record.flag,
        record.sys_flag,
        record.born_ms,
        record.born_host,
        record.reconsume_times,
        record.prepared_log_offset,
        tag_code_of(properties),
        keys_of(properties),
    )
    return draft, properties
