"""How far groups are: bounds of queues, positions, lag, and the time that positions stand for.

Place in the flow: router ─▶ here ─▶ offsets (what groups said) and store (what there is); nothing is
changed. A position that was never committed counts as 0, a time that is not known as −1. Codes 202, 208,
317, 303, 308, 343, 43. Reference: AdminBrokerProcessor of Apache 5.5.0; where that deletes offsets while
it compares them (308 with filterGroups) or leaves the pull position out (317), we do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.runtime_info import LocalTime
from roquet.broker.core.sessions import Sessions
from roquet.broker.core.stats import Stats
from roquet.broker.core.topics import Topics
from roquet.broker.handlers.checks import find_topic
from roquet.model.route import QueueName
from roquet.ports import Clock
from roquet.store.store import Store
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.reply import Outcome, Reply
from roquet.wire.requests.groups import QueryTopicsOfGroup
from roquet.wire.requests.offsets import (
    GetAllOffsets,
    GetBrokerConsumeStats,
    GetConsumeStats,
    QueryCorrection,
    QueryTimeSpan,
)
from roquet.wire.requests.topics import GetTopicStats
from roquet.wire.row import Header

NO_TIME_MS: Final = -1
"""How the protocol says that there is no such time."""

BEHIND_ALL: Final = 2**63 - 1
"""How 308 says that the compared group is behind the others."""


class ProgressHandlers:
    """Answers how far groups are."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        sessions: Sessions,
        stats: Stats,
        store: Store,
        clock: Clock,
        local_time: LocalTime,
        address: str,
    ) -> None:
        """`address` is how clients reach this broker, as host:port."""
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._sessions = sessions
        self._stats = stats
        self._store = store
        self._clock = clock
        self._local_time = local_time
        self._address = address

    def routes(self) -> dict[type[Header], Handler]:
        return {
            GetTopicStats: self.get_topic_stats,
            GetConsumeStats: self.get_consume_stats,
            GetBrokerConsumeStats: self.get_broker_consume_stats,
            QueryTimeSpan: self.query_time_span,
            QueryCorrection: self.query_correction,
            QueryTopicsOfGroup: self.query_topics,
            GetAllOffsets: self.get_all_offsets,
        }

    async def get_topic_stats(self, request: GetTopicStats, call: Call) -> Outcome:
        """Show the bounds of every queue of a topic and when it last got a message."""
        topic = find_topic(self._topics, request.topic)
        bounds: dict[QueueName, object] = {}
        for queue_id in range(max(topic.read_queue_nums, topic.write_queue_nums)):
            low = self._store.min_offset(topic.topic_name, queue_id)
            high = self._store.max_offset(topic.topic_name, queue_id)
            last_ms = await self._time_at(topic.topic_name, queue_id, high - 1) if high > 0 else 0
            bounds[self._queue(topic.topic_name, queue_id)] = admin.QueueBounds(
                last_update_timestamp=last_ms, max_offset=high, min_offset=low
            )
        tps = self._stats.put_tps(topic.topic_name)
        return Reply(body=admin.encode({"offsetTable": admin.by_queue(bounds), "topicPutTps": tps}))

    async def get_consume_stats(self, request: GetConsumeStats, call: Call) -> Outcome:
        """Show a group's progress; an unknown group has none."""
        group = request.consumer_group
        listed = [topic for topic in (request.topic_list or "").split(";") if topic]
        one = [request.topic] if request.topic and request.topic.strip() else None
        topics = listed or self._subscribed(group, one or self._offsets.topics_of(group))
        progress: dict[QueueName, admin.Progress] = {}
        tps = 0.0
        for name in dict.fromkeys(topics):
            topic = self._topics.get(name)
            if topic is not None:
                progress |= await self._progress(group, name, topic.read_queue_nums)
                tps += self._stats.get_tps(name, group)
        body = admin.ConsumeStats(consume_tps=tps, offset_table=admin.by_queue(progress))
        return Reply(body=admin.encode(body))

    async def get_broker_consume_stats(self, request: GetBrokerConsumeStats, call: Call) -> Outcome:
        """Show the progress of all groups, topic by topic."""
        listed: list[dict[str, list[admin.ConsumeStats]]] = []
        lag = in_flight = 0
        topics_by_group: dict[str, list[str]] = {}
        for key in self._offsets.committed:
            name, _, group = key.partition("@")
            topics_by_group.setdefault(group, []).append(name)
        for group in list(self._groups.table):
            of_group: list[admin.ConsumeStats] = []
            for name in self._subscribed(group, topics_by_group.get(group, ())):
                topic = self._topics.get(name)
                if topic is None or (request.is_order and not topic.order):
                    continue
                progress = await self._progress(group, name, topic.write_queue_nums)
                lag += sum(each.broker_offset - each.consumer_offset for each in progress.values())
                in_flight += sum(each.pull_offset - each.consumer_offset for each in progress.values())
                of_group.append(
                    admin.ConsumeStats(
                        consume_tps=self._stats.get_tps(name, group), offset_table=admin.by_queue(progress)
                    )
                )
            listed.append({group: of_group})
        body = admin.BrokerConsumeStats(
            broker_addr=self._address,
            consume_stats_list=listed,
            total_diff=lag,
            total_inflight_diff=in_flight,
        )
        return Reply(body=admin.encode(body))

    async def query_time_span(self, request: QueryTimeSpan, call: Call) -> Outcome:
        """Show first, last and consumed time of every queue, and how late the group is."""
        topic = find_topic(self._topics, request.topic)
        spans = [
            await self._time_span(request.group, topic.topic_name, queue_id)
            for queue_id in range(topic.write_queue_nums)
        ]
        return Reply(body=admin.encode({"consumeTimeSpanSet": spans}))

    async def _time_span(self, group: str, topic: str, queue_id: int) -> admin.TimeSpan:
        earliest_ms = await self._store.earliest_store_time(topic, queue_id)
        first_ms = NO_TIME_MS if earliest_ms is None else earliest_ms
        high = self._store.max_offset(topic, queue_id)
        last_ms = await self._time_at(topic, queue_id, high - 1)
        position = self._offsets.query(group, topic, queue_id) or 0
        consumed_ms = await self._time_at(topic, queue_id, position - 1) if position > 0 else first_ms
        next_ms = await self._time_at(topic, queue_id, position) if position < high else NO_TIME_MS
        return admin.TimeSpan(
            consume_time_stamp=consumed_ms,
            consume_time_stamp_str=self._time_text(consumed_ms),
            delay_time=self._clock.now_ms() - next_ms if next_ms != NO_TIME_MS else 0,
            max_time_stamp=last_ms,
            max_time_stamp_str=self._time_text(last_ms),
            message_queue=admin.queue_value(self._queue(topic, queue_id)),
            min_time_stamp=first_ms,
            min_time_stamp_str=self._time_text(first_ms),
        )

    def query_correction(self, request: QueryCorrection, call: Call) -> Outcome:
        """Show, by queue, the lowest position of the other groups that is still in the queue.

        A queue in which the compared group is behind that position is marked with the largest number.
        """
        topic = request.topic
        left_out = set((request.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for group in self._offsets.groups_of(topic):
            if group in left_out:
                continue
            for queue_id, position in self._offsets.committed[f"{topic}@{group}"].items():
                if position >= self._store.min_offset(topic, queue_id):
                    lowest[queue_id] = min(lowest.get(queue_id, position), position)
        compared = self._offsets.committed.get(f"{topic}@{request.compare_group}", {})
        for queue_id, position in compared.items():
            if lowest.get(queue_id, position) > position:
                lowest[queue_id] = BEHIND_ALL
        return Reply(body=admin.encode({"correctionOffsets": admin.by_number(dict(sorted(lowest.items())))}))

    def query_topics(self, request: QueryTopicsOfGroup, call: Call) -> Outcome:
        topics = sorted(self._offsets.topics_of(request.group))
        return Reply(body=admin.encode({"brokerAddr": self._address, "topicList": topics}))

    def get_all_offsets(self, request: GetAllOffsets, call: Call) -> Outcome:
        return Reply(body=admin.encode_offsets(self._offsets.dump()))

    def _subscribed(self, group: str, topics: Iterable[str]) -> list[str]:
        """Return the topics without those that a live group no longer subscribes."""
        live = self._sessions.consumers.get(group)
        if live is None or not live.subscriptions:
            return list(topics)
        return [name for name in topics if name in live.subscriptions]

    async def _progress(self, group: str, topic: str, queues: int) -> dict[QueueName, admin.Progress]:
        found: dict[QueueName, admin.Progress] = {}
        for queue_id in range(queues):
            position = max(self._offsets.query(group, topic, queue_id) or 0, 0)
            pulled = self._offsets.query_pulled(group, topic, queue_id) or 0
            last_ms = await self._time_at(topic, queue_id, position - 1) if position > 0 else 0
            found[self._queue(topic, queue_id)] = admin.Progress(
                broker_offset=self._store.max_offset(topic, queue_id),
                consumer_offset=position,
                last_timestamp=max(last_ms, 0),
                pull_offset=max(position, pulled),
            )
        return found

    async def _time_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        stored_ms = await self._store.store_time(topic, queue_id, queue_offset)
        return NO_TIME_MS if stored_ms is None else stored_ms

    def _time_text(self, ms: int) -> str:
        return f"{self._local_time(ms):%Y-%m-%d#%H:%M:%S}:{ms % 1000:03d}"

    def _queue(self, topic: str, queue_id: int) -> QueueName:
        return QueueName(self._topics.identity.broker_name, queue_id, topic)
