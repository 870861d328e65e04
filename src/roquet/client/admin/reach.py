"""Who is asked: the brokers behind a name, a cluster or a topic, one of them or all at once.

    "broker-a", "127.0.0.1:10911"  ─▶ one address          ""  ─▶ every master there is
    cluster, topic                 ─▶ masters by broker name ─▶ all asked at the same time ─▶ answers by name

Place in the flow: every part of `Admin` goes through here to `Cluster`. What is asked of several brokers is
done by some even when another refuses: the error then says who. Knows no request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from roquet.client.admin.answered import read
from roquet.client.cluster.cluster import Cluster
from roquet.client.core.route_view import RouteView
from roquet.client.errors import Misuse, NoRoute, NotFound, RoquetError
from roquet.wire.bodies import route as route_body
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.names import GetClusters, GetRoute
from roquet.wire.row import Header

MASTER_ID: Final = 0
ROUTE_SECONDS_MAX: Final = 5.0
"""How long a change may take to reach the name servers before nobody waits any more."""


class BrokerPlace(NamedTuple):
    """One broker as the name servers know it."""

    cluster: str
    name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


class Reach:
    """Finds brokers and asks them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def places(self, cluster: str = "") -> tuple[BrokerPlace, ...]:
        """Return all brokers, or those of one cluster, sorted; raises NotFound when there are none."""
        answer = await self.cluster.ask_names(GetClusters())
        known = read(route_body.decode_clusters, answer)
        found = sorted(
            BrokerPlace(broker.cluster, name, broker_id, address)
            for name, broker in known.broker_addr_table.items()
            for broker_id, address in broker.broker_addrs.items()
            if cluster in ("", broker.cluster)
        )
        if not found:
            clusters = ", ".join(sorted(known.cluster_addr_table)) or "none"
            what = f"no broker of cluster {cluster} is registered" if cluster else "no broker is registered"
            raise NotFound(what, hint=f"clusters that the name server knows: {clusters}")
        return tuple(found)

    async def masters(self, cluster: str = "", broker: str = "") -> dict[str, str]:
        """Return the masters' addresses by broker name: of one broker, of a cluster, or all."""
        if broker:
            name, address = await self._named(broker)
            return {name: address}
        found = {place.name: place.address for place in await self.places(cluster) if place.is_master}
        if not found:
            raise NotFound(f"no master is registered in {cluster or 'any cluster'}", retriable=True)
        return found

    async def route(self, topic: str) -> RouteView:
        """Return who serves a topic as a name server says now; nothing that was known before counts.

        Raises NoRoute.
        """
        try:
            answer = await self.cluster.ask_names(GetRoute(topic, True))
        except NotFound:
            raise NoRoute(topic, self.cluster.name_servers, why="they know no such topic") from None
        return RouteView(topic, read(route_body.decode, answer))

    async def wait_for_route(
        self, topic: str, brokers: Collection[str], queues: tuple[int, int] | None = None
    ) -> None:
        """Return once every name server that answers knows a topic at these brokers, or after a while.

        `queues` are the numbers to read and to write that they must know. Brokers may tell the name servers
        of a change after they have answered for it.
        """
        clock = self.cluster.ports.clock
        deadline = clock.monotonic() + ROUTE_SECONDS_MAX
        pause_s = 0.005
        waiting = list(self.cluster.name_servers)
        while waiting:
            waiting = [each for each in waiting if not await self._knows(each, topic, brokers, queues)]
            if not waiting or clock.monotonic() >= deadline:
                return
            await clock.sleep_until(clock.monotonic() + pause_s)
            pause_s = min(pause_s * 2, 0.25)

    async def _knows(
        self, address: str, topic: str, brokers: Collection[str], queues: tuple[int, int] | None
    ) -> bool:
        try:
            answer = await self.cluster.ask(address, GetRoute(topic, True))
        except NotFound:
            return False
        except RoquetError:
            return True  # it is down, or disturbed: it learns it by itself when it comes back
        known = {each.broker_name: each for each in read(route_body.decode, answer).queues}
        return all(
            name in known and queues in (None, (known[name].read_queue_nums, known[name].write_queue_nums))
            for name in brokers
        )

    async def masters_of(self, topic: str) -> dict[str, str]:
        """Return the masters that serve a topic; raises NoRoute."""
        view = await self.route(topic)
        found = {
            broker.broker_name: broker.broker_addrs[MASTER_ID]
            for broker in view.route.brokers
            if MASTER_ID in broker.broker_addrs
        }
        if not found:
            raise NotFound(f"topic {topic} has no master now", retriable=True)
        return dict(sorted(found.items()))

    async def masters_of_group(self, group: str) -> dict[str, str]:
        """Return the masters that know a group: those with its retry topic, or all when there is none."""
        try:
            return await self.masters_of(f"%RETRY%{group}")
        except (NoRoute, NotFound):
            return await self.masters()

    async def address(self, broker: str) -> str:
        """Return where a broker is, by its name (then its master) or its address."""
        return (await self._named(broker))[1]

    async def _named(self, broker: str) -> tuple[str, str]:
        if ":" in broker:
            return broker, broker
        found = {place.name: place.address for place in await self.places() if place.is_master}
        if broker not in found:
            raise NotFound(
                f"no master of broker {broker} is registered",
                hint=f"there are {', '.join(sorted(found)) or 'none'}",
            )
        return broker, found[broker]

    async def ask(
        self, broker: str, request: Header, body: bytes = b"", timeout_s: float | None = None
    ) -> Frame:
        """Ask one broker, by name or address."""
        return await self.cluster.ask(await self.address(broker), request, body, timeout_s)

    async def each(
        self,
        addresses: Mapping[str, str],
        request: Header,
        body: bytes = b"",
        timeout_s: float | None = None,
    ) -> dict[str, Frame]:
        """Ask several brokers at the same time; raises the first refusal, with a note who did it."""
        asked = await self._gather(addresses, request, body, timeout_s)
        failed = [(name, each) for name, each in asked.items() if isinstance(each, RoquetError)]
        done = {name: each for name, each in asked.items() if isinstance(each, Frame)}
        if failed:
            error = failed[0][1]
            if done:
                error.add_note(f"it was done by {', '.join(done)}")
            raise error
        return done

    async def any_of(
        self,
        addresses: Mapping[str, str],
        request: Header,
        body: bytes = b"",
        absent: frozenset[int] = frozenset(),
        timeout_s: float | None = None,
    ) -> dict[str, Frame]:
        """Ask several brokers and leave out those that do not have it: NotFound and the codes in `absent`.

        Raises their refusal when nobody has it.
        """
        asked = await self._gather(addresses, request, body, timeout_s)
        found: dict[str, Frame] = {}
        missing: RoquetError | None = None
        for name, each in asked.items():
            if isinstance(each, Frame):
                found[name] = each
            elif isinstance(each, NotFound) or each.code in absent:
                missing = each
            else:
                raise each
        if not found and missing is not None:
            raise missing
        return found

    async def _gather(
        self, addresses: Mapping[str, str], request: Header, body: bytes, timeout_s: float | None
    ) -> dict[str, Frame | RoquetError]:
        if not addresses:
            raise Misuse("no broker to ask")
        asked = await asyncio.gather(
            *(self._try(address, request, body, timeout_s) for address in addresses.values())
        )
        return dict(zip(addresses, asked, strict=True))

    async def _try(
        self, address: str, request: Header, body: bytes, timeout_s: float | None
    ) -> Frame | RoquetError:
        try:
            return await self.cluster.ask(address, request, body, timeout_s)
        except RoquetError as error:
            return error


NOT_SUPPORTED: Final = frozenset({Code.REQUEST_CODE_NOT_SUPPORTED})
"""What a release answers that is older than the request."""
