"""What both twins of `redraft` return, and what properties mean to queues and index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from roquet.model.message import Draft, java_hash


class Stored(NamedTuple):
    """A record of the log, ready to be stored once more; offsets, size and time are those that it has."""

    draft: Draft
    properties: dict[str, str]
    queue_offset: int
    log_offset: int
    size_bytes: int
    store_ms: int


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
