"""Records of the timer's queue: the readable twin, which is the specification of `_parked_c`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from roquet.broker.features.timer import terms
from roquet.broker.features.timer._parked_values import Parked
from roquet.model.message import parse_properties
from roquet.store.format.record import decode

OUT_DIGITS_MAX: Final = 18


def read_parked(records: Sequence[bytes | memoryview]) -> list[Parked]:
    """Return what whole records of the timer's queue say."""
    return [read_one(data) for data in records]


def read_one(data: bytes | memoryview) -> Parked:
    """Return what one record says."""
    record = decode(data)
    properties = parse_properties(record.properties.decode(errors="replace"))
    out_text, topic = properties.get(terms.OUT_NAME, ""), properties.get("REAL_TOPIC", "")
    if not out_text.isdecimal() or len(out_text) > OUT_DIGITS_MAX or not topic:
        out_text, topic = "0", ""
    is_delete = terms.DELETE_NAME in properties
    return Parked(record.queue_offset, record.log_offset, record.size_bytes, int(out_text), topic, is_delete)
