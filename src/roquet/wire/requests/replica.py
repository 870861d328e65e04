"""What a follower copies from its master besides the log; each answer is a body."""

from __future__ import annotations

from roquet.wire.row import Header, request


@request(45, "GET_ALL_DELAY_OFFSET", to="broker", touches=("cluster", "get"), admin=True)
class GetDelayOffsets(Header):
    """Give up to where each delay level is delivered."""
