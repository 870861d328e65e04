"""A route as a client reads it: which queues to write to and to read from, and where their brokers are; pure.

    orderTopicConf     "broker-b:2;broker-a:1"  ─▶  write b/0 b/1 a/0, in that order
    otherwise          by broker name; writable and with a master ─▶ write 0 … writeQueueNums − 1
                       readable, any broker id                    ─▶ read  0 … readQueueNums − 1

Knows neither name servers nor time. Facts: what Apache's client 5.5.0 makes of a route answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from roquet.client.errors import Unreachable
from roquet.model.route import QueueName, Route
from roquet.model.topic import Perm

MASTER: Final = 0
PROMISED_QUEUES_MAX: Final = 4
"""Queues that a topic gets when a first message creates it, unless the server allows fewer."""


class RouteView:
    """What the name servers say of one topic; a value."""

    __slots__ = ("_addresses", "_read", "_write", "route", "topic")

    def __init__(self, topic: str, route: Route) -> None:
        self.topic = topic
        self.route = route
        self._addresses = {broker.broker_name: broker.broker_addrs for broker in route.brokers}
        self._write = tuple(self._writable())
        self._read = tuple(self._readable())

    def __eq__(self, other: object) -> bool:
        """Two views are equal when they lead to the same queues at the same addresses."""
        if not isinstance(other, RouteView):
            return NotImplemented
        return (self.topic, self._addresses, self._write, self._read) == (
            other.topic,
            other._addresses,
            other._write,
            other._read,
        )

    __hash__ = None  # type: ignore[assignment]  # it holds dictionaries

    def __repr__(self) -> str:
        return f"<RouteView {self.topic}: {len(self._write)} queues at {sorted(self._addresses)}>"

    def write_queues(self) -> tuple[QueueName, ...]:
        """Return the queues that take messages, in the order in which to go round them."""
        return self._write

    def read_queues(self) -> tuple[QueueName, ...]:
        """Return the queues that may be read, by broker name and number."""
        return self._read

    def brokers(self) -> tuple[str, ...]:
        """Return the names of the brokers that serve the topic."""
        return tuple(sorted(self._addresses))

    def master(self, broker_name: str) -> str:
        """Return where the master of a broker name is; raises Unreachable when it has none now."""
        address = self._addresses.get(broker_name, {}).get(MASTER)
        if address is None:
            raise Unreachable(
                f"broker {broker_name} of topic {self.topic} has no master now",
                hint="it is restarting, or a slave has not taken over yet: try again a little later",
            )
        return address

    def reader(self, broker_name: str, broker_id: int = MASTER) -> str:
        """Return where to read: the wanted id, the slave after it, or whoever is left."""
        addresses = self._addresses.get(broker_name)
        if not addresses:
            raise Unreachable(
                f"no broker named {broker_name} serves topic {self.topic} now",
                hint="it may be restarting: try again a little later",
            )
        for wanted in (broker_id, broker_id + 1 if broker_id != MASTER else MASTER, min(addresses)):
            if wanted in addresses:
                return addresses[wanted]
        raise AssertionError("the lowest id is one of the ids")

    def replicas(self, broker_name: str) -> tuple[tuple[int, str], ...]:
        """Return id and address of everyone who has the messages of a broker, the master first."""
        return tuple(sorted(self._addresses.get(broker_name, {}).items()))

    def addresses(self) -> set[str]:
        """Return the addresses of all brokers, slaves among them."""
        return {address for ids in self._addresses.values() for address in ids.values()}

    def masters(self) -> set[str]:
        """Return the addresses of the masters."""
        return {ids[MASTER] for ids in self._addresses.values() if MASTER in ids}

    def _writable(self) -> Iterator[QueueName]:
        if self.route.order_conf:
            yield from _ordered(self.topic, self.route.order_conf)
            return
        for queues in sorted(self.route.queues, key=lambda each: each.broker_name):
            if queues.perm & Perm.WRITE and MASTER in self._addresses.get(queues.broker_name, {}):
                for queue_id in range(queues.write_queue_nums):
                    yield QueueName(queues.broker_name, queue_id, self.topic)

    def _readable(self) -> Iterator[QueueName]:
        for queues in sorted(self.route.queues, key=lambda each: each.broker_name):
            if queues.perm & Perm.READ:
                for queue_id in range(queues.read_queue_nums):
                    yield QueueName(queues.broker_name, queue_id, self.topic)


def _ordered(topic: str, order_conf: str) -> Iterator[QueueName]:
    """Return the queues of an ordered topic, whose number does not change when brokers come and go."""
    for entry in order_conf.split(";"):
        broker_name, _, count = entry.partition(":")
        if count.strip().isdecimal():
            for queue_id in range(int(count)):
                yield QueueName(broker_name.strip(), queue_id, topic)


def promised(topic: str, model: RouteView) -> RouteView:
    """Return the route that an unknown topic will have, once a first message creates it like `model`."""
    queues = []
    for each in model.route.queues:
        count = min(PROMISED_QUEUES_MAX, each.read_queue_nums)
        queues.append(msgspec.structs.replace(each, read_queue_nums=count, write_queue_nums=count))
    return RouteView(topic, model.route._replace(queues=tuple(queues), order_conf=None))
