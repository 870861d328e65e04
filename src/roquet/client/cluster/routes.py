"""The routes that one client knows: asked for once, kept fresh while they are in use, kept on in bad times.

    route(topic)          known ─▶ at once          unknown ─▶ the name servers, one question for all who wait
    publish_route(topic)  the same; a topic that nobody knows gets the promise of TBW102's brokers
    refresh()             every 30 s, for topics that members name or somebody asked for lately

When no name server answers, or one that has just started knows nothing, what was known stays in force:
the brokers themselves are the last word. Knows nothing of connections.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

from roquet.client.cluster.names import Names
from roquet.client.core.route_view import RouteView, promised
from roquet.client.errors import NamesUnreachable, NoRoute, RoquetError, Unreachable, refusal
from roquet.ports import Clock
from roquet.wire.bodies import route as route_body
from roquet.wire.bodies.registration import BodyError
from roquet.wire.codes import Code
from roquet.wire.requests.names import GetClusters, GetRoute

log = logging.getLogger("roquet.client")

REFRESH_SECONDS: Final = 30.0
UNUSED_SECONDS_MAX: Final = 300.0
"""Routes that nobody wanted for so long are forgotten."""

MISSING_SECONDS_MAX: Final = 120.0
"""How long a route outlives the name server's word for it: as long as one takes to give up a broker."""


class _Known:
    """A route with what is known about its use."""

    __slots__ = ("missing_since", "used", "used_at", "view")

    def __init__(self, view: RouteView, now: float) -> None:
        self.view = view
        self.used = True
        self.used_at = now
        self.missing_since: float | None = None


class Routes:
    """Knows who serves which topic; `changed` is told of a topic whose route has become another."""

    def __init__(
        self,
        names: Names,
        clock: Clock,
        timeout_s: float,
        auto_create_key: str,
        changed: Callable[[str], None],
    ) -> None:
        self._names = names
        self._clock = clock
        self._timeout_s = timeout_s
        self._auto_create_key = auto_create_key
        self._changed = changed
        self._known: dict[str, _Known] = {}
        self._promised: dict[str, RouteView] = {}
        self._asking: dict[str, asyncio.Task[RouteView]] = {}

    def views(self) -> list[RouteView]:
        """Return all routes that are known, promises among them."""
        return [known.view for known in self._known.values()] + list(self._promised.values())

    async def route(self, topic: str) -> RouteView:
        """Return the route of a topic; raises NoRoute or NamesUnreachable when none is known."""
        known = self._known.get(topic)
        if known is not None:
            known.used = True
            return known.view
        return await self.fresh(topic)

    async def fresh(self, topic: str) -> RouteView:
        """Ask the name servers now; what was known stays in force when they cannot tell."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._found(topic), name=f"roquet route {topic}")
            self._asking[topic] = asking
            asking.add_done_callback(partial(self._asked, topic))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            # Cancelled is the question, by `close`, and not whoever waits for it.
            task = asyncio.current_task()
            if asking.cancelled() and task is not None and not task.cancelling():
                raise NamesUnreachable("the client was closed while it asked for a route") from None
            raise

    async def publish_route(self, topic: str) -> RouteView:
        """Return the route to send along; raises NoRoute when no queue takes messages."""
        known = self._known.get(topic)
        if known is not None and known.view.write_queues():
            known.used = True
            return known.view
        view = self._promised.get(topic)
        if view is not None:
            return view
        try:
            view = await self.fresh(topic)
        except NoRoute:
            view = await self._promise(topic)
        if not view.write_queues():
            raise self._not_writable(view)
        return view

    async def refresh(self, topics: Iterable[str]) -> None:
        """Ask for everything in use, `topics` among it, and forget what nobody used for long."""
        now = self._clock.monotonic()
        wanted = dict.fromkeys(topics)
        for topic, known in list(self._known.items()):
            if known.used or topic in wanted:
                known.used, known.used_at = False, now
            elif now - known.used_at > UNUSED_SECONDS_MAX:
                del self._known[topic]
        for topic in list({**wanted, **dict.fromkeys(self._known), **dict.fromkeys(self._promised)}):
            try:
                if await self._ask(topic) is None:
                    self._promised.pop(topic, None)  # promised again when somebody wants it
            except Unreachable as error:
                log.warning("going on with the routes that are known: %s", error.what)
                return
            except RoquetError as error:
                log.warning("the route of %s stays as it is: %s", topic, error.what)

    async def close(self) -> None:
        """Break off what is being asked, and forget everything."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._known.clear()
        self._promised.clear()

    def _asked(self, topic: str, asking: asyncio.Task[RouteView]) -> None:
        del self._asking[topic]
        if not asking.cancelled():
            asking.exception()  # whoever waited may be gone: then nobody is left to look at it

    async def _found(self, topic: str) -> RouteView:
        try:
            view = await self._ask(topic)
        except NamesUnreachable as error:
            known = self._known.get(topic)
            if known is None:
                raise
            log.warning("going on with the route of %s that is known: %s", topic, error.what)
            return known.view
        if view is None:
            raise await self._nobody(topic)
        return view

    async def _ask(self, topic: str) -> RouteView | None:
        """Return what is in force after asking the name servers; None when the topic is unknown."""
        found = await self._fetch(topic)
        known = self._known.get(topic)
        now = self._clock.monotonic()
        if found is not None:
            self._learn(topic, found, now)
            return found
        if known is not None:
            if known.missing_since is None:
                known.missing_since = now
            if now - known.missing_since < MISSING_SECONDS_MAX:
                return known.view
            del self._known[topic]
        return None

    async def _fetch(self, topic: str) -> RouteView | None:
        """Return what the name servers say, None when none of them knows the topic."""
        address, answer = await self._names.call(GetRoute(topic, True), b"", self._timeout_s)
        if answer.code == Code.TOPIC_NOT_EXIST:
            return None
        if answer.code != Code.SUCCESS:
            raise refusal(answer.code, answer.remark, address, "GET_ROUTEINFO_BY_TOPIC")
        try:
            return RouteView(topic, route_body.decode(answer.body))
        except BodyError as error:
            raise NamesUnreachable(f"{address} sent a route that cannot be read: {error}") from None

    def _learn(self, topic: str, view: RouteView, now: float) -> None:
        known = self._known.get(topic)
        before = self._promised.pop(topic, None) if known is None else known.view
        if known is None:
            self._known[topic] = _Known(view, now)
        else:
            known.view, known.missing_since = view, None
        if before != view:
            if before is not None:
                log.info("the route of %s has changed: %r", topic, view)
            self._changed(topic)

    async def _promise(self, topic: str) -> RouteView:
        """Return the route that a first message will create; raises NoRoute when the servers create none."""
        model = await self._fetch(self._auto_create_key)
        if model is None:
            raise await self._nobody(topic)
        view = promised(topic, model)
        if view.write_queues():
            self._promised[topic] = view
        return view

    async def _nobody(self, topic: str) -> NoRoute:
        """Return the error for a topic that nobody serves, with the reason as far as it can be found out."""
        asked = self._names.addresses
        if topic != self._auto_create_key and await self._fetch(self._auto_create_key) is not None:
            return NoRoute(topic, asked, why="the topic does not exist yet; a first message will create it")
        _, answer = await self._names.call(GetClusters(), b"", self._timeout_s)
        if answer.code == Code.SUCCESS and not _brokers(answer.body):
            hint = "start a broker for these name servers"
            return NoRoute(topic, asked, why="no broker has registered there", hint=hint)
        return NoRoute(topic, asked, why="the topic does not exist and auto-creation is off")

    def _not_writable(self, view: RouteView) -> NoRoute:
        brokers = ", ".join(view.brokers()) or "nobody"
        return NoRoute(
            view.topic,
            self._names.addresses,
            why=f"it is known at {brokers}, but no queue takes messages: no write permission, or no master",
            hint="is the master running, and is writing allowed? see `roquet topic show` for its permissions",
        )


def _brokers(body: bytes) -> Collection[str]:
    """Return the names of all brokers; a list that cannot be read counts as somebody."""
    try:
        return route_body.decode_clusters(body).broker_addr_table
    except BodyError:
        return ("somebody",)
