"""Administration of topics: create, change, list, delete, and name their groups.

Place in the flow: router ─▶ here ─▶ the table of topics, which saves and registers each change before
the answer goes out. Deleting a topic takes its queues, its groups' offsets and its pop retry topics with
it. Codes 17, 18, 21, 351, 215, 300, 305, 316. Reference: AdminBrokerProcessor of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec

from roquet.broker.core.attributes import change_attributes
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.sessions import Sessions
from roquet.broker.core.stats import Stats
from roquet.broker.core.topics import Topics
from roquet.broker.handlers.checks import check_not_own, check_topic_name, read_body
from roquet.broker.handlers.pages import page_of
from roquet.model import names
from roquet.model.topic import Perm, Topic
from roquet.store.store import Store
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Outcome, Refusal, Reply
from roquet.wire.requests.topics import (
    CleanTopics,
    DeleteTopic,
    GetAllTopics,
    GetSystemTopics,
    GetTopic,
    QueryGroupsOfTopic,
    TopicPage,
    UpdateTopic,
    UpdateTopics,
)
from roquet.wire.row import Header

QUEUES_MAX: Final = 16_384
"""Queues of one topic. Apache has no limit; each queue is a folder, and no group consumes more."""

PERM_MAX: Final = int(Perm.READ | Perm.WRITE | Perm.INHERIT)
FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


class TopicHandlers:
    """Answers what administrators ask about topics."""

    def __init__(
        self,
        topics: Topics,
        offsets: Offsets,
        sessions: Sessions,
        stats: Stats,
        store: Store,
        registered: Callable[[], Awaitable[None]],
    ) -> None:
        """`registered` returns when the name servers know the table as it is."""
        self._topics = topics
        self._offsets = offsets
        self._sessions = sessions
        self._stats = stats
        self._store = store
        self._registered = registered
        self.allows_mixed = False

    def routes(self) -> dict[type[Header], Handler]:
        return {
            UpdateTopic: self.update_topic,
            UpdateTopics: self.update_topics,
            GetAllTopics: self.get_all_topics,
            GetTopic: self.get_topic,
            DeleteTopic: self.delete_topic,
            QueryGroupsOfTopic: self.query_groups,
            GetSystemTopics: self.get_system_topics,
            CleanTopics: self.clean_topics,
        }

    def update_topic(self, request: UpdateTopic, call: Call) -> Coroutine[Any, Any, Outcome]:
        """Create a topic or change its settings; equal settings change nothing."""
        wanted = Topic(
            order=request.order,
            perm=request.perm,
            read_queue_nums=request.read_queue_nums,
            topic_filter_type=request.topic_filter_type,
            topic_name=request.topic,
            topic_sys_flag=request.topic_sys_flag,
            write_queue_nums=request.write_queue_nums,
        )
        self._topics.put(self._checked(wanted, request.attributes or ""))
        return self._once_registered()

    def update_topics(self, request: UpdateTopics, call: Call) -> Coroutine[Any, Any, Outcome]:
        """Create or change several topics: all of them or, when one is wrong, none."""
        listed = read_body(call.frame.body, admin.TopicList).topic_config_list
        self._topics.put(*[self._checked(topic, _changes(topic)) for topic in listed])
        return self._once_registered()

    async def _once_registered(self) -> Outcome:
        """Answer when the name servers know of the change, which is in force here already."""
        await self._registered()
        return OK

    def _checked(self, wanted: Topic, changes: str) -> Topic:
        """Return a topic with its attributes worked in; refuses what a topic cannot be."""
        name = wanted.topic_name
        check_topic_name(name)
        check_not_own(self._topics, name)
        for label, count in (("read", wanted.read_queue_nums), ("write", wanted.write_queue_nums)):
            if not 0 <= count <= QUEUES_MAX:
                raise Refusal(
                    Code.INVALID_PARAMETER,
                    f"{count} {label} queues are not possible for topic[{name}]: use 0 to {QUEUES_MAX}",
                )
        if not 0 <= wanted.perm <= PERM_MAX:
            raise Refusal(
                Code.INVALID_PARAMETER,
                f"perm {wanted.perm} of topic[{name}] is not possible: use 2 (write), 4 (read) or 6 (both)",
            )
        if wanted.topic_filter_type not in FILTER_TYPES:
            raise Refusal(Code.INVALID_PARAMETER, f"topicFilterType must be one of {', '.join(FILTER_TYPES)}")
        known = self._topics.get(name)
        try:
            attributes = change_attributes(known.attributes if known is not None else {}, changes)
        except ValueError as error:
            raise Refusal(Code.SYSTEM_ERROR, str(error)) from None
        if attributes.get("message.type") == "MIXED" and not self.allows_mixed:
            raise Refusal(Code.INVALID_PARAMETER, "MIXED message type is not supported.")
        return msgspec.structs.replace(wanted, attributes=attributes)

    def get_all_topics(self, request: GetAllTopics, call: Call) -> Outcome:
        """Give all topics; a caller that knows pages gets one."""
        page = page_of(
            self._topics.table,
            self._topics.version,
            request.data_version,
            request.topic_seq,
            request.max_topic_num,
        )
        body = admin.TopicTable(data_version=self._topics.version, topic_config_table=page)
        return Reply(header=TopicPage(len(self._topics.table)), body=admin.encode(body))

    def get_topic(self, request: GetTopic, call: Call) -> Outcome:
        topic = self._topics.get(request.topic)
        if topic is None:
            remark = f"No topic in this broker. topic: {request.topic[:255]}"
            raise Refusal(Code.TOPIC_NOT_EXIST, remark)
        return Reply(body=admin.encode(topic))

    def delete_topic(self, request: DeleteTopic, call: Call) -> Outcome:
        """Forget a topic with all that hangs on it; an unknown one is fine."""
        topic = request.topic
        if self._topics.get(topic) is None:
            check_topic_name(topic)
        check_not_own(self._topics, topic)
        gone = [topic]
        for group in self._offsets.groups_of(topic):
            retries = (f"{names.RETRY_PREFIX}{group}_{topic}", f"{names.RETRY_PREFIX}{group}+{topic}")
            gone += [retry for retry in retries if self._topics.get(retry) is not None]
        self._topics.delete(*gone)
        for name in gone:
            self._offsets.forget_topic(name)
            self._store.delete_topic(name)
            self._stats.forget_topic(name)
        return OK

    def query_groups(self, request: QueryGroupsOfTopic, call: Call) -> Outcome:
        """Name who consumes a topic: live subscribers, and groups with offsets."""
        groups = {
            name for name, group in self._sessions.consumers.items() if request.topic in group.subscriptions
        }
        groups.update(self._offsets.groups_of(request.topic))
        return Reply(body=admin.encode({"groupList": sorted(groups)}))

    def get_system_topics(self, request: GetSystemTopics, call: Call) -> Outcome:
        own = names.SYSTEM_TOPICS | self._topics.own_names
        return Reply(body=admin.encode({"topicList": sorted(own)}))

    def clean_topics(self, request: CleanTopics, call: Call) -> Outcome:
        """Delete the queues of topics that have left the table, but never those of our own."""
        for topic in self._store.topics():
            if self._topics.get(topic) is None and not self._topics.is_own(topic):
                self._store.delete_topic(topic)
        return OK


def _changes(topic: Topic) -> str:
    """Return the attributes of a listed topic in the form of 17: `+a=b,-c`."""
    return ",".join(f"{key}={value}" if key[:1] == "+" else key for key, value in topic.attributes.items())
