"""Looking at messages: by key, by place in the log, and raw queue entries.

Place in the flow: router ─▶ here ─▶ store. Keys are filed by hash, so an answer may hold others'
messages: clients check each. Codes 12, 33, 321. Reference: QueryMessageProcessor and
AdminBrokerProcessor of Apache 5.5.0.
"""

from __future__ import annotations

from typing import Final

from roquet.broker.core.sessions import Sessions
from roquet.model.group import Subscription
from roquet.store.store import Store
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.codes import Code
from roquet.wire.reply import Outcome, Refusal, Reply
from roquet.wire.requests.query import Queried, QueryMessage, QueryQueue, ViewMessage
from roquet.wire.row import Header

UNIQUE_QUERY_COUNT: Final = 32
"""What a query by unique key gets at most, whatever it asks for."""

ENTRIES_MAX: Final = 10_000
"""Queue entries shown at most: about 1 MB of answer."""


class QueryHandlers:
    """Answers queries for single messages."""

    def __init__(self, store: Store, sessions: Sessions) -> None:
        self._store = store
        self._sessions = sessions

    def routes(self) -> dict[type[Header], Handler]:
        return {
            QueryMessage: self.query_message,
            ViewMessage: self.view_message,
            QueryQueue: self.query_queue,
        }

    async def query_message(self, request: QueryMessage, call: Call) -> Outcome:
        """Find messages by a key and a span of time."""
        count = UNIQUE_QUERY_COUNT if request.unique_key else request.max_num
        found = await self._store.query(
            request.topic, request.key, max(count, 0), request.begin_timestamp, request.end_timestamp
        )
        header = Queried(found.index_last_ms, found.index_last_log_offset)
        if not found.records:
            remark = "can not find message, maybe time range not correct"
            raise Refusal(Code.QUERY_NOT_FOUND, remark, header)
        return Reply(header=header, body=found.records)

    async def view_message(self, request: ViewMessage, call: Call) -> Outcome:
        """Give the record that begins at a place of the log."""
        record = await self._store.record_at(request.offset)
        if record is None:
            raise Refusal(Code.SYSTEM_ERROR, f"can not find message by the offset, {request.offset}")
        return Reply(body=record)

    async def query_queue(self, request: QueryQueue, call: Call) -> Outcome:
        """Show raw entries of a queue, and what a group subscribes of it."""
        topic, queue_id = request.topic, request.queue_id
        if queue_id not in self._store.queues_of(topic):
            raise Refusal(Code.SYSTEM_ERROR, f"{queue_id}@{topic[:255]} is not exist!")
        low, high = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        if not low <= request.index < high:
            return Reply(remark=f"Index {request.index} of {queue_id}@{topic} is not exist!")
        count = min(max(request.count, 0), ENTRIES_MAX)
        entries = await self._store.queue_entries(topic, queue_id, request.index, count)
        subscription, filter_text = self._subscription(request.consumer_group, topic)
        body = admin.QueueWalk(
            filter_data=filter_text,
            max_queue_index=high,
            min_queue_index=low,
            queue_data=[
                admin.QueueEntryLine(
                    physic_offset=entry.log_offset, physic_size=entry.size_bytes, tags_code=entry.tag_code
                )
                for entry in entries
            ],
            subscription_data=subscription,
        )
        return Reply(body=admin.encode(body))

    def _subscription(self, group: str | None, topic: str) -> tuple[Subscription | None, str | None]:
        if group is None:
            return None, None
        live = self._sessions.consumers.get(group)
        found = live.subscriptions.get(topic) if live is not None else None
        if found is None:
            return None, f"{group}@{topic} is not online!"
        # Compiled filters are not shown: Apache writes the word null where there is none.
        return found, "null"
