"""A stored record as a draft again, for what goes back into the log: retries, deliveries, commits."""

from __future__ import annotations

from roquet.model.message import Draft, java_hash, parse_properties
from roquet.store.format.record import Record


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


def tag_code_of(properties: dict[str, str]) -> int:
    """Return what the queue entry of a message with these properties says."""
    tags = properties.get("TAGS")
    return java_hash(tags) if tags else 0


def keys_of(properties: dict[str, str]) -> tuple[str, ...]:
    """Return the words that a message with these properties is indexed under."""
    unique_key = properties.get("UNIQ_KEY", "")
    return tuple(filter(None, (unique_key, *properties.get("KEYS", "").split())))
