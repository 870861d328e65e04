"""The three outcomes of handling a request: an answer now, an answer later, or none at all.

Reply     goes out at once
PARKED    the handler kept the call and will answer it itself, soon or after a long poll
NOTHING   the protocol wants no answer here
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from roquet.wire.codes import Code
from roquet.wire.row import Header


class Reply(NamedTuple):
    """An answer. A body in several pieces is sent without joining them."""

    code: int = Code.SUCCESS
    header: Header | None = None
    body: bytes | Sequence[bytes | bytearray | memoryview] = b""
    remark: str = ""


class Deferred(Enum):
    """Outcomes that put nothing on the wire now."""

    PARKED = "parked"
    NOTHING = "nothing"


PARKED: Final = Deferred.PARKED
NOTHING: Final = Deferred.NOTHING

Outcome = Reply | Deferred

OK: Final = Reply()


class Refusal(Exception):
    """Raised by a handler to answer with a code and a sentence that says what to do."""

    def __init__(self, code: int, remark: str, header: Header | None = None) -> None:
        super().__init__(remark)
        self.reply = Reply(code, header, b"", remark)
