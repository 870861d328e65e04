"""What both twins of the lane are told, once for a broker."""

from __future__ import annotations

from typing import NamedTuple


class Terms(NamedTuple):
    """The rules and constants of ordinary sends."""

    odd_names: frozenset[str]
    """Properties that make a message anything but ordinary: features act on them, or we set them."""
    odd_flags: int
    """Bits of the system flag that do the same."""
    host_flags: int
    """Bits that say which of the two addresses are IPv6."""
    own_properties: bytes
    """What the broker adds to the properties."""
    body_bytes_max: int
    properties_bytes_max: int
    """Of the text that came, so that with our own there is still room."""
    id_prefix: str
    region: str
    trace_on: str
