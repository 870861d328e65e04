"""What the extension of a queue says of the entries of one read.

    entries ── tag codes ──▶ extension ── units ──▶ entries with the tag codes that their units hold
                                              └──▶ places of records that a selector cannot want

A reader with tags sees the same entries as in a queue without extension; a reader with a selector leaves
records out that it would have to read otherwise. An entry whose unit is missing keeps its address: tags let
it pass, as in Apache, since clients look at them too, and a selector is evaluated. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from roquet.model.match import Noted
from roquet.store.format.queue_entry import pack, unpack_all
from roquet.store.format.queue_ext import Unit

Units = Sequence[Unit | None]


def tag_codes_of(data: bytes) -> list[int]:
    """Return what each entry has for a tag code."""
    return [tag_code for _, _, tag_code in unpack_all(data)]


def with_tag_codes(data: bytes, units: Units) -> bytes:
    """Return the entries with the tag codes that their units hold in place of addresses."""
    if not any(units):
        return data
    return b"".join(
        pack(log_offset, size_bytes, tag_code if unit is None else unit.tag_code)
        for (log_offset, size_bytes, tag_code), unit in zip(unpack_all(data), units, strict=True)
    )


def unwanted(data: bytes, units: Units, match: Noted) -> frozenset[int]:
    """Return the log offsets of the entries whose units say that a selector does not want them."""
    return frozenset(
        log_offset
        for (log_offset, _, _), unit in zip(unpack_all(data), units, strict=True)
        if unit is not None and not match.may_want(unit.store_ms, unit.bits)
    )
