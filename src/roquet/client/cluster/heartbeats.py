"""Heartbeats: brokers learn who is behind a connection, and what those groups subscribe.

    join ─▶ beat soon ─▶ every 30 s ─▶ … ─▶ leave: UNREGISTER_CLIENT at once
                 ▲ a new connection, a change (`beat_soon`)

Sent to the masters of all known routes, to their slaves too when there is a consumer to read from them.
A broker that misses one is told again with the next; nobody waits for a heartbeat except who asks to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, Protocol

import msgspec

from roquet.client.core.route_view import RouteView
from roquet.client.errors import Misuse, RoquetError
from roquet.ports import Clock
from roquet.wire.bodies.heartbeat import ConsumerBeat, HeartbeatBody, ProducerBeat
from roquet.wire.frame import Frame
from roquet.wire.requests.client import Heartbeat, UnregisterClient
from roquet.wire.row import Header

log = logging.getLogger("roquet.client")

BEAT_SECONDS: Final = 30.0
_encode = msgspec.json.Encoder().encode


class Member(Protocol):
    """A producer or a consumer that belongs to the client."""

    group: str
    is_consumer: bool

    def beat(self) -> ProducerBeat | ConsumerBeat:
        """Return what the brokers must know of it."""

    def topics(self) -> Collection[str]:
        """Return the topics whose routes to keep fresh."""

    def route_changed(self, topic: str) -> None:
        """Learn that one of them is served otherwise from now on; must return at once."""


class Ask(Protocol):
    """Asks one broker and returns its yes; raises RoquetError."""

    def __call__(self, address: str, request: Header, body: bytes, timeout_s: float) -> Awaitable[Frame]: ...


class Heartbeats:
    """The members of one client, as brokers know them."""

    def __init__(
        self, clock: Clock, ask: Ask, views: Callable[[], Iterable[RouteView]], timeout_s: float
    ) -> None:
        self._clock = clock
        self._ask = ask
        self._views = views
        self._timeout_s = timeout_s
        self._told: set[str] = set()
        self._beating: set[str] = set()
        self._due: set[str] = set()
        self._soon = asyncio.Event()
        self.client_id = ""
        self.members: list[Member] = []

    def topics(self) -> set[str]:
        """Return the topics of all members."""
        return {topic for member in self.members for topic in member.topics()}

    def join(self, member: Member) -> None:
        """Take a member in; raises Misuse when its consumer group has one here already."""
        for other in self.members:
            if member.is_consumer and other.is_consumer and other.group == member.group:
                raise Misuse(
                    f"group {member.group} already has a consumer in this client",
                    hint="give the second one a Cluster of its own, or another group",
                )
        self.members.append(member)
        self.beat_soon()

    async def leave(self, member: Member) -> None:
        """Let a member go and tell the brokers, as far as they can be reached."""
        if member not in self.members:
            return
        self.members.remove(member)
        if any(other.group == member.group and _same_kind(other, member) for other in self.members):
            return
        group = member.group
        request = UnregisterClient(
            self.client_id,
            producer_group=None if member.is_consumer else group,
            consumer_group=group if member.is_consumer else None,
        )
        told = [self._say_goodbye(address, request) for address in sorted(self._told)]
        await asyncio.gather(*told)

    def beat_soon(self) -> None:
        """Send heartbeats to all brokers as soon as the loop comes to it."""
        self._due.update(self._addresses())
        self._soon.set()

    def connected(self, address: str) -> None:
        """Note a new connection: a broker that knew us by another one must hear of us again."""
        if self.members and address not in self._beating and address in self._addresses():
            self._due.add(address)
            self._soon.set()

    async def beat(self) -> None:
        """Tell every broker now; those that cannot be reached are left out."""
        self._due.clear()
        self._told &= {address for view in self._views() for address in view.addresses()}
        await self._tell_all(self._addresses())

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        next_at = self._clock.monotonic() + BEAT_SECONDS
        while True:
            timer = self._clock.call_at(next_at, self.beat_soon)
            try:
                await self._soon.wait()
            finally:
                timer.cancel()
            self._soon.clear()
            if self._clock.monotonic() >= next_at:
                next_at = self._clock.monotonic() + BEAT_SECONDS
            due, self._due = self._due, set()
            await self._tell_all(due)

    def clear(self) -> None:
        """Forget members and brokers: the connections are gone."""
        self.members.clear()
        self._told.clear()
        self._due.clear()
        self._soon = asyncio.Event()

    def _body(self) -> HeartbeatBody:
        producers: dict[str, ProducerBeat] = {}
        consumers: list[ConsumerBeat] = []
        for member in self.members:
            beat = member.beat()
            if isinstance(beat, ConsumerBeat):
                consumers.append(beat)
            else:
                producers[beat.group_name] = beat
        return HeartbeatBody(self.client_id, list(producers.values()), consumers)

    def _addresses(self) -> set[str]:
        """Return whom to tell: the brokers of all known routes that a member may talk to."""
        if any(member.is_consumer for member in self.members):
            return {address for view in self._views() for address in view.addresses()}
        return {address for view in self._views() for address in view.masters()}

    async def _tell_all(self, addresses: Iterable[str]) -> None:
        if self.members:
            body = _encode(self._body())
            await asyncio.gather(*[self._tell(address, body) for address in sorted(addresses)])

    async def _tell(self, address: str, body: bytes) -> None:
        self._beating.add(address)
        try:
            await self._ask(address, Heartbeat(), body, self._timeout_s)
            self._told.add(address)
        except RoquetError as error:
            log.info("no heartbeat to %s: %s", address, error.what)
        finally:
            self._beating.discard(address)

    async def _say_goodbye(self, address: str, request: UnregisterClient) -> None:
        try:
            await self._ask(address, request, b"", self._timeout_s)
        except RoquetError as error:
            log.info("%s was not told that we leave: %s", address, error.what)


def _same_kind(one: Member, other: Member) -> bool:
    return one.is_consumer == other.is_consumer
