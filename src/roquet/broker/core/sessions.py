"""Who is connected: producers and consumers by group, as their heartbeats say.

    heartbeat ─▶ join ─▶ members of the group ─▶ did the group change? ─▶ others are notified
    close, unregister, 120 s of silence ─▶ leave ─▶ the same

A channel is whatever identifies a connection (`transport.Link` in the broker): only its identity and its
peer address are used. Times are seconds of the monotonic clock. Compatibility: ConsumerManager and
ProducerManager of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from roquet.model.group import Subscription

SILENT_SECONDS_MAX: Final = 120.0
"""A client whose heartbeats stay away so long is dropped."""


class Channel(Protocol):
    """A connection, as far as sessions care."""

    @property
    def peer(self) -> tuple[str, int]: ...

    def __hash__(self) -> int: ...


class Member:
    """One client in one group."""

    __slots__ = ("channel", "client_id", "language", "last_seen", "subscriptions", "version")

    def __init__(self, channel: Channel, client_id: str, language: str, version: int, now: float) -> None:
        self.channel = channel
        self.client_id = client_id
        self.language = language
        self.version = version
        self.last_seen = now
        self.subscriptions: Mapping[str, Subscription] = {}
        """What this member alone subscribes, by topic; the group's table is what the last one said."""


class ConsumerGroup:
    """A consumer group that has members now."""

    __slots__ = ("consume_from", "consume_type", "members", "message_model", "subscriptions")

    def __init__(self, consume_type: str, message_model: str, consume_from: str) -> None:
        self.consume_type = consume_type
        self.message_model = message_model
        self.consume_from = consume_from
        self.members: dict[Channel, Member] = {}
        self.subscriptions: dict[str, Subscription] = {}

    @property
    def is_broadcast(self) -> bool:
        return self.message_model == "BROADCASTING"

    def find(self, client_id: str) -> Member | None:
        for member in self.members.values():
            if member.client_id == client_id:
                return member
        return None


class ConsumerData(NamedTuple):
    """What a heartbeat says of one consumer group."""

    group: str
    consume_type: str
    message_model: str
    consume_from: str
    subscriptions: tuple[Subscription, ...]
    unit_mode: bool = False


class Watcher(Protocol):
    """Whoever follows what consumer groups subscribe."""

    def joined(self, data: ConsumerData, is_news: bool) -> None:
        """A member has said all that it subscribes; `is_news` when it has not said just this before."""
        ...

    def left(self, group: str) -> None:
        """A member has gone; it may have been the last."""
        ...


class Sessions:
    """The tables of live clients."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.producers: dict[str, dict[Channel, Member]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}

    def join_producer(
        self, group: str, channel: Channel, client_id: str, language: str, version: int, now: float
    ) -> None:
        """Note a producer that is alive."""
        members = self.producers.setdefault(group, {})
        member = members.get(channel)
        if member is None or member.client_id != client_id:
            members[channel] = Member(channel, client_id, language, version, now)
        else:
            member.last_seen = now

    def join_consumer(
        self, data: ConsumerData, channel: Channel, client_id: str, language: str, version: int, now: float
    ) -> bool:
        """Note a consumer that is alive; returns whether its group has changed by it."""
        group = self.consumers.get(data.group)
        if group is None:
            group = ConsumerGroup(data.consume_type, data.message_model, data.consume_from)
            self.consumers[data.group] = group
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from = data.consume_from
        member = group.members.get(channel)
        changed = member is None or member.client_id != client_id
        if member is None or changed:
            # A client that reconnected keeps its id: its old channel must not count twice.
            member = group.members[channel] = Member(channel, client_id, language, version, now)
        else:
            member.last_seen = now
        subscriptions = {each.topic: each for each in data.subscriptions}
        is_news = changed or member.subscriptions != subscriptions
        member.subscriptions = subscriptions
        changed = self._subscribe(group, data.subscriptions) or changed
        for watcher in self.watchers:
            watcher.joined(data, is_news)
        return changed

    def _subscribe(self, group: ConsumerGroup, wanted: Iterable[Subscription]) -> bool:
        """Take over what a member subscribes; newer versions win, topics it left out are dropped."""
        changed = False
        topics = set()
        for subscription in wanted:
            topics.add(subscription.topic)
            known = group.subscriptions.get(subscription.topic)
            if known is None:
                changed = True
            if known is None or subscription.sub_version > known.sub_version:
                group.subscriptions[subscription.topic] = subscription
        for topic in [topic for topic in group.subscriptions if topic not in topics]:
            del group.subscriptions[topic]
            changed = True
        return changed

    def leave_producer(self, group: str, channel: Channel) -> None:
        members = self.producers.get(group)
        if members is not None and members.pop(channel, None) is not None and not members:
            del self.producers[group]

    def leave_consumer(self, group: str, channel: Channel) -> bool:
        """Drop a member; returns whether it was one."""
        found = self.consumers.get(group)
        if found is None or found.members.pop(channel, None) is None:
            return False
        if not found.members:
            del self.consumers[group]
        for watcher in self.watchers:
            watcher.left(group)
        return True

    def leave_all(self, channel: Channel) -> list[str]:
        """Drop a channel that closed from everywhere; returns the consumer groups that lost a member."""
        for group in list(self.producers):
            self.leave_producer(group, channel)
        return [group for group in list(self.consumers) if self.leave_consumer(group, channel)]

    def silent(self, now: float, seconds_max: float = SILENT_SECONDS_MAX) -> list[Channel]:
        """Return the channels whose heartbeats have stayed away too long, each once."""
        tables = [*self.producers.values(), *(group.members for group in self.consumers.values())]
        late = {
            channel: None
            for members in tables
            for channel, member in members.items()
            if now - member.last_seen > seconds_max
        }
        return list(late)

    def client_ids(self, group: str) -> list[str]:
        """Return the distinct client ids of a consumer group."""
        found = self.consumers.get(group)
        if found is None:
            return []
        return list(dict.fromkeys(member.client_id for member in found.members.values()))
