"""Features: each a module that plugs in, named here in the order in which they see a draft.

A feature is a class. Its constructor takes exactly what it uses; it implements only the hooks it needs:

    routes()                          requests that it answers, by row class
    runs()                            those that it takes many at a time where they came together
    marks                             names of properties that make `before_append` act; a regular message
                                      with none of all features' marks is not shown to them
    before_append(draft, properties)  the draft itself, or a Rewrite; raises Refusal (`core.pipeline`)
    on_entries(entries)               each record in log order, when it becomes visible
    on_tick(now)                      once a second, monotonic time; must not block
    run()                             a coroutine for background work of a master, cancelled at the stop
                                      and when the broker is no longer master
    tables()                          files of its own under config/, loaded at start, saved when changed
    runtime_texts()                   lines of its own for the runtime table (28)
    expressions()                     types of subscriptions that it understands (`core.expressions`)

The broker collects the hooks once at start; a feature that is not in the list costs nothing. Features
never import each other: they meet in the log, or one is handed to another by its constructor and named in
`needs`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from roquet.broker.core.expressions import Expressions
from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.pipeline import BeforeAppend, Pipeline
from roquet.broker.core.sessions import Sessions
from roquet.broker.core.stats import Stats
from roquet.broker.core.table_hook import TableHook
from roquet.broker.core.topics import Topics
from roquet.broker.features import delay, filter, order, reply, retention, retry, slow, timer, transaction
from roquet.model.ids import UniqueIds
from roquet.model.message import Entry, Host
from roquet.ports import Ports
from roquet.runtime.settings import BrokerSettings
from roquet.store.settings import StoreSettings
from roquet.store.store import Store
from roquet.transport.router import Handler, RunHandler
from roquet.wire.requests.send import Refused
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


def all_features(parts: Parts) -> tuple[object, ...]:
    """Return the features of this broker in their order, with the reason for each position."""
    clock = parts.ports.clock
    locks = order.Order(clock, parts.settings().lock_live_ms / 1000)
    delays = _delays(parts)
    return (
        _retries(parts, delays, locks),  # before all others: a dead letter is nothing else any more
        _transactions(parts),  # before what delays: a half is stored at once, its commit comes here again
        _timers(parts),  # behind what may change or hide a message; a delay level wins over a time
        delays,  # behind what may change or hide a message: it must know where that shall go
        locks,  # anywhere: it sees no drafts
        _filters(parts),  # anywhere: the same
        _replies(parts),  # anywhere: the same
        slow.Slow(parts.groups, parts.stats.lags, lambda: _slow_rules(parts)),  # anywhere: the same
        retention.Retention(  # anywhere: the same
            clock, parts.topics, parts.store, lambda: parts.store_settings().clean_interval_ms
        ),
    )


def _timers(parts: Parts) -> timer.Timer:
    clock, store_v6 = parts.ports.clock, parts.store_host.is_v6
    recalls = timer.Recalls(
        parts.topics, parts.pipeline, clock, store_v6, parts.settings, parts.store_settings
    )
    return timer.Timer(
        clock,
        parts.ports.disk,
        parts.store,
        parts.pipeline,
        parts.stats,
        recalls,
        parts.settings().broker_name,
        store_v6,
        parts.store_settings,
    )


def _delays(parts: Parts) -> delay.Delay:
    settings = parts.settings()
    return delay.Delay(
        parts.ports.clock,
        parts.store,
        parts.pipeline,
        parts.stats,
        parts.store_host.is_v6,
        lambda: parts.store_settings().delay_levels_ms,
        settings.delay_offsets_flush_interval_ms / 1000,
        settings.delay_offsets_version_step,
    )


def _retries(parts: Parts, delays: delay.Delay, locks: order.Order) -> retry.Retry:
    return retry.Retry(
        parts.store,
        parts.pipeline,
        parts.topics,
        parts.groups,
        parts.stats,
        parts.ports.rng,
        parts.store_host.is_v6,
        lambda: parts.settings().permission,
        lambda: parts.store_settings().delay_levels_ms,
        delays.before_append,
        locks.holds_any,
    )


def _transactions(parts: Parts) -> transaction.Transaction:
    return transaction.Transaction(
        parts.ports.clock,
        parts.store,
        parts.pipeline,
        parts.topics,
        parts.offsets,
        parts.sessions,
        parts.stats,
        parts.store_host,
        lambda: parts.settings().reject_transaction,
        lambda: _transaction_rules(parts),
    )


def _transaction_rules(parts: Parts) -> transaction.Rules:
    settings = parts.settings()
    age_ms_max = parts.store_settings().file_reserved_hours * 3_600_000
    return transaction.Rules(
        settings.transaction_timeout_ms,
        transaction.CheckRules(
            settings.transaction_check_interval_ms, settings.transaction_check_max, age_ms_max
        ),
    )


def _filters(parts: Parts) -> filter.Filter:
    settings = parts.settings()

    def rules() -> filter.FilterRules:
        now = parts.settings()
        keep_ms, notes_bits = now.filter_data_keep_ms, now.filter_bit_map
        return filter.FilterRules(now.property_filter, now.filter_support_retry, keep_ms, notes_bits)

    filters = filter.Filter(
        parts.ports.clock,
        parts.sessions,
        settings.bloom_error_percent,
        settings.bloom_group_count,
        rules,
        lambda: parts.store.newest_store_ms,
    )
    parts.store.note_bits(filters.bits_of)
    return filters


def _slow_rules(parts: Parts) -> slow.SlowRules:
    settings = parts.settings()
    return slow.SlowRules(settings.disable_slow_groups, settings.slow_behind_bytes_max)


def _replies(parts: Parts) -> reply.Replies:
    settings = parts.settings()

    def rules() -> reply.Rules:
        now = parts.settings()
        return reply.Rules(now.store_reply, now.start_accept_send_ms)

    return reply.Replies(
        parts.ports.clock,
        parts.ports.rng,
        parts.pipeline,
        parts.topics,
        parts.sessions,
        parts.stats,
        parts.store_host,
        Refused(settings.region_id, "true" if settings.trace_on else "false"),
        rules,
    )


class Hooks(NamedTuple):
    """The hooks of all features, flat."""

    routes: dict[type[Header], Handler]
    runs: dict[type[Header], RunHandler]
    marks: frozenset[str]
    before_append: tuple[BeforeAppend, ...]
    on_entries: tuple[Callable[[Sequence[Entry]], None], ...]
    on_tick: tuple[Callable[[float], None], ...]
    run: tuple[Callable[[], Coroutine[Any, Any, None]], ...]
    tables: tuple[TableHook, ...]
    runtime_texts: tuple[Callable[[], Mapping[str, str]], ...]
    expressions: dict[str, Expressions]


def collect(features: Sequence[object]) -> Hooks:
    """Return the hooks that the features implement."""

    def hooks(name: str) -> tuple[Any, ...]:
        return tuple(getattr(feature, name) for feature in features if hasattr(feature, name))

    routes: dict[type[Header], Handler] = {}
    for feature_routes in hooks("routes"):
        more = feature_routes()
        assert not routes.keys() & more.keys(), "two features answer one request"
        routes |= more
    seers = [feature for feature in features if hasattr(feature, "before_append")]
    assert all(hasattr(feature, "marks") for feature in seers), "a feature that sees drafts names its marks"
    return Hooks(
        routes,
        {request: handler for runs in hooks("runs") for request, handler in runs().items()},
        frozenset().union(*hooks("marks")),
        hooks("before_append"),
        hooks("on_entries"),
        hooks("on_tick"),
        hooks("run"),
        tuple(table for tables in hooks("tables") for table in tables()),
        hooks("runtime_texts"),
        {kind: found for expressions in hooks("expressions") for kind, found in expressions().items()},
    )
