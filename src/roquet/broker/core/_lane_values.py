"""What both twins of the lane are told, once for a broker, and what they find in a run."""

from __future__ import annotations

from typing import NamedTuple

from roquet.model.message import Draft


class Terms(NamedTuple):
    """The rules and constants of the sends that the lane takes."""

    odd_names: frozenset[str]
    """Properties that end a run: we set them ourselves."""
    odd_flags: int
    """Bits of the system flag that do the same."""
    marks: frozenset[str]
    """Properties that features act on."""
    mark_flags: int
    """Bits of the system flag that they act on."""
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


class Run(NamedTuple):
    """Sends that came together: a draft for each, and those of them that features must see.

    `marked` has the number of the draft and its properties, parsed (without those that the broker adds).
    """

    drafts: list[Draft]
    marked: list[tuple[int, dict[str, str]]]
