"""Cleaning that an operator orders now instead of waiting for the hour: 306 and 329.

Place in the flow: router ─▶ here ─▶ the store's own retention, with the same rules as by the clock.
Apache's 306 also empties queues of living topics, which then count from 0 again while their groups stand
further on and would miss what comes: we keep those.
"""

from __future__ import annotations

from roquet.broker.core.topics import Topics
from roquet.store.store import Store
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.reply import OK, Outcome
from roquet.wire.requests.topics import CleanQueues, DeleteExpiredLog
from roquet.wire.row import Header


class UpkeepHandlers:
    """Answers orders to clean the store."""

    def __init__(self, topics: Topics, store: Store) -> None:
        self._topics = topics
        self._store = store

    def routes(self) -> dict[type[Header], Handler]:
        return {CleanQueues: self.clean_queues, DeleteExpiredLog: self.delete_expired_log}

    async def clean_queues(self, request: CleanQueues, call: Call) -> Outcome:
        """Remove queues of gone topics that point before the oldest log file."""
        await self._store.clean_expired_queues(self._is_kept)
        return OK

    def _is_kept(self, topic: str) -> bool:
        return self._topics.get(topic) is not None or self._topics.is_own(topic)

    async def delete_expired_log(self, request: DeleteExpiredLog, call: Call) -> Outcome:
        """Remove log files that are past their time, whatever the hour."""
        await self._store.delete_expired_log()
        return OK
