"""Looking at messages: by key, by place in the log, and raw queue entries.

Place in the flow: router ─▶ here ─▶ store. Keys are filed by hash, so an answer may hold others'
messages: clients check each. Codes 12, 33, 321. Reference: QueryMessageProcessor and
AdminBrokerProcessor of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from roquet.broker.core.expressions import TAG, Expressions
from roquet.broker.core.sessions import Sessions
from roquet.model.group import Subscription
from roquet.store.format.queue_entry import QueueEntry
from roquet.store.format.queue_ext import Unit, is_address
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

MayMatch = Callable[[Unit], bool]
"""Says whether a group may want a message, by its unit in the queue's extension."""


class QueryHandlers:
    """Answers queries for single messages."""

    def __init__(self, store: Store, sessions: Sessions, expressions: Mapping[str, Expressions]) -> None:
        self._store = store
        self._sessions = sessions
        self._expressions = expressions

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
        entries = await self._store.queue_units(topic, queue_id, request.index, count)
        subscription, filter_text, match = self._subscription(request.consumer_group, topic)
        body = admin.QueueWalk(
            filter_data=filter_text,
            max_queue_index=high,
            min_queue_index=low,
            queue_data=[_line(entry, unit, match) for entry, unit in entries],
            subscription_data=subscription,
        )
        return Reply(body=admin.encode(body))

    def _subscription(
        self, group: str | None, topic: str
    ) -> tuple[Subscription | None, str | None, MayMatch | None]:
        """Return what a group subscribes, what is kept of its selector, and what both say of a unit."""
        if group is None:
            return None, None, None
        live = self._sessions.consumers.get(group)
        found = live.subscriptions.get(topic) if live is not None else None
        if found is None:
            return None, f"{group}@{topic} is not online!", None
        kept = [expressions.noted(topic, group) for expressions in self._expressions.values()]
        # Apache writes the word null where there is none.
        text, noted = next(filter(None, kept), ("null", None))
        kind, every, codes = found.expression_type or TAG, found.sub_string == "*", found.code_set

        def may_match(unit: Unit) -> bool:
            if kind == TAG:
                return every or unit.tag_code in codes
            return noted is None or noted.may_want(unit.store_ms, unit.bits)

        return found, text, may_match


def _line(entry: QueueEntry, unit: Unit | None, may_match: MayMatch | None) -> admin.QueueEntryLine:
    """Return an entry as Apache shows it."""
    if unit is None:
        msg = f"Cq extend not exist!addr: {entry.tag_code}" if is_address(entry.tag_code) else msgspec.UNSET
        return admin.QueueEntryLine(
            msg=msg, physic_offset=entry.log_offset, physic_size=entry.size_bytes, tags_code=entry.tag_code
        )
    shown = {"msgStoreTime": unit.store_ms, "size": unit.size_bytes, "tagsCode": unit.tag_code}
    signed = {"filterBitMap": [(byte ^ 0x80) - 0x80 for byte in unit.bits]} if unit.bits else {}
    return admin.QueueEntryLine(
        bit_map=_bit_text(unit.bits) if unit.bits else msgspec.UNSET,
        eval=may_match is not None and may_match(unit),
        extend_data_json=msgspec.json.encode(signed | shown).decode(),
        physic_offset=entry.log_offset,
        physic_size=entry.size_bytes,
        tags_code=unit.tag_code,
    )


def _bit_text(bits: bytes) -> str:
    """Return the bits from the highest to the lowest, in lines that end with each eighth byte."""
    return "".join(f"{bits[at]:08b}" + ("\n" if at % 8 == 0 else "") for at in reversed(range(len(bits))))
