"""Clients come, stay and leave: heartbeats, unregistering, members of a group, their shares of queues.

    heartbeat ─▶ sessions.join ─▶ group changed? ─▶ notify (40, one-way) to every member
    close, silence, unregister ─▶ sessions.leave ─▶ the same

A first heartbeat of a group also creates its settings and its retry topic. Compatibility:
ClientManageProcessor and ConsumerManageProcessor of Apache 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import msgspec

from roquet.broker.core.expressions import TAG, Expressions
from roquet.broker.core.groups import Groups
from roquet.broker.core.sessions import ConsumerData, Sessions
from roquet.broker.core.topics import Topics
from roquet.model import names
from roquet.ports import Clock
from roquet.transport.link import Call, Link
from roquet.transport.router import Handler
from roquet.wire.bodies import loose_json
from roquet.wire.bodies.heartbeat import ConsumerBeat, HeartbeatBody, read_heartbeat
from roquet.wire.codes import LANGUAGES, Code
from roquet.wire.reply import OK, Outcome, Refusal, Reply
from roquet.wire.requests.client import (
    CheckClientConfig,
    GetConsumerList,
    Heartbeat,
    HeartbeatSeen,
    NotifyConsumersChanged,
    UnregisterClient,
)
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker")


class ClientHandlers:
    """Answers 34, 35, 38 and 46, and notifies the members of groups that changed."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        sessions: Sessions,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        expressions: Mapping[str, Expressions],
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._sessions = sessions
        self._clock = clock
        self._call_soon = call_soon
        self._expressions = expressions
        self._to_notify: dict[str, None] = {}
        self.notify_enabled = True

    def routes(self) -> dict[type[Header], Handler]:
        return {
            Heartbeat: self.heartbeat,
            UnregisterClient: self.unregister,
            GetConsumerList: self.consumer_list,
            CheckClientConfig: self.check_config,
        }

    def heartbeat(self, request: Heartbeat, call: Call) -> Outcome:
        """Take a client's groups and subscriptions as they are now."""
        try:
            beat = read_heartbeat(call.frame.body)
        except ValueError as error:
            raise Refusal(Code.SYSTEM_ERROR, f"the body is not a heartbeat: {error}") from None
        if not beat.client_id:
            raise Refusal(Code.SYSTEM_ERROR, "the heartbeat has no clientID")
        known = self._join_consumers(beat, call)
        self._join_producers(beat, call)
        return Reply(header=HeartbeatSeen(True, not beat.heartbeat_fingerprint or not known))

    def _join_consumers(self, beat: HeartbeatBody, call: Call) -> bool:
        """Join every consumer group of a heartbeat; returns whether all were known before."""
        known = True
        for consumer in beat.consumer_data_set:
            fault = names.group_fault(consumer.group_name)
            if fault:
                raise Refusal(Code.INVALID_PARAMETER, fault)
            if beat.without_sub:
                live = self._sessions.consumers.get(consumer.group_name)
                member = None if live is None else live.members.get(call.link)
                if member is None:
                    known = False
                else:
                    member.last_seen = self._clock.monotonic()
                continue
            if self._join_consumer(consumer, beat.client_id, call):
                known = False
                self._group_changed(consumer.group_name)
        return known

    def _join_consumer(self, consumer: ConsumerBeat, client_id: str, call: Call) -> bool:
        group = self._groups.find(consumer.group_name)
        if group is None:
            log.info("heartbeat of %s for group %s, which does not exist", client_id, consumer.group_name)
            return False
        self._topics.create(
            f"{names.RETRY_PREFIX}{group.group_name}", group.retry_queue_nums, consumer.unit_mode
        )
        data = ConsumerData(
            consumer.group_name,
            consumer.consume_type,
            consumer.message_model,
            consumer.consume_from_where,
            tuple(
                subscription
                for subscription in consumer.subscription_data_set
                if not names.topic_fault(subscription.topic)
            ),
            consumer.unit_mode,
        )
        frame = call.frame
        return self._sessions.join_consumer(
            data, call.link, client_id, LANGUAGES[frame.language], frame.version, self._clock.monotonic()
        )

    def _join_producers(self, beat: HeartbeatBody, call: Call) -> None:
        frame = call.frame
        for producer in beat.producer_data_set:
            fault = names.group_fault(producer.group_name)
            if fault:
                raise Refusal(Code.INVALID_PARAMETER, fault)
            self._sessions.join_producer(
                producer.group_name,
                call.link,
                beat.client_id,
                LANGUAGES[frame.language],
                frame.version,
                self._clock.monotonic(),
            )

    def unregister(self, request: UnregisterClient, call: Call) -> Outcome:
        """Let a client leave its groups at once."""
        if request.producer_group:
            self._sessions.leave_producer(request.producer_group, call.link)
        if request.consumer_group and self._sessions.leave_consumer(request.consumer_group, call.link):
            self._group_changed(request.consumer_group)
        return OK

    def consumer_list(self, request: GetConsumerList, call: Call) -> Outcome:
        """Name the members of a group."""
        client_ids = self._sessions.client_ids(request.consumer_group)
        if not client_ids:
            remark = f"no consumer for this group, {request.consumer_group[:200]}"
            raise Refusal(Code.SYSTEM_ERROR, remark)
        return Reply(body=msgspec.json.encode({"consumerIdList": client_ids}))

    def check_config(self, request: CheckClientConfig, call: Call) -> Outcome:
        """Say whether a subscription is understood: tags are, others where a feature knows their type."""
        try:
            body = loose_json.loads(call.frame.body)
        except ValueError as error:
            raise Refusal(Code.SYSTEM_ERROR, f"the body is not a client's configuration: {error}") from None
        subscription = body.get("subscriptionData") if isinstance(body, dict) else None
        if not isinstance(subscription, dict):
            return OK
        kind = subscription.get("expressionType") or TAG
        if kind != TAG:
            expressions = self._expressions.get(str(kind))
            if expressions is None:
                remark = f"The broker does not support consumer to filter message by {str(kind)[:80]}"
                raise Refusal(Code.SYSTEM_ERROR, remark)
            expressions.check(str(subscription.get("subString") or ""))
        return OK

    def link_closed(self, link: Link) -> None:
        """Let whoever was behind a connection leave all its groups."""
        for group in self._sessions.leave_all(link):
            self._group_changed(group)

    def drop_silent(self, seconds_max: float) -> None:
        """Close the connections whose heartbeats have stayed away."""
        for channel in self._sessions.silent(self._clock.monotonic(), seconds_max):
            log.warning("closing %s:%d: no heartbeat for %d s", *channel.peer, seconds_max)
            assert isinstance(channel, Link)
            self.link_closed(channel)
            channel.close()

    def _group_changed(self, group: str) -> None:
        """Notify the group's members once, at the end of this turn of the loop."""
        if not self._to_notify:
            self._call_soon(self._notify)
        self._to_notify[group] = None

    def _notify(self) -> None:
        groups, self._to_notify = self._to_notify, {}
        for name in groups:
            group = self._sessions.consumers.get(name)
            settings = self._groups.get(name)
            wanted = settings is None or settings.notify_consumer_ids_changed_enable
            if group is None or group.is_broadcast or not wanted or not self.notify_enabled:
                continue
            for channel in list(group.members):
                assert isinstance(channel, Link)
                channel.send_one_way(NotifyConsumersChanged(name))
