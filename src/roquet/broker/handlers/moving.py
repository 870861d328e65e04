"""Moving a group by order of an administrator: to a time, to an offset, or to another group's place.

Place in the flow: router ─▶ here ─▶ `Offsets.order_reset`; the next pull of each queue is sent to the new
place, commits that are still under way are ignored until then, and members are told nothing. With
useServerSideResetOffset=false it is the old way round: every member is told (220, one-way), moves by itself
and commits. Codes 222, 314. Reference: AdminBrokerProcessor and Broker2Client of Apache 5.5.0.
"""

from __future__ import annotations

from typing import Final

from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.sessions import ConsumerGroup, Sessions
from roquet.broker.core.topics import Topics
from roquet.broker.handlers.checks import check_group_name
from roquet.model.route import QueueName
from roquet.model.status import Boundary
from roquet.model.topic import Topic
from roquet.store.store import Store
from roquet.transport.link import Call, Link
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.codes import LANGUAGES, Code
from roquet.wire.reply import OK, Outcome, Refusal, Reply
from roquet.wire.requests.client import ResetClientOffset
from roquet.wire.requests.offsets import CloneOffset, ResetOffset
from roquet.wire.row import Header

VERSION_KNOWS_RESET: Final = 28
"""3.0.7-SNAPSHOT: older consumers cannot be told to move."""

CPP: Final = "CPP"


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
        self.is_server_side = True

    def routes(self) -> dict[type[Header], Handler]:
        return {ResetOffset: self.reset_offset, CloneOffset: self.clone_offset}

    async def reset_offset(self, request: ResetOffset, call: Call) -> Outcome:
        """Move a group on all queues of a topic or on one, and say where it is now."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refusal(Code.TOPIC_NOT_EXIST, f"Topic {request.topic[:255]} does not exist")
        if not self.is_server_side:
            return await self._tell_members(request, call, topic)
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

    async def _tell_members(self, request: ResetOffset, call: Call, topic: Topic) -> Outcome:
        """Send every member of a group where it shall go on; without force nobody goes forward."""
        places: dict[QueueName, int] = {}
        for queue_id in range(topic.write_queue_nums):
            committed = self._offsets.query(request.group, topic.topic_name, queue_id)
            if committed is None:
                remark = (
                    f"The consumer group <{request.group[:255]}> not exist: no offset in queue {queue_id}"
                )
                raise Refusal(Code.SYSTEM_ERROR, remark)
            place = await self._place(request, queue_id, False)
            name = QueueName(self._topics.identity.broker_name, queue_id, topic.topic_name)
            places[name] = place if request.is_force else min(place, committed)
        live = self._sessions.consumers.get(request.group)
        if live is None:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {request.group[:255]} "
                f"Topic: {topic.topic_name} Timestamp: {request.timestamp}"
            )
            raise Refusal(Code.CONSUMER_NOT_ONLINE, remark)
        self._push(live, request, places, LANGUAGES[call.frame.language])
        return Reply(body=admin.encode_offset_table(places))

    def _push(
        self, live: ConsumerGroup, request: ResetOffset, places: dict[QueueName, int], language: str
    ) -> None:
        for member in live.members.values():
            if member.version < VERSION_KNOWS_RESET:
                remark = f"the client does not support this feature. version={member.version}"
                raise Refusal(Code.SYSTEM_ERROR, remark)
        order = ResetClientOffset(request.topic, request.group, request.timestamp, request.is_force)
        body, list_body = admin.encode_offset_table(places), admin.encode_offset_list(places)
        for member in live.members.values():
            assert isinstance(member.channel, Link)
            # C++ reads a list instead of a map with objects as keys; tools say so by their own language.
            is_list = CPP in (language, member.language)
            member.channel.send_one_way(order, list_body if is_list else body)

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
