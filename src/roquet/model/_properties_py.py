"""Changes to a property text: the readable twin, which is the specification of `_properties_c`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from roquet.model.message import format_properties


def edit_properties(text: bytes, put: Mapping[str, str], drop: Collection[str] = ()) -> bytes:
    """Return a property text with pairs at its end and others taken out; the rest keeps its bytes."""
    names = {name.encode() for name in (*put, *drop)}
    pairs = [pair for pair in text.split(b"\x02") if pair and pair.partition(b"\x01")[0] not in names]
    return b"".join([pair + b"\x02" for pair in pairs]) + format_properties(put).encode()
