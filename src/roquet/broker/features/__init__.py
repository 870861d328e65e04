"""Features: each a module that plugs in, named here in the order in which they see a draft.

A feature implements only the hooks that it needs:

    routes()              requests that it answers
    before_append(draft, properties)
                          the draft as it shall be stored, or a Refusal; `properties` are the draft's, parsed
    on_entries(entries)   each record in log order, after it became visible
    on_tick(now)          once a second

The broker collects the hooks once at start; a feature that is not in the list costs nothing. Features
never import each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from roquet.broker.features import later, order
from roquet.model.message import Draft, Entry
from roquet.ports import Clock
from roquet.transport.router import Handler
from roquet.wire.reply import Refusal
from roquet.wire.row import Header

Feature = later.Later | order.Order
BeforeAppend = Callable[[Draft, Mapping[str, str]], Draft | Refusal]


def all_features(clock: Clock, lock_live_s: float) -> tuple[Feature, ...]:
    """Return the features of this broker in their order, with the reason for each position."""
    return (
        later.Later(),  # first: what we cannot keep a promise for must not reach the log
        order.Order(clock, lock_live_s),  # anywhere: it sees no drafts
    )


class Hooks(NamedTuple):
    """The hooks of all features, flat."""

    routes: dict[type[Header], Handler]
    before_append: tuple[BeforeAppend, ...]
    on_entries: tuple[Callable[[Sequence[Entry]], None], ...]
    on_tick: tuple[Callable[[float], None], ...]


def collect(features: Sequence[Feature]) -> Hooks:
    """Return the hooks that the features implement."""

    def hooks(name: str) -> tuple[Any, ...]:
        return tuple(getattr(feature, name) for feature in features if hasattr(feature, name))

    routes: dict[type[Header], Handler] = {}
    for feature_routes in hooks("routes"):
        routes |= feature_routes()
    return Hooks(routes, hooks("before_append"), hooks("on_entries"), hooks("on_tick"))
