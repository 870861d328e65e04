"""Recall handles: what a sender gets for a timed message, to take it back by; pure.

    v1 <topic> <broker name> <TIMER_OUT_MS + 1> <unique key>      in URL-safe base64
    v1 Timed broker-a 1794736226001 7F000001000100000000000000000000
    ─▶ djEgVGltZWQgYnJva2VyLWEgMTc5NDczNjIyNjAwMSA3RjAwMDAwMTAwMDEwMDAwMDAwMDAwMDAwMDAwMDAwMA==

One more than the slot's time, so that the rounding of the deletion marker leads to the same slot.
Reference: Apache's RecallMessageHandle, 5.5.0.
"""

from __future__ import annotations

import base64
import re
from binascii import b2a_base64
from typing import Final, NamedTuple

HANDLE_CHARS_MAX: Final = 4096

_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_WORD: Final = re.compile(r"[A-Za-z0-9_\-]+={0,2}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class Handle(NamedTuple):
    """Which message a handle names, and when it is due."""

    topic: str
    broker_name: str
    ms: int
    unique_key: str


def format_handle(topic: str, broker_name: str, out_ms: int, unique_key: str) -> str:
    """Return the handle of a message that waits in the slot `out_ms`."""
    text = f"v1 {topic} {broker_name} {out_ms + 1} {unique_key}"
    return b2a_base64(text.encode(), newline=False).translate(_URL_SAFE).decode()


def parse_handle(handle: str) -> Handle:
    """Return what a handle says; raises ValueError."""
    if len(handle) > HANDLE_CHARS_MAX or not _WORD.fullmatch(handle):
        raise ValueError("recall handle is invalid")
    try:
        text = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)).decode()
    except ValueError:
        raise ValueError("recall handle is invalid") from None
    words = text.split(" ")
    if len(words) < 5 or words[0] != "v1":
        raise ValueError("recall handle is invalid")
    ms = int(words[3]) if _NUMBER.fullmatch(words[3]) else -1
    return Handle(words[1], words[2], ms, words[4])
