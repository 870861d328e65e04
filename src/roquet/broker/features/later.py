"""Refuse the kinds of messages whose promise Roquet does not keep yet.

A delayed, timed or transactional message that was stored like any other would be delivered at the wrong
moment. Saying no is safe: the producer learns of it, and a consumer that could not hand a message back
keeps it and tries again by itself.
"""

from __future__ import annotations

from roquet.model.message import Draft
from roquet.wire.codes import Code
from roquet.wire.reply import Refusal

_KINDS = (
    (b"DELAY\x01", "delayed messages (DELAY)"),
    (b"TIMER_DELAY_SEC\x01", "timed messages (TIMER_DELAY_SEC)"),
    (b"TIMER_DELAY_MS\x01", "timed messages (TIMER_DELAY_MS)"),
    (b"TIMER_DELIVER_MS\x01", "timed messages (TIMER_DELIVER_MS)"),
    (b"TRAN_MSG\x01true", "transactional messages (TRAN_MSG)"),
)


class Later:
    """Sees every draft first."""

    def before_append(self, draft: Draft) -> Draft | Refusal:
        """Return the draft, or the refusal when it asks for something that is not there yet."""
        properties = draft.properties
        for mark, kind in _KINDS:
            if mark in properties and not _switched_off(properties, mark):
                return Refusal(
                    Code.MESSAGE_ILLEGAL, f"{kind} are not supported yet; the message is not stored"
                )
        return draft


def _switched_off(properties: bytes, mark: bytes) -> bool:
    """True when the mark is part of another name, or says level 0, which means no delay."""
    at = properties.index(mark)
    if at and properties[at - 1] != 2:
        return True
    value = properties[at + len(mark) :].partition(b"\x02")[0]
    return mark == b"DELAY\x01" and value.lstrip(b"-").isdigit() and int(value) <= 0
