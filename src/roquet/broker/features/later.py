"""Refuse the kinds of messages whose promise Roquet does not keep yet.

A delayed, timed or transactional message that was stored like any other would be delivered at the wrong
moment. Saying no is safe: the producer learns of it, and a consumer that could not hand a message back
keeps it and tries again by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from roquet.model.message import Draft
from roquet.wire.codes import Code
from roquet.wire.reply import Refusal

_KINDS: Final = {
    "DELAY": "delayed messages",
    "TIMER_DELAY_SEC": "timed messages",
    "TIMER_DELAY_MS": "timed messages",
    "TIMER_DELIVER_MS": "timed messages",
    "TRAN_MSG": "transactional messages",
}


class Later:
    """Sees every draft first."""

    def before_append(self, draft: Draft, properties: Mapping[str, str]) -> Draft:
        """Return the draft; raises Refusal when it asks for something that is not there yet."""
        if _KINDS.keys().isdisjoint(properties):
            return draft
        for name in _KINDS.keys() & properties.keys():
            if not _is_off(name, properties[name]):
                remark = f"{_KINDS[name]} ({name}) are not supported yet; the message is not stored"
                raise Refusal(Code.MESSAGE_ILLEGAL, remark)
        return draft


def _is_off(name: str, value: str) -> bool:
    """True for a value that asks for nothing: level 0 or less, or no transaction."""
    if name == "TRAN_MSG":
        return value.lower() != "true"
    return name == "DELAY" and value.lstrip("-").isdecimal() and int(value) <= 0
