"""Who is connected, and what live consumers say of themselves when asked.

    tool ──▶ broker ──▶ consumer's link ──▶ answer ──▶ broker ──▶ tool        (307, 309, 221)

Place in the flow: router ─▶ here ─▶ sessions and, for relayed questions, the member's own connection.
Knows nothing of what a member answers. Codes 203, 204, 328, 345, 223, 307, 309. Reference:
AdminBrokerProcessor and Broker2Client of Apache 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec

from roquet.broker.core.conflicts import conflicts_of
from roquet.broker.core.groups import Groups
from roquet.broker.core.sessions import ConsumerGroup, Member, Sessions
from roquet.broker.core.topics import Topics
from roquet.ports import Clock
from roquet.store.store import Store
from roquet.transport.link import Call, Link
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.codes import VERSION_BROKER_CALLS_CLIENT, Code
from roquet.wire.connection import TooManyWaiting
from roquet.wire.frame import Frame
from roquet.wire.reply import Outcome, Refusal, Reply
from roquet.wire.requests.client import (
    ConsumeDirectly,
    GetAllProducers,
    GetClientStatus,
    GetConsumerConnections,
    GetProducerConnections,
    GetRunningInfo,
)
from roquet.wire.requests.groups import QuerySubscription
from roquet.wire.requests.offsets import GetConsumerStatus
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker")

RELAY_SECONDS: Final = 10.0
"""How long a consumer may take to answer what was relayed to it."""

STATUS_SECONDS: Final = 5.0

VERSION_KNOWS_STATUS: Final = 28
"""3.0.7-SNAPSHOT: older consumers cannot be asked how far they are."""


class ConnectionHandlers:
    """Answers who is connected, and passes questions on."""

    def __init__(
        self, sessions: Sessions, topics: Topics, groups: Groups, store: Store, clock: Clock
    ) -> None:
        self._sessions = sessions
        self._topics = topics
        self._groups = groups
        self._store = store
        self._clock = clock

    def routes(self) -> dict[type[Header], Handler]:
        return {
            GetConsumerConnections: self.get_consumers,
            GetProducerConnections: self.get_producers,
            GetAllProducers: self.get_all_producers,
            QuerySubscription: self.query_subscription,
            GetConsumerStatus: self.get_consumer_status,
            GetRunningInfo: self.get_running_info,
            ConsumeDirectly: self.consume_directly,
        }

    def get_consumers(self, request: GetConsumerConnections, call: Call) -> Outcome:
        """Show the members of a consumer group, what it subscribes, and whether they agree on that."""
        group = self._sessions.consumers.get(request.consumer_group)
        if group is None:
            remark = f"the consumer group[{request.consumer_group[:255]}] not online"
            raise Refusal(Code.CONSUMER_NOT_ONLINE, remark)
        body = admin.ConsumerConnections(
            connection_set=[_connection(member) for member in group.members.values()],
            consume_from_where=group.consume_from,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_conflicts=_conflicts(group) or msgspec.UNSET,
            subscription_table=group.subscriptions,
        )
        return Reply(body=admin.encode(body))

    def get_producers(self, request: GetProducerConnections, call: Call) -> Outcome:
        members = self._sessions.producers.get(request.producer_group)
        if not members:
            remark = f"the producer group[{request.producer_group[:255]}] not exist"
            raise Refusal(Code.SYSTEM_ERROR, remark)
        connections = [_connection(member) for member in members.values()]
        return Reply(body=admin.encode({"connectionSet": connections}))

    def get_all_producers(self, request: GetAllProducers, call: Call) -> Outcome:
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        data = {
            group: [
                admin.Producer(
                    client_id=member.client_id,
                    language=member.language,
                    last_update_timestamp=now_ms - int((now - member.last_seen) * 1000),
                    remote_ip=f"/{_address(member)}",
                    version=member.version,
                )
                for member in members.values()
            ]
            for group, members in self._sessions.producers.items()
        }
        return Reply(body=admin.encode({"data": data}))

    def query_subscription(self, request: QuerySubscription, call: Call) -> Outcome:
        """Show what a live group subscribes of a topic; nothing when it does not."""
        live = self._sessions.consumers.get(request.group)
        found = live.subscriptions.get(request.topic or "") if live is not None else None
        body = admin.SubscriptionOf(group=request.group, subscription_data=found, topic=request.topic)
        return Reply(body=admin.encode(body))

    async def get_consumer_status(self, request: GetConsumerStatus, call: Call) -> Outcome:
        """Ask the members of a group, or the one that is named, how far they are."""
        live = self._sessions.consumers.get(request.group)
        if live is None:
            remark = f"No Any Consumer online in the consumer group: [{request.group[:255]}]"
            raise Refusal(Code.SYSTEM_ERROR, remark)
        wanted = (request.client_addr or "").strip()
        members = [each for each in live.members.values() if wanted in ("", each.client_id)]
        for member in members:
            if member.version < VERSION_KNOWS_STATUS:
                remark = f"the client does not support this feature. version={member.version}"
                raise Refusal(Code.SYSTEM_ERROR, remark)
        question = GetClientStatus(request.topic, request.group)
        answers = await asyncio.gather(*(_ask_status(member, question) for member in members))
        states = {
            member.client_id: answer
            for member, answer in zip(members, answers, strict=True)
            if answer is not None
        }
        return Reply(body=admin.encode_client_states(states))

    async def get_running_info(self, request: GetRunningInfo, call: Call) -> Outcome:
        """Pass the question on to the member it is about."""
        return await self._relay(call.frame, request.consumer_group, request.client_id)

    async def consume_directly(self, request: ConsumeDirectly, call: Call) -> Outcome:
        """Hand one stored message to one member now, and tell what became of it."""
        log_offset = _log_offset_of(request.msg_id or "")
        record = await self._store.record_at(log_offset) if log_offset is not None else None
        if record is None:
            remark = (
                f"no message has the id {(request.msg_id or '')[:80]}: give the offset id that a send or a "
                "query shows, of a message that is still stored"
            )
            raise Refusal(Code.SYSTEM_ERROR, remark)
        ext = dict(call.frame.ext)
        ext["brokerName"] = self._topics.identity.broker_name
        topic = self._topics.get(request.topic or "")
        if topic is not None:
            ext["topicSysFlag"] = str(topic.topic_sys_flag)
        group = self._groups.get(request.consumer_group)
        if group is not None:
            ext["groupSysFlag"] = str(group.group_sys_flag)
        question = call.frame._replace(ext=ext, body=record)
        return await self._relay(question, request.consumer_group, request.client_id or "")

    async def _relay(self, question: Frame, group: str, client_id: str) -> Outcome:
        """Ask a member what a tool asked us, and give its answer back as it is."""
        live = self._sessions.consumers.get(group)
        member = live.find(client_id) if live is not None else None
        if member is None:
            remark = f"The Consumer <{group[:255]}> <{client_id[:255]}> not online"
            raise Refusal(Code.SYSTEM_ERROR, remark)
        if member.version < VERSION_BROKER_CALLS_CLIENT:
            remark = (
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT"
            )
            raise Refusal(Code.SYSTEM_ERROR, remark)
        assert isinstance(member.channel, Link)
        try:
            answer = await member.channel.call_frame(
                Frame(question.code, 0, 0, question.ext, question.body), RELAY_SECONDS
            )
        except TimeoutError as error:
            remark = f"consumer <{group}> <{client_id}> Timeout: {error}"
            raise Refusal(Code.CONSUME_MSG_TIMEOUT, remark) from None
        except (ConnectionError, TooManyWaiting) as error:
            remark = f"invoke consumer <{group}> <{client_id}> Exception: {error}"
            raise Refusal(Code.SYSTEM_ERROR, remark) from None
        return Reply(answer.code, None, bytes(answer.body), answer.remark)


async def _ask_status(member: Member, question: GetClientStatus) -> msgspec.Raw | None:
    """Return the table of offsets that a member answers with; None when it does not."""
    assert isinstance(member.channel, Link)
    try:
        answer = await member.channel.call(question, STATUS_SECONDS)
        if answer.code != Code.SUCCESS or not answer.body:
            return None
        return admin.read_client_state(bytes(answer.body))
    except (ConnectionError, TimeoutError, TooManyWaiting, ValueError) as error:
        log.warning("%s does not say how far it is: %s", member.client_id, error)
        return None


def _connection(member: Member) -> admin.Connection:
    return admin.Connection(
        client_addr=_address(member),
        client_id=member.client_id,
        language=member.language,
        version=member.version,
    )


def _conflicts(group: ConsumerGroup) -> dict[str, list[admin.SubscriptionView]]:
    return {
        topic: [
            admin.SubscriptionView(
                client_ids=view.client_ids, expression=view.expression, expression_type=view.expression_type
            )
            for view in views
        ]
        for topic, views in conflicts_of(group).items()
    }


def _address(member: Member) -> str:
    host, port = member.channel.peer
    return f"{host}:{port}"


def _log_offset_of(msg_id: str) -> int | None:
    """Return the place in the log that an offset id names: address, port, then 8 bytes of offset, in hex."""
    try:
        raw = bytes.fromhex(msg_id)
    except ValueError:
        return None
    if len(raw) not in (16, 28):
        return None
    return int.from_bytes(raw[-8:], "big", signed=True)
