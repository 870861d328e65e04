"""Features: each a module that plugs in, named here in the order in which they see a draft.

A feature is a class. Its constructor takes exactly what it uses; it implements only the hooks it needs:

    routes()                          requests that it answers, by row class
    before_append(draft, properties)  the draft itself, or a Rewrite; raises Refusal (`core.pipeline`)
    on_entries(entries)               each record in log order, when it becomes visible
    on_tick(now)                      once a second, monotonic time; must not block
    run()                             a coroutine for background work of a master, cancelled at the stop
                                      and when the broker is no longer master
    tables()                          files of its own under config/, loaded at start, saved when changed
    runtime_texts()                   lines of its own for the runtime table (28)

The broker collects the hooks once at start; a feature that is not in the list costs nothing. Features
never import each other: they meet in the log, or one is handed to another by its constructor and named in
`needs`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.pipeline import BeforeAppend, Pipeline
from roquet.broker.core.sessions import Sessions
from roquet.broker.core.stats import Stats
from roquet.broker.core.topics import Topics
from roquet.broker.features import later, order
from roquet.model.ids import UniqueIds
from roquet.model.message import Entry, Host
from roquet.ports import Ports
from roquet.runtime.settings import BrokerSettings
from roquet.store.settings import StoreSettings
from roquet.store.store import Store
from roquet.transport.router import Handler
from roquet.wire.row import Header


class Parts(NamedTuple):
    """Everything a feature may be given; `all_features` hands each what it uses and no more."""

    ports: Ports
    store: Store
    pipeline: Pipeline
    topics: Topics
    groups: Groups
    offsets: Offsets
    sessions: Sessions
    stats: Stats
    store_host: Host
    unique_ids: UniqueIds
    settings: Callable[[], BrokerSettings]
    store_settings: Callable[[], StoreSettings]


class TableHook(NamedTuple):
    """A file under config/ that a feature owns: loaded before the store opens, saved when `is_changed`."""

    file_name: str
    load: Callable[[object], None]
    dump: Callable[[], dict[str, Any]]
    is_changed: Callable[[], bool]
    saved: Callable[[], None]
    """Called once what `dump` returned is on disk."""
    period_s: float


def all_features(parts: Parts) -> tuple[object, ...]:
    """Return the features of this broker in their order, with the reason for each position."""
    clock = parts.ports.clock
    return (
        later.Later(),  # first: what we cannot keep a promise for must not reach the log
        order.Order(clock, parts.settings().lock_live_ms / 1000),  # anywhere: it sees no drafts
    )


class Hooks(NamedTuple):
    """The hooks of all features, flat."""

    routes: dict[type[Header], Handler]
    before_append: tuple[BeforeAppend, ...]
    on_entries: tuple[Callable[[Sequence[Entry]], None], ...]
    on_tick: tuple[Callable[[float], None], ...]
    run: tuple[Callable[[], Coroutine[Any, Any, None]], ...]
    tables: tuple[TableHook, ...]
    runtime_texts: tuple[Callable[[], Mapping[str, str]], ...]


def collect(features: Sequence[object]) -> Hooks:
    """Return the hooks that the features implement."""

    def hooks(name: str) -> tuple[Any, ...]:
        return tuple(getattr(feature, name) for feature in features if hasattr(feature, name))

    routes: dict[type[Header], Handler] = {}
    for feature_routes in hooks("routes"):
        more = feature_routes()
        assert not routes.keys() & more.keys(), "two features answer one request"
        routes |= more
    return Hooks(
        routes,
        hooks("before_append"),
        hooks("on_entries"),
        hooks("on_tick"),
        hooks("run"),
        tuple(table for tables in hooks("tables") for table in tables()),
        hooks("runtime_texts"),
    )
