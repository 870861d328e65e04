"""Moving a group by order of an administrator: to a time, to an offset, or to another group's place.

Place in the flow: router ─▶ here ─▶ `Offsets.order_reset`; the next pull of each queue is sent to the new
place, commits that are still under way are ignored until then. Members are told nothing (Apache's
useServerSideResetOffset, its default). Codes 222, 314. Reference: AdminBrokerProcessor of Apache 5.5.0.
"""

from __future__ import annotations

from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.sessions import Sessions
from roquet.broker.core.topics import Topics
from roquet.broker.handlers.checks import check_group_name
from roquet.model.route import QueueName
from roquet.model.status import Boundary
from roquet.store.store import Store
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Outcome, Refusal, Reply
from roquet.wire.requests.offsets import CloneOffset, ResetOffset
from roquet.wire.row import Header


class MovingHandlers:
    """Answers orders to move groups."""

    def __init__(
        self, topics: Topics, groups: Groups, offsets: Offsets, sessions: Sessions, store: Store
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._sessions = sessions
        self._store = store

    def routes(self) -> dict[type[Header], Handler]:
        return {ResetOffset: self.reset_offset, CloneOffset: self.clone_offset}

    async def reset_offset(self, request: ResetOffset, call: Call) -> Outcome:
        """Move a group on all queues of a topic or on one, and say where it is now."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refusal(Code.TOPIC_NOT_EXIST, f"Topic {request.topic[:255]} does not exist")
        if self._groups.get(request.group) is None:
            remark = f"Group {request.group[:255]} does not exist"
            raise Refusal(Code.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        queue_id = -1 if request.queue_id is None else request.queue_id
        if queue_id < 0:
            queues = range(topic.read_queue_nums)
        elif queue_id < topic.read_queue_nums:
            queues = range(queue_id, queue_id + 1)
        else:
            queues = range(0)
        if not queues:
            remark = f"No queues to reset. Topic {topic.topic_name} has {topic.read_queue_nums} read queues"
            raise Refusal(Code.SYSTEM_ERROR, remark)
        places = {each: await self._place(request, each, queue_id >= 0) for each in queues}
        for each, queue_offset in places.items():
            self._offsets.order_reset(request.group, topic.topic_name, each, queue_offset)
        broker_name = self._topics.identity.broker_name
        moved = {QueueName(broker_name, each, topic.topic_name): at for each, at in places.items()}
        return Reply(body=admin.encode_offset_table(moved))

    async def _place(self, request: ResetOffset, queue_id: int, is_single: bool) -> int:
        """Return the offset that a reset wants; an explicit one counts only for a single queue."""
        high = self._store.max_offset(request.topic, queue_id)
        if is_single and request.offset is not None and request.offset != -1:
            low = self._store.min_offset(request.topic, queue_id)
            if not low <= request.offset <= high:
                remark = f"Target offset {request.offset} not in consume queue range [{low}-{high}]"
                raise Refusal(Code.SYSTEM_ERROR, remark)
            return request.offset
        if request.timestamp < 0:
            return high
        found = await self._store.offset_by_time(request.topic, queue_id, request.timestamp, Boundary.LOWER)
        return max(found, 0)

    def clone_offset(self, request: CloneOffset, call: Call) -> Outcome:
        """Give a group the positions of another on one topic or on all that the other has."""
        check_group_name(request.dest_group)
        source = request.src_group
        topics = [request.topic] if request.topic else self._offsets.topics_of(source)
        live = self._sessions.consumers.get(source)
        for topic in topics:
            skipped = live is not None and live.subscriptions and topic not in live.subscriptions
            if self._topics.get(topic) is not None and (request.offline or not skipped):
                self._offsets.copy(source, request.dest_group, topic)
        return OK
