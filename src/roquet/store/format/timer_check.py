"""The layout of `config/timercheck`: how far the timer is, one page; pure.

Seven numbers at the start, which are also the answer to GET_TIMER_CHECK_POINT; the rest is zeros. Big-endian
and signed.

    0 read ms                all slots before it are delivered
    8 log position           the timer log is on disk up to here, and the wheel knows its units
    16 queue offset          the next message of the timer's queue that has no unit yet
    24 queue offset of the master · 32 state version · 40 version ms · 48 version counter
    64 "roquet01" · 72 a copy of the first three · 96 log offset

    000001a1de9db580 0000000000000aa8 0000000000000032 0000000000000032 …   read up to 1794736240000

The part from 64 on is ours: deliveries that the first three do not know of yet all lie in the log from
that offset on. It counts only while its copy equals the original: Apache changes that and not the copy.
Reference: Apache's TimerCheckpoint, 5.5.0.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

FILE_BYTES: Final = 4096
BODY_BYTES: Final = 56

_CHECK = struct.Struct(">7q")
_OWN = struct.Struct(">8s4q")
_OWN_AT: Final = 64
_OWN_MAGIC: Final = b"roquet01"


class TimerCheck(NamedTuple):
    """The seven numbers."""

    read_ms: int = 0
    log_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    version_ms: int = 0
    version_counter: int = 0


def encode_body(check: TimerCheck) -> bytes:
    """Return the numbers as a request carries them."""
    return _CHECK.pack(*check)


def encode_check(check: TimerCheck, delivered_from: int) -> bytes:
    """Return what goes to the start of the file; all of it lies in one sector."""
    own = _OWN.pack(_OWN_MAGIC, *check[:3], delivered_from)
    return encode_body(check).ljust(_OWN_AT, b"\0") + own


def decode_check(data: bytes) -> tuple[TimerCheck, int | None]:
    """Return the numbers, and the log offset behind which unknown deliveries lie.

    The latter is None when the page was written by somebody who does not say so. What is missing at the
    end of a short file counts as 0.
    """
    page = data[: _OWN_AT + _OWN.size].ljust(_OWN_AT + _OWN.size, b"\0")
    check = TimerCheck(*_CHECK.unpack_from(page))
    magic, *copy, delivered_from = _OWN.unpack_from(page, _OWN_AT)
    is_ours = magic == _OWN_MAGIC and tuple(copy) == check[:3]
    return check, delivered_from if is_ours else None
