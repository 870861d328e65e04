"""What a follower copies from its master besides the log; each answer is a body."""

from __future__ import annotations

from roquet.wire.row import Header, request


@request(45, "GET_ALL_DELAY_OFFSET", to="broker", touches=("cluster", "get"), admin=True)
class GetDelayOffsets(Header):
    """Give up to where each delay level is delivered."""


@request(60, "GET_TIMER_CHECK_POINT", to="broker", touches=("cluster", "get"), admin=True)
class GetTimerCheck(Header):
    """Give how far the timer is: the 56 bytes that its checkpoint begins with."""


@request(61, "GET_TIMER_METRICS", to="broker", touches=("cluster", "get"), admin=True)
class GetTimerMetrics(Header):
    """Give how many timed messages of each topic wait."""
