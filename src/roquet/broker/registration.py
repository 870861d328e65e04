"""The broker's side of registration: every name server is told who we are and what we serve.

    start ─▶ full ─(10 s)─▶ full ─(period)─▶ full …      one task for each name server, so that a dead
               └ a topic changed: only what changed       one costs the others nothing
               └ failed, or the link was lost: full again after 1, 2, 4 … s, at most a period
    close ─▶ unregister wherever a link is open

Place in the flow: `broker.app` starts it and says which topics changed; it reads the topic table through
`topics` when it sends. A name server drops a broker whose link closes, so a lost link is taken up again at
once and not at the next period. Knows neither the store nor the settings file. Reference: BrokerController
and BrokerOuterAPI of Apache 5.5.0.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from roquet.model.topic import READ_WRITE, DataVersion, Topic
from roquet.ports import Clock
from roquet.transport.dialer import Dialer, parse_address
from roquet.transport.link import Link
from roquet.wire.bodies import registration
from roquet.wire.bodies.registration import BodyError
from roquet.wire.codes import Code
from roquet.wire.connection import TooManyWaiting
from roquet.wire.header import Frame
from roquet.wire.requests.names import RegisterBroker, UnregisterBroker

log = logging.getLogger("roquet.broker.registration")

FIRST_AGAIN_S: Final = 10.0
PERIOD_S_MIN: Final = 10.0
PERIOD_S_MAX: Final = 60.0
RETRY_S_MIN: Final = 1.0
START_S_MAX: Final = 1.0
"""How long `start` waits for slow name servers; they are registered with later."""
FIRST_S_MAX: Final = 5.0
"""How much longer it waits for the first of them to answer."""
TOLD_S_MAX: Final = 3.0
"""How long the answer to a new topic waits for the name servers to take it."""

UNREGISTER_S_MAX: Final = 3.0

TOPICS_PER_REQUEST: Final = 20_000
"""Topics that surely fit into one frame of 16 MiB, with long names and attributes."""


class Identity(NamedTuple):
    """Who registers: names, id, and the `host:port` that clients and slaves will dial."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str


class TopicTable(NamedTuple):
    """The broker's topics at one moment, and how new they are."""

    version: DataVersion
    topics: Mapping[str, Topic]


class Terms(NamedTuple):
    """How often, how patiently and in how large pieces; read anew for each registration."""

    period_s: float = 30.0
    timeout_s: float = 24.0
    permission: int = READ_WRITE
    topics_per_request: int = TOPICS_PER_REQUEST


class Registration:
    """Keeps a broker registered with all its name servers; `start` it, and `close` it."""

    def __init__(
        self,
        dialer: Dialer,
        clock: Clock,
        identity: Identity,
        name_servers: Sequence[str],
        topics: Callable[[], TopicTable],
        terms: Callable[[], Terms],
        on_order_topics: Callable[[frozenset[str]], None],
    ) -> None:
        """Take the ports and callbacks; raises ValueError for a name server that is not host:port."""
        for address in name_servers:
            parse_address(address)
        self._clock = clock
        unique = dict.fromkeys(name_servers)
        self._peers = [
            _Peer(address, dialer, clock, identity, topics, terms, on_order_topics) for address in unique
        ]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Register everywhere, and keep doing so; slow name servers are not waited for."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(peer.run(), name=f"register {peer.address}") for peer in self._peers]
        await self._wait([peer.tried for peer in self._peers], START_S_MAX)
        if self._peers and not any(peer.tried.is_set() for peer in self._peers):
            # Nobody finds a broker that no name server knows: a slow machine gets more time for the first.
            await self._wait([peer.tried for peer in self._peers], FIRST_S_MAX, asyncio.FIRST_COMPLETED)

    async def told(self) -> None:
        """Return when the name servers that answer know every change so far, or have had time enough.

        Whoever creates a topic and asks for its route next should find it.
        """
        await self._wait([peer.told for peer in self._peers if peer.standing is Standing.UP], TOLD_S_MAX)

    async def _wait(
        self, events: Sequence[asyncio.Event], limit_s: float, until: str = asyncio.ALL_COMPLETED
    ) -> None:
        """Wait for all of the events, or for the first of them, but not longer than so."""
        if all(event.is_set() for event in events):
            return
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        timer = self._clock.call_at(self._clock.monotonic() + limit_s, _cancel, waits)
        try:
            await asyncio.wait(waits, return_when=until)
        finally:
            timer.cancel()
            _cancel(waits)

    def changed(self, topics: Iterable[str]) -> None:
        """Register these topics at once; what changes within one turn of the loop goes out together."""
        listed = list(topics)
        for peer in self._peers:
            peer.topics_changed(listed)

    def register_all(self) -> None:
        """Register everything at once, for a change that concerns all topics (the broker's permission)."""
        for peer in self._peers:
            peer.register_soon(0.0)

    @property
    def registered_with(self) -> tuple[str, ...]:
        """The name servers that took the latest registration."""
        return tuple(peer.address for peer in self._peers if peer.standing is Standing.UP)

    async def close(self) -> None:
        """Stop registering and take leave of every name server that we have a link to."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(peer.unregister() for peer in self._peers))


class Standing(Enum):
    """What we last heard, and said, of a name server."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


class _Refused(Exception):
    """The name server answered and did not take the registration."""


class _Peer:
    """One name server, and what it has still to be told."""

    def __init__(
        self,
        address: str,
        dialer: Dialer,
        clock: Clock,
        identity: Identity,
        topics: Callable[[], TopicTable],
        terms: Callable[[], Terms],
        on_order_topics: Callable[[frozenset[str]], None],
    ) -> None:
        self.address = address
        self.standing = Standing.UNKNOWN
        self.tried = asyncio.Event()
        self.told = asyncio.Event()
        self._dialer = dialer
        self._clock = clock
        self._identity = identity
        self._topics = topics
        self._terms = terms
        self._on_order_topics = on_order_topics
        self._wake = asyncio.Event()
        self._changed: dict[str, None] = {}
        self._full_at = clock.monotonic()
        self._retry_s = RETRY_S_MIN
        self._successes = 0
        self._link: Link | None = None

    async def run(self) -> None:
        """Register whenever it is due, for ever."""
        while True:
            is_due = self._clock.monotonic() >= self._full_at
            if is_due or self._changed:
                try:
                    await (self._register_all() if is_due else self._register_changed())
                    self._went_well()
                except (OSError, TooManyWaiting, _Refused) as error:
                    self._went_wrong(error)
                self.tried.set()
            else:
                self.told.set()
                await self._sleep()

    def topics_changed(self, topics: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(topics))
        self.told.clear()
        self._wake.set()

    def register_soon(self, delay_s: float) -> None:
        """Bring the next full registration forward."""
        self._full_at = min(self._full_at, self._clock.monotonic() + delay_s)
        self._wake.set()

    async def unregister(self) -> None:
        """Say good-bye; without a link the name server has dropped us already."""
        link = self._link
        if link is None or not link.is_open:
            return
        who = self._identity
        request = UnregisterBroker(who.broker_name, who.address, who.cluster, who.broker_id)
        try:
            await link.call(request, UNREGISTER_S_MAX)
        except (OSError, TooManyWaiting) as error:
            log.info("no good-bye to name server %s: %s", self.address, error)

    async def _sleep(self) -> None:
        timer = self._clock.call_at(self._full_at, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()

    async def _register_all(self) -> None:
        terms = self._terms()
        pause_s = (
            FIRST_AGAIN_S if not self._successes else min(max(terms.period_s, PERIOD_S_MIN), PERIOD_S_MAX)
        )
        self._full_at = self._clock.monotonic() + pause_s
        self._changed.clear()
        table = self._topics()
        for number, topics in enumerate(_pieces(table.topics, terms.topics_per_request)):
            # A piece with the version of the piece before would count as unchanged and not be looked at.
            version = msgspec.structs.replace(table.version, timestamp=table.version.timestamp + number)
            await self._send(version, topics, terms)
        self._successes += 1

    async def _register_changed(self) -> None:
        table = self._topics()
        changed = {name: table.topics[name] for name in self._changed if name in table.topics}
        self._changed.clear()
        if changed:
            await self._send(table.version, changed, self._terms())

    async def _send(self, version: DataVersion, topics: Mapping[str, Topic], terms: Terms) -> None:
        if terms.permission & READ_WRITE != READ_WRITE:
            topics = {
                name: msgspec.structs.replace(topic, perm=topic.perm & terms.permission)
                for name, topic in topics.items()
            }
        body = registration.encode(registration.Registration(version, topics))
        who = self._identity
        request = RegisterBroker(
            who.broker_name,
            who.address,
            who.cluster,
            who.ha_address,
            who.broker_id,
            enable_acting_master=False,
            body_crc32=registration.crc32(body),
        )
        link = await self._dialer.link(self.address)
        if link is not self._link:
            self._link = link
            link.on_close.append(self._link_lost)
        self._take_answer(await link.call(request, terms.timeout_s, body))

    def _take_answer(self, answer: Frame) -> None:
        if answer.code != Code.SUCCESS:
            raise _Refused(f"it answered {answer.code}: {answer.remark}")
        if answer.body:
            try:
                self._on_order_topics(frozenset(registration.decode_values(answer.body)))
            except BodyError as error:
                raise _Refused(f"its answer cannot be read: {error}") from None

    def _link_lost(self, link: Link) -> None:
        if link is self._link:
            self._link = None
            self.register_soon(RETRY_S_MIN)

    def _went_well(self) -> None:
        self._retry_s = RETRY_S_MIN
        if self.standing is not Standing.UP:
            self.standing = Standing.UP
            log.info("registered with name server %s", self.address)

    def _went_wrong(self, error: Exception) -> None:
        """Try everything again after a pause that grows: a partial registration may have been lost."""
        self._full_at = self._clock.monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, max(self._terms().period_s, PERIOD_S_MIN))
        if self.standing is not Standing.DOWN:
            self.standing = Standing.DOWN
            log.warning("not registered with name server %s, trying on: %s", self.address, error)


def _pieces(topics: Mapping[str, Topic], size: int) -> Iterator[dict[str, Topic]]:
    """Cut a table into pieces; an empty one is one piece, since it still says that we live."""
    if not topics:
        yield {}
    items = iter(topics.items())
    while piece := dict(itertools.islice(items, size)):
        yield piece


def _cancel(waits: Iterable[asyncio.Future[Any]]) -> None:
    for wait in waits:
        wait.cancel()
