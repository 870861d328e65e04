"""Which delay level a message gets when it is tried again; pure.

Without a policy of its own a group gets level 3 + number of tries, as ever. A policy says milliseconds:
CUSTOMIZED lists them (the first two entries are passed over, because levels begin at the third), EXPONENTIAL
multiplies. The level is the shortest one that is not shorter than that, else the longest there is.
Reference: GroupRetryPolicy, CustomizedRetryPolicy and ExponentialRetryPolicy of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roquet.model.group import RetryPolicy

FIRST_LEVEL: Final = 3
TIMES_MAX: Final = 32
"""The exponent grows no further, as with Apache: the wait has long reached its maximum."""


def level_of(policy: RetryPolicy, times: int, levels_ms: Sequence[int]) -> int:
    """Return the level for a message that was tried `times` times again already."""
    customized, exponential = policy.customized_retry_policy, policy.exponential_retry_policy
    if policy.type == "CUSTOMIZED" and isinstance(customized, Mapping):
        waits = [_number(wait, 0) for wait in customized.get("next") or ()]
        if waits:
            return _level_for(waits[min(times + FIRST_LEVEL - 1, len(waits) - 1)], levels_ms)
    if policy.type == "EXPONENTIAL" and isinstance(exponential, Mapping):
        return _level_for(_exponential_ms(exponential, times), levels_ms)
    return FIRST_LEVEL + times


def _exponential_ms(policy: Mapping[str, Any], times: int) -> int:
    initial = _number(policy.get("initial"), 5_000)
    longest = _number(policy.get("max"), 7_200_000)
    factor: int = _number(policy.get("multiplier"), 2) ** min(times, TIMES_MAX)
    return min(longest, initial * factor)


def _level_for(wait_ms: int, levels_ms: Sequence[int]) -> int:
    long_enough = [(delay_ms, level) for level, delay_ms in enumerate(levels_ms, 1) if delay_ms >= wait_ms]
    if long_enough:
        return min(long_enough)[1]
    return max(((delay_ms, level) for level, delay_ms in enumerate(levels_ms, 1)), default=(0, FIRST_LEVEL))[
        1
    ]


def _number(value: object, otherwise: int) -> int:
    """Return a number of a group's settings; what is none there counts as not said."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
