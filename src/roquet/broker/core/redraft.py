"""A stored record as a draft again, for what goes back into the log: retries, deliveries, commits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

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


def tag_code_of(properties: Mapping[str, str]) -> int:
    """Return what the queue entry of a message with these properties says."""
    tags = properties.get("TAGS")
    return _hash(tags) if tags else 0


@lru_cache(maxsize=4096)
def _hash(tags: str) -> int:
    return java_hash(tags)


def keys_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a message with these properties is indexed under: its ids, its keys and its tag."""
    unique_key = properties.get("UNIQ_KEY")
    keys = properties.get("KEYS")
    tags = properties.get("TAGS")
    if keys is None and tags is None:
        return (unique_key,) if unique_key else ()
    words = keys.split() if keys else []
    return (*((unique_key,) if unique_key else ()), *words, *((f"T#{tags}",) if tags else ()))
