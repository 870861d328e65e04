"""How far behind the end of the log each group read a queue last, in bytes.

Place in the flow: pulls note it while `disableConsumeIfConsumerReadSlowly` is set, the feature `slow` looks
at it now and then. A group at the end of its queue is not behind. Pure. Reference: the fall size of
BrokerStatsManager, Apache 5.5.0.
"""

from __future__ import annotations

from typing import Final

QUEUES_MAX: Final = 100_000
"""Queues of groups remembered at most; the one noted first makes room."""


class Lags:
    """The last read of each queue by each group."""

    __slots__ = ("_behind",)

    def __init__(self) -> None:
        self._behind: dict[tuple[str, str, int], int] = {}

    def note(self, group: str, topic: str, queue_id: int, behind_bytes: int) -> None:
        """Take what a read found."""
        if len(self._behind) >= QUEUES_MAX and (group, topic, queue_id) not in self._behind:
            del self._behind[next(iter(self._behind))]
        self._behind[group, topic, queue_id] = behind_bytes

    def over(self, bytes_max: int) -> dict[str, int]:
        """Return the groups that were further behind on some queue, with how far the worst was."""
        found: dict[str, int] = {}
        for (group, _, _), behind_bytes in self._behind.items():
            if behind_bytes > max(bytes_max, found.get(group, 0)):
                found[group] = behind_bytes
        return found

    def forget(self, group: str) -> None:
        """Know nothing of a group until it reads again."""
        self._behind = {key: value for key, value in self._behind.items() if key[0] != group}
