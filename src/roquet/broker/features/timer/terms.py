"""What a timed message asks for, and which slot it waits in; pure: the time is an argument.

    TIMER_DELAY_SEC ▸ TIMER_DELAY_MS ▸ TIMER_DELIVER_MS        the first that is there says when
    deliver ms ─ rounded ─▶ TIMER_OUT_MS ─ place ─▶ slot       whole units of the precision

A slot is served one precision after its time begins. So a time between two units is rounded down, and one
on a unit goes to the slot before: neither is ever early, and none later than one precision. A message that
is due beyond the window waits in a slot on the way (a roll) and is filed anew from there. Reference:
Apache's HookUtils and TimerMessageStore, 5.5.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from roquet.model.message import Draft, SysFlag
from roquet.store.format import timer_wheel

NAMES: Final = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
DELETE_NAME: Final = "TIMER_DEL_UNIQKEY"
OUT_NAME: Final = "TIMER_OUT_MS"

WINDOW_SLOTS_MAX: Final = timer_wheel.SLOTS // 2 - 60
"""How far ahead a slot may lie: half the wheel, less a minute."""

_LONG_MAX: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_PREPARED: Final = int(SysFlag.TRANSACTION_PREPARED)


class Place(NamedTuple):
    """The slot that a message is filed in, and whether that is only a stop on its way."""

    slot_ms: int
    is_roll: bool


def is_asked(draft: Draft, properties: Mapping[str, str]) -> bool:
    """True for a draft with a time that counts: no half, not timed before, no delay level."""
    # The way of every plain message: three look-ups and no more.
    if (
        "TIMER_DELIVER_MS" not in properties
        and "TIMER_DELAY_MS" not in properties
        and "TIMER_DELAY_SEC" not in properties
    ):
        return False
    return not draft.sys_flag & _PREPARED and OUT_NAME not in properties and not has_level(properties)


def has_level(properties: Mapping[str, str]) -> bool:
    """True when a delay level is asked for, which wins over a time."""
    text = properties.get("DELAY")
    return text is not None and bool(_NUMBER.fullmatch(text)) and int(text) > 0


def deliver_ms(properties: Mapping[str, str], now_ms: int) -> int:
    """Return when the message is to be delivered; raises ValueError with the words for the sender."""
    for name in NAMES:
        if name in properties:
            break
    text = properties[name]
    if not _NUMBER.fullmatch(text) or (len(text) > 18 and abs(int(text)) > _LONG_MAX):
        raise ValueError(f"{name} {text[:40]!r} is not a number")
    value = int(text)
    if name == "TIMER_DELAY_SEC":
        return now_ms + value * 1000
    return now_ms + value if name == "TIMER_DELAY_MS" else value


def rounded(ms: int, precision_ms: int) -> int:
    """Return the time of the slot for a delivery."""
    return ms - precision_ms if ms % precision_ms == 0 else ms - ms % precision_ms


def window_slots(asked: int) -> int:
    """Return how many slots ahead a message may be filed; a setting out of range counts as the largest."""
    return asked if 2 <= asked <= WINDOW_SLOTS_MAX else WINDOW_SLOTS_MAX


def place(out_ms: int, write_ms: int, window: int, precision_ms: int) -> Place:
    """Return where to file a message at the (rounded) time `write_ms`.

    One that is due already takes the newest slot that is served at once.
    """
    ahead = (out_ms - write_ms) // precision_ms
    if ahead < 0:
        return Place(max(out_ms, write_ms - precision_ms), False)
    if ahead < window:
        return Place(out_ms, False)
    # With little left behind the window, half of it leaves enough for the next turn.
    stop = window // 2 if ahead - window < window // 3 else window
    return Place(write_ms + stop * precision_ms, stop < ahead)


def cancelled(marker: Mapping[str, str]) -> tuple[str, str]:
    """Return (topic, unique key) of the message that a marker deletes.

    The marker holds the key alone (5.5.0) or topic, plus sign and key (before). Apache compares only the
    key and would delete a message of another topic that has the same one.
    """
    topic = marker.get("REAL_TOPIC", "")
    return topic, marker.get(DELETE_NAME, "").removeprefix(f"{topic}+")
