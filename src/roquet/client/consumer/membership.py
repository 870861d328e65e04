"""A consumer as the brokers know it: its group, what it subscribes, where it begins.

Every change gives all subscriptions a newer version: brokers that hear of it late answer pulls with
"not the latest" until the next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from roquet.client.core.positions import Start, where_to_consume_from
from roquet.client.core.subscription import Expression, parse, wanted_tags
from roquet.model.group import Subscription
from roquet.ports import Clock
from roquet.wire.bodies.heartbeat import ConsumerBeat


class Membership:
    """What heartbeats say of one consumer; names are those that the servers know."""

    is_consumer = True

    def __init__(
        self, group: str, model: str, start: Start, clock: Clock, on_route: Callable[[str], None]
    ) -> None:
        self.group = group
        self.model = model
        self.subscriptions: dict[str, Subscription] = {}
        self._from_where = where_to_consume_from(start)
        self._clock = clock
        self._on_route = on_route
        self._version_ms = 0
        self._tags: dict[str, frozenset[bytes]] = {}

    def subscribe(self, topic: str, expression: Expression) -> Subscription:
        """Want messages of a topic; raises Misuse for an expression that says nothing."""
        self._version_ms = max(self._version_ms + 1, self._clock.now_ms())
        subscription = self.subscriptions[topic] = parse(topic, expression, self._version_ms)
        self._tags[topic] = wanted_tags(subscription)
        return subscription

    def unsubscribe(self, topic: str) -> None:
        """Want no more of it; a topic that was not wanted is fine."""
        self.subscriptions.pop(topic, None)
        self._tags.pop(topic, None)

    def tags(self, topic: str) -> frozenset[bytes]:
        """Return the tags to compare messages with; empty when the server's choice is final."""
        return self._tags.get(topic, frozenset())

    # what the cluster asks

    def beat(self) -> ConsumerBeat:
        return ConsumerBeat(
            self.group,
            "CONSUME_PASSIVELY",
            self.model,
            self._from_where,
            list(self.subscriptions.values()),
        )

    def topics(self) -> Collection[str]:
        return tuple(self.subscriptions)

    def route_changed(self, topic: str) -> None:
        self._on_route(topic)
