"""The delay levels by which servers bring a message back: a wait becomes the next level up; pure.

    level   1  2  3   4   5  6  7  8  9 10 11 12 13  14  15  16 17 18
    wait    1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h        `messageDelayLevel`'s default

A server may be set to other waits; clients are not told. Level 0 lets the server choose (3 and one more
for each attempt), −1 means the dead letters.
"""

from __future__ import annotations

import bisect
from datetime import timedelta
from typing import Final

WAITS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)

SERVER_CHOOSES: Final = 0
DEAD_LETTER: Final = -1
AFTER_TIMEOUT: Final = 3
"""What a message that was in hand for too long comes back with."""


def level_for(after: timedelta | None) -> int:
    """Return the first level that waits at least so long, the last one for anything longer."""
    if after is None:
        return SERVER_CHOOSES
    index = bisect.bisect_left(WAITS_S, after.total_seconds())
    return min(index, len(WAITS_S) - 1) + 1


def level_of_attempt(reconsume_times: int) -> int:
    """Return the level that a server would choose after so many retries."""
    return 3 + reconsume_times
