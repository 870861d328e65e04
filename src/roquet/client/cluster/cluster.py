"""One client of a cluster: its connections, what it knows of routes, and its heartbeats.

    async with roquet.Cluster("127.0.0.1:9876") as cluster:
        route = await cluster.route("orders")
        answer = await cluster.ask(route.master("broker-a"), GetMaxOffset("orders", 0))

Producers, consumers and the admin stand on it and may share one. It lives in the event loop and the
process that opened it. What requests mean is not its affair; its parts are `names` (which server to ask),
`routes`, `links` (connections), `heartbeats` and `callbacks` (what brokers ask of us).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from roquet.client.cluster.callbacks import Callbacks, Handler
from roquet.client.cluster.dialed import Dialed
from roquet.client.cluster.heartbeats import Heartbeats, Member
from roquet.client.cluster.links import Links
from roquet.client.cluster.name_list import NameList
from roquet.client.cluster.names import Names
from roquet.client.cluster.routes import REFRESH_SECONDS, Routes
from roquet.client.cluster.where import Encoding, parse
from roquet.client.core.route_view import RouteView
from roquet.client.errors import (
    Busy,
    Closed,
    Forked,
    Misuse,
    TimedOut,
    Unreachable,
    refusal,
)
from roquet.model.ids import UniqueIds
from roquet.model.names import AUTO_CREATE_TOPIC
from roquet.ports import Ports
from roquet.runtime import process
from roquet.runtime.real import real_ports
from roquet.wire.codes import Code
from roquet.wire.connection import TooManyWaiting
from roquet.wire.frame import BINARY, JSON, Frame
from roquet.wire.row import Header, row_of

__all__ = ["Cluster", "Member"]

log = logging.getLogger("roquet.client")

LOOPBACK: Final = "127.0.0.1"
Result = TypeVar("Result")


class Cluster:
    """The connections of one client; open it with `async with`."""

    def __init__(
        self,
        namesrv: str | None = None,
        *,
        namespace: str = "",
        unit: str = "",
        instance: str | None = None,
        timeout: float | None = None,
        encoding: Encoding | None = None,
        ports: Ports | None = None,
        auto_create_key: str = AUTO_CREATE_TOPIC,
    ) -> None:
        if timeout is not None and timeout <= 0:
            raise Misuse(f"timeout={timeout:g} leaves no time", hint="give seconds, for example timeout=3")
        where = parse(namesrv or process.variable("ROQUET_NAMESRV", "NAMESRV_ADDR"))
        self.namespace = namespace or where.namespace
        self.timeout_s = timeout or where.timeout_s
        self._where = where._replace(
            unit=unit or where.unit, instance=instance or where.instance, encoding=encoding or where.encoding
        )
        self._is_real = ports is None
        self.ports = ports or real_ports()
        clock, rng, net = self.ports.clock, self.ports.rng, self.ports.net
        self._callbacks = Callbacks()
        self._links = Links(net, clock, rng, self._callbacks.serve, self._connected)
        self._links.encoding = BINARY if self._where.encoding == "binary" else JSON
        self._names = Names(
            where.name_servers, where.list_url, clock, rng, self._reach, self._links.is_ailing
        )
        self._name_list = NameList(where.list_url, net, clock, self.timeout_s, self._names)
        self._routes = Routes(self._names, clock, self.timeout_s, auto_create_key, self._route_changed)
        self._heartbeats = Heartbeats(clock, self._confirm, self._routes.views, self.timeout_s)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opens = 0
        self._is_open = False
        self._gate = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forks = process.forks()
        self._client_id = ""
        self._ids = UniqueIds(bytes(4), 0, 0)

    def __repr__(self) -> str:
        where = self._where.list_url or ";".join(self.name_servers)
        return f"<Cluster {self._client_id or 'not open'} of {where}>"

    # --- opening and closing

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect to a name server; each `open` needs its `close`, and the first and last do the work.

        Raises NamesUnreachable when no name server can be reached.
        """
        if self._forks != process.forks():
            if self._is_open:
                self.check()
            self._forks = process.forks()  # made before the fork, opened after it: all its own
            self._gate = asyncio.Lock()
        if not self._opens and not self._gate.locked():
            self._gate = asyncio.Lock()  # the loop may be another one than last time
        async with self._gate:
            if not self._is_open:
                await self._start()
            self.check()
            self._opens += 1

    async def close(self) -> None:
        """Say goodbye to the brokers and close every connection; closing once too often is fine."""
        if self._forks != process.forks():
            return  # the connections are the parent's
        async with self._gate:
            if not self._is_open:
                return
            self._opens -= 1
            if self._opens == 0:
                await self._stop()

    def check(self) -> None:
        """Raise Closed, Forked or Misuse when the client cannot be used here and now."""
        if self._forks != process.forks():
            raise Forked("this client was opened in another process, which then forked")
        if not self._is_open:
            raise Closed("the client is not open")
        try:
            is_ours = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # none is running
            is_ours = False
        if not is_ours:
            raise Misuse(
                "this client belongs to another event loop",
                hint="make one client per event loop, or use roquet.sync from several threads",
            )

    @property
    def is_open(self) -> bool:
        return self._is_open and self._forks == process.forks()

    @property
    def client_id(self) -> str:
        """Who we are to the brokers: `ip@pid#number`; known once the client is open."""
        if not self._client_id:
            raise Closed("the client is not open, so it has no id yet")
        return self._client_id

    @property
    def ids(self) -> UniqueIds:
        """The maker of message ids; known once the client is open."""
        if not self._client_id:
            raise Closed("the client is not open, so it can make no message ids yet")
        return self._ids

    @property
    def name_servers(self) -> Sequence[str]:
        return self._names.addresses

    # --- routes

    async def route(self, topic: str, *, fresh: bool = False) -> RouteView:
        """Return who serves a topic; raises NoRoute, or NamesUnreachable when nothing is known of it.

        `fresh` asks the name servers even if a route is known. When they do not answer, or have not known
        the topic for less than two minutes, the route that was known stays.
        """
        self.check()
        return await (self._routes.fresh(topic) if fresh else self._routes.route(topic))

    async def publish_route(self, topic: str) -> RouteView:
        """Return where to send messages of a topic; one that a first message creates has a route, too."""
        self.check()
        return await self._routes.publish_route(topic)

    # --- asking

    async def call(
        self, address: str, request: Header, body: bytes = b"", timeout_s: float | None = None
    ) -> Frame:
        """Ask `host:port` and return its answer, whatever it says.

        Raises Unreachable, TimedOut (it may have happened all the same), Busy or Closed.
        """
        self.check()
        if timeout_s is None:
            timeout_s = self.timeout_s
        answer = await self._reach(address, request, body, timeout_s)
        if answer.code == Code.GO_AWAY:  # the peer is stopping, or wants us elsewhere: it did nothing
            self._links.retire(address)
            return await self._reach(address, request, body, timeout_s)
        return answer

    async def ask(
        self, address: str, request: Header, body: bytes = b"", timeout_s: float | None = None
    ) -> Frame:
        """Ask `host:port` and return its yes; raises what `call` raises, or Refused."""
        answer = await self.call(address, request, body, timeout_s)
        if answer.code != Code.SUCCESS:
            raise refusal(answer.code, answer.remark, address, row_of(type(request)).name)
        return answer

    async def tell(self, address: str, request: Header, body: bytes = b"") -> None:
        """Send a one-way request; raises Unreachable when there is no connection to send it over."""
        self.check()
        link = self._links.ready(address) or await self._link(address, self.timeout_s)
        if link.is_congested:
            await self._room(link, address, self.timeout_s)
        link.send_one_way(request, body)

    async def ask_names(self, request: Header, body: bytes = b"", timeout_s: float | None = None) -> Frame:
        """Ask one name server after another and return the first yes; raises NamesUnreachable or Refused."""
        self.check()
        address, answer = await self._names.call(request, body, timeout_s or self.timeout_s)
        if answer.code != Code.SUCCESS:
            raise refusal(answer.code, answer.remark, address, row_of(type(request)).name)
        return answer

    async def ask_names_all(
        self, request: Header, body: bytes = b"", timeout_s: float | None = None
    ) -> dict[str, Frame]:
        """Ask every name server, for changes that each must take; raises the first failure after all."""
        self.check()
        return await self._names.call_all(request, body, timeout_s or self.timeout_s)

    def is_ailing(self, address: str) -> bool:
        """True when the last try to connect to an address failed: better take another, if there is one."""
        return self._links.is_ailing(address)

    # --- being asked

    def answer(self, request_type: type[Header], handler: Handler) -> None:
        """Offer requests of brokers to a handler: it gets the request, its frame and the link.

        It returns a Reply, an awaitable of one, or None for "not mine", and the next handler is asked.
        """
        self._callbacks.add(request_type, handler)

    def unanswer(self, request_type: type[Header], handler: Handler) -> None:
        """Take a handler out again."""
        self._callbacks.remove(request_type, handler)

    # --- members

    def join(self, member: Member) -> None:
        """Take a producer or consumer in: its group is in every heartbeat, its topics are kept fresh."""
        self.check()
        self._heartbeats.join(member)

    async def leave(self, member: Member) -> None:
        """Let it go again and tell the brokers at once; nothing happens when the client is closed."""
        if self._is_open and self._forks == process.forks():
            await self._heartbeats.leave(member)

    async def beat(self) -> None:
        """Send heartbeats to all brokers now and wait for their answers; silent ones are left out."""
        self.check()
        await self._heartbeats.beat()

    def beat_soon(self) -> None:
        """Send heartbeats a moment later: something about a member has changed."""
        self._heartbeats.beat_soon()

    def spawn(self, coroutine: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result]:
        """Run a coroutine until it ends or the client is closed; a failure is logged."""
        if not self._is_open:
            coroutine.close()
            raise Closed(f"the client is closed: {name} cannot run any more")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"roquet {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    # --- inside

    async def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._links.open()
        self._is_open = True
        try:
            if self._where.list_url:
                await self._name_list.read()
            self._identify(await self._find_ip())
        except BaseException:
            self._is_open = False
            self._links.abort()
            raise
        self.spawn(self._heartbeats.run(), "heartbeats")
        self.spawn(self._keep_routes(), "routes")
        if self._where.list_url:
            self.spawn(self._name_list.run(), "name servers")

    async def _stop(self) -> None:
        try:
            for member in list(self._heartbeats.members):
                await self._heartbeats.leave(member)
        finally:
            self._is_open = False
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            try:
                await self._routes.close()
                await self._callbacks.close()
                await self._links.close()
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                self._links.abort()
                self._heartbeats.clear()

    def _identify(self, ip: str) -> None:
        rng = self.ports.rng
        # In a simulated world the process has no number of its own, and must not have this one's.
        pid = process.pid() if self._is_real else rng.randrange(1 << 16)
        nanos = self.ports.clock.now_ms() * 1_000_000 + rng.randrange(1_000_000)
        instance = self._where.instance or f"{pid}#{nanos}"
        self._client_id = "@".join(filter(None, (ip, instance, self._where.unit)))
        self._heartbeats.client_id = self._client_id
        self._ids = UniqueIds(ipaddress.ip_address(ip).packed, pid, rng.randrange(1 << 32))

    async def _find_ip(self) -> str:
        """Return our address on the way to a name server; raises NamesUnreachable when none is there."""
        failures = []
        servers = self._names.in_turn()
        for address in servers:
            try:
                link = await self._links.link(address, self.timeout_s / len(servers))
            except OSError as error:
                failures.append(_reason(error))
                continue
            self._names.preferred = address
            return link.local[0].partition("%")[0] or LOOPBACK
        raise self._names.unreachable(failures)

    async def _reach(self, address: str, request: Header, body: bytes, timeout_s: float) -> Frame:
        """Ask one address and return its answer; raises RoquetError when none comes."""
        clock = self.ports.clock
        asked_at = clock.monotonic()
        link = self._links.ready(address)
        left_s = timeout_s
        if link is None:
            link = await self._link(address, timeout_s)
            left_s -= clock.monotonic() - asked_at
        if link.is_congested:
            await self._room(link, address, left_s)
            left_s = timeout_s - (clock.monotonic() - asked_at)
        try:
            return await link.call(request, left_s, body)
        except TimeoutError:
            self._links.expired(link, asked_at)
            name = row_of(type(request)).name
            raise TimedOut(f"{address} did not answer {name} within {round(timeout_s, 3):g} s") from None
        except OSError as error:
            raise self._broken(f"lost {address} before its answer: {_reason(error)}") from None
        except TooManyWaiting as error:
            raise Busy(f"{address}: {error}", hint="send less at once") from None

    async def _link(self, address: str, timeout_s: float) -> Dialed:
        try:
            return await self._links.link(address, timeout_s)
        except OSError as error:
            raise self._broken(_reason(error)) from None

    async def _room(self, link: Dialed, address: str, timeout_s: float) -> None:
        """Wait until the peer has read most of what was sent to it."""
        waited_from = self.ports.clock.monotonic()
        try:
            await link.room(timeout_s)
        except TimeoutError as error:
            self._links.expired(link, waited_from)
            raise TimedOut(str(error), hint="nothing was sent") from None
        except OSError as error:
            raise self._broken(f"lost {address}: {_reason(error)}") from None

    def _broken(self, what: str) -> Unreachable | Closed:
        return Unreachable(what) if self._is_open else Closed(f"the client was closed meanwhile: {what}")

    async def _confirm(self, address: str, request: Header, body: bytes, timeout_s: float) -> Frame:
        answer = await self._reach(address, request, body, timeout_s)
        if answer.code != Code.SUCCESS:
            raise refusal(answer.code, answer.remark, address, row_of(type(request)).name)
        return answer

    def _connected(self, address: str) -> None:
        self._heartbeats.connected(address)

    def _route_changed(self, topic: str) -> None:
        for member in list(self._heartbeats.members):
            if topic in member.topics():
                member.route_changed(topic)
        if self._heartbeats.members:
            self._heartbeats.beat_soon()

    async def _keep_routes(self) -> None:
        clock = self.ports.clock
        while True:
            await clock.sleep_until(clock.monotonic() + REFRESH_SECONDS)
            await self._routes.refresh(self._heartbeats.topics())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
