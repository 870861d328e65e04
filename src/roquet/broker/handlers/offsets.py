"""Offsets as clients ask for them: a group's position, a queue's bounds, a point in time."""

from __future__ import annotations

from typing import Protocol

from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.topics import Topics
from roquet.model.status import Boundary
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Outcome, Refusal, Reply
from roquet.wire.requests.offsets import (
    GetEarliestTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetFound,
    QueryOffset,
    SearchOffset,
    TimestampFound,
    UpdateOffset,
)
from roquet.wire.row import Header


class Bounds(Protocol):
    """What offsets need of the store."""

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def check_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool: ...

    async def offset_by_time(self, topic: str, queue_id: int, ms: int, boundary: Boundary) -> int: ...

    async def earliest_store_time(self, topic: str, queue_id: int) -> int | None: ...


class OffsetHandlers:
    """Answers 14, 15, 29, 30, 31 and 32."""

    def __init__(self, topics: Topics, groups: Groups, offsets: Offsets, store: Bounds) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store

    def routes(self) -> dict[type[Header], Handler]:
        return {
            QueryOffset: self.query,
            UpdateOffset: self.update,
            SearchOffset: self.search,
            GetMaxOffset: self.max_offset,
            GetMinOffset: self.min_offset,
            GetEarliestTime: self.earliest_time,
        }

    def query(self, request: QueryOffset, call: Call) -> Outcome:
        """Tell a group's offset. A new group on a young queue starts at 0, unless told otherwise."""
        found = self._offsets.query(request.consumer_group, request.topic, request.queue_id)
        if found is not None and found >= 0:
            return Reply(header=OffsetFound(found))
        if request.set_zero_if_not_found is False:
            remark = "Not found, do not set to zero, maybe this group boot first"
            raise Refusal(Code.QUERY_NOT_FOUND, remark)
        min_offset = self._store.min_offset(request.topic, request.queue_id)
        if min_offset <= 0 and self._store.check_in_memory(request.topic, request.queue_id, 0):
            return Reply(header=OffsetFound(0))
        raise Refusal(Code.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def update(self, request: UpdateOffset, call: Call) -> Outcome:
        """Store a group's offset, for a group and a topic that exist."""
        if self._groups.find(request.consumer_group) is None:
            remark = f"Group {request.consumer_group[:200]} not exist!"
            raise Refusal(Code.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if self._topics.get(request.topic) is None:
            raise Refusal(Code.TOPIC_NOT_EXIST, f"Topic {request.topic[:200]} not exist!")
        self._offsets.commit(request.consumer_group, request.topic, request.queue_id, request.commit_offset)
        return OK

    def max_offset(self, request: GetMaxOffset, call: Call) -> Outcome:
        return Reply(header=OffsetFound(self._store.max_offset(request.topic, request.queue_id)))

    def min_offset(self, request: GetMinOffset, call: Call) -> Outcome:
        return Reply(header=OffsetFound(self._store.min_offset(request.topic, request.queue_id)))

    async def search(self, request: SearchOffset, call: Call) -> Outcome:
        upper = (request.boundary_type or "").upper() == "UPPER"
        boundary = Boundary.UPPER if upper else Boundary.LOWER
        found = await self._store.offset_by_time(request.topic, request.queue_id, request.timestamp, boundary)
        return Reply(header=OffsetFound(found))

    async def earliest_time(self, request: GetEarliestTime, call: Call) -> Outcome:
        """Tell the time of a queue's oldest message; the protocol's word for none is −1."""
        found = await self._store.earliest_store_time(request.topic, request.queue_id)
        return Reply(header=TimestampFound(-1 if found is None else found))
