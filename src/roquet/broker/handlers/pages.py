"""Tables by pages: how 21 and 201 are cut for callers that say where they are.

A caller without any of the three fields is an old one and gets everything. Pages are in name order; a
caller whose data version is not the present one starts again at the beginning. Reference:
TopicConfigManager.subTopicConfigTable of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from roquet.model.topic import DataVersion

PAGE_MAX: Final = 2_000
"""Entries of one page, as Apache's splitMetadataSize."""

Value = TypeVar("Value")


def page_of(
    table: Mapping[str, Value],
    version: DataVersion,
    known_version: str | None,
    first: int | None,
    count: int | None,
) -> Mapping[str, Value]:
    """Return the page of a table that a request wants."""
    if known_version is None and first is None and count is None:
        return table
    begin = max(first or 0, 0) if _same(known_version, version) else 0
    size = min(PAGE_MAX, PAGE_MAX if count is None else max(count, 0))
    return {name: table[name] for name in sorted(table)[begin : begin + size]}


def _same(known: str | None, version: DataVersion) -> bool:
    if not known:
        return False
    try:
        return msgspec.json.decode(known, type=DataVersion, strict=False) == version
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return False
