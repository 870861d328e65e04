"""Live clients: who is connected, what they say of themselves, and whether a group's members agree.

Members of a group must subscribe alike, else messages go to some that do not want them. Roquet says so with
its answer; of an Apache broker each member is asked for its subscriptions. Codes 203, 204, 307, 328.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from roquet.client.admin.answered import read, shaped
from roquet.client.admin.reach import Reach
from roquet.client.admin.reading import moment
from roquet.client.errors import NotFound, Refused, RoquetError
from roquet.model.group import Subscription
from roquet.wire.bodies import admin, running
from roquet.wire.codes import Code
from roquet.wire.requests import client as rows

RELAY_SECONDS: Final = 12.0
"""A broker waits ten for the consumer that it passes a question to."""

ABSENT: Final = frozenset({Code.SYSTEM_ERROR})
"""How a broker says that it has no such producers."""


class Connection(NamedTuple):
    """One connected client."""

    client_id: str
    address: str
    language: str
    version: int


class ConsumerGroup(NamedTuple):
    """The live members of a group and what it subscribes."""

    group: str
    connections: tuple[Connection, ...]
    consume_type: str
    message_model: str
    consume_from: str
    subscriptions: Mapping[str, Subscription]


class LiveProducer(NamedTuple):
    """One live producer, and when it was last heard of."""

    group: str
    client_id: str
    address: str
    language: str
    version: int
    last_seen: datetime | None


class View(NamedTuple):
    """One way in which members of a group subscribe a topic; an empty expression is none at all."""

    client_ids: tuple[str, ...]
    expression: str
    expression_type: str


class _Producers(msgspec.Struct, rename="camel"):
    connection_set: list[admin.Connection] = []


class _AllProducers(msgspec.Struct):
    data: dict[str, list[admin.Producer]] = {}


class Clients:
    """Looks at live clients."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def consumers(self, group: str) -> ConsumerGroup:
        """Return the live members of a group; raises NotFound when nobody is."""
        found = [body for _, body in await self._consumer_bodies(group)]
        first = found[0]
        return ConsumerGroup(
            group,
            _connections([each for body in found for each in body.connection_set]),
            first.consume_type,
            first.message_model,
            first.consume_from_where,
            {topic: each for body in found for topic, each in body.subscription_table.items()},
        )

    async def _consumer_bodies(self, group: str) -> list[tuple[str, admin.ConsumerConnections]]:
        masters = await self._reach.masters_of_group(group)
        found = await self._reach.any_of(masters, rows.GetConsumerConnections(group))
        return [(broker, shaped(each, admin.ConsumerConnections)) for broker, each in found.items()]

    async def producers(self, group: str) -> tuple[Connection, ...]:
        """Return the live producers of a group; raises NotFound when nobody is."""
        masters = await self._reach.masters()
        try:
            found = await self._reach.any_of(masters, rows.GetProducerConnections(group), absent=ABSENT)
        except Refused as error:
            raise _as_absent(error, f"no producer of group {group} is connected") from None
        bodies = [shaped(each, _Producers) for each in found.values()]
        return _connections([each for body in bodies for each in body.connection_set])

    async def all_producers(self, broker: str) -> list[LiveProducer]:
        """Return the live producers of every group at one broker; needs a broker of 5.0 or later."""
        body = shaped(await self._reach.ask(broker, rows.GetAllProducers()), _AllProducers)
        return [
            LiveProducer(
                group,
                each.client_id,
                each.remote_ip.lstrip("/"),
                each.language,
                each.version,
                moment(each.last_update_timestamp),
            )
            for group, members in sorted(body.data.items())
            for each in members
        ]

    async def running(self, group: str, client_id: str, *, stacks: bool = False) -> running.RunningInfo:
        """Ask a live member for its whole state: queues, positions, paces, settings; raises NotFound."""
        masters = await self._reach.masters_of_group(group)
        request = rows.GetRunningInfo(group, client_id, stacks)
        try:
            found = await self._reach.any_of(masters, request, absent=ABSENT, timeout_s=RELAY_SECONDS)
        except Refused as error:
            raise _as_absent(error, f"no member {client_id} of group {group} answers") from None
        return read(running.decode_running, next(iter(found.values())))

    async def conflicts(self, group: str) -> dict[str, list[View]]:
        """Return the topics that members of a group subscribe in different ways; nothing when they agree."""
        bodies = await self._consumer_bodies(group)
        for _, body in bodies:
            if body.subscription_conflicts:
                return {
                    topic: [
                        View(tuple(each.client_ids), each.expression, each.expression_type) for each in views
                    ]
                    for topic, views in body.subscription_conflicts.items()
                }
        members = sorted({each.client_id for _, body in bodies for each in body.connection_set})
        if len(members) < 2:
            return {}
        told: dict[str, Sequence[Subscription]] = {}
        for client_id in members:
            try:
                told[client_id] = (await self.running(group, client_id)).subscriptions
            except RoquetError:  # it cannot be asked, or has left: it takes part in no comparison
                continue
        return views_that_differ(told)


def views_that_differ(told: Mapping[str, Sequence[Subscription]]) -> dict[str, list[View]]:
    """Return the topics on which clients do not agree, and who wants what; pure."""
    topics = sorted({each.topic for subscriptions in told.values() for each in subscriptions})
    found: dict[str, list[View]] = {}
    for topic in topics:
        by_wish: dict[tuple[str, str], list[str]] = {}
        for client_id, subscriptions in told.items():
            wish = next(
                ((each.sub_string, each.expression_type) for each in subscriptions if each.topic == topic),
                ("", ""),
            )
            by_wish.setdefault(wish, []).append(client_id)
        if len(by_wish) > 1:
            found[topic] = [View(tuple(ids), *wish) for wish, ids in sorted(by_wish.items())]
    return found


def _as_absent(error: Refused, what: str) -> Refused:
    """Return the error of a client that is not there; brokers have no code of its own for that."""
    return NotFound(f"{what}: {error.what}", code=error.code) if error.code in ABSENT else error


def _connections(rows_: Sequence[admin.Connection]) -> tuple[Connection, ...]:
    """Return each client once: it is connected to every broker."""
    by_id = {
        each.client_id: Connection(each.client_id, each.client_addr, each.language, each.version)
        for each in rows_
    }
    return tuple(by_id[client_id] for client_id in sorted(by_id))
