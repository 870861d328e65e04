"""The filter feature: SQL92 for pulls, its table, and groups whose members disagree.

    heartbeat ─▶ joined ─▶ table            pull ─▶ of_group, of_request ─▶ a predicate for the store
    dispatch ─▶ bits_of ─▶ the bits of the groups that want a message, kept beside its queue entry
                       └─▶ once a second: conflicts ─▶ log · runtime table   (203 shows them too)

Off unless `enablePropertyFilter` is set, as in Apache: then only the table is kept. Reference:
PullMessageProcessor, ExpressionMessageFilter and ExpressionForRetryMessageFilter of Apache 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from roquet.broker.core.conflicts import View, conflicts_of
from roquet.broker.core.expressions import TAG, Expressions
from roquet.broker.core.sessions import ConsumerData, Sessions
from roquet.broker.core.table_hook import TableHook
from roquet.broker.features.filter.bloom import bloom_for
from roquet.broker.features.filter.lexer import SqlError
from roquet.broker.features.filter.sql import Selector, parse
from roquet.broker.features.filter.table import FilterTable
from roquet.model import names
from roquet.model.match import Accept, Noted
from roquet.model.message import Entry, parse_properties
from roquet.ports import Clock
from roquet.wire.codes import Code
from roquet.wire.reply import Refusal

log = logging.getLogger("roquet.broker")

SQL92: Final = "SQL92"
SAVE_SECONDS: Final = 10.0
CONFLICT_LOG_SECONDS: Final = 60.0
"""A group in conflict is named at most once in this time, however often its members come and go."""


class FilterRules(NamedTuple):
    """The settings that decide about selectors."""

    is_enabled: bool = False
    retried_too: bool = False
    keep_dead_ms: int = 24 * 3_600_000
    notes_bits: bool = False


class Filter:
    """Selectors and subscription conflicts of one broker."""

    def __init__(
        self,
        clock: Clock,
        sessions: Sessions,
        bloom_error_percent: int,
        bloom_group_count: int,
        rules: Callable[[], FilterRules],
        newest_store_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`newest_store_ms` tells the store time of the last message, which may be ahead of the clock."""
        self._clock = clock
        self._newest_store_ms = newest_store_ms
        self._sessions = sessions
        self._rules = rules
        self._table = FilterTable(bloom_for(bloom_error_percent, bloom_group_count))
        self._unchecked: dict[str, None] = {}
        self._conflicts: dict[str, dict[str, list[View]]] = {}
        self._told_at: dict[str, float] = {}
        self.conflicts_seen = 0
        sessions.watchers.append(self)

    # Selectors.

    def expressions(self) -> Mapping[str, Expressions]:
        return {SQL92: self}

    def check(self, expression: str) -> None:
        """Raise the Refusal that a client gets for an expression that cannot be used."""
        self._check_enabled()
        _parsed(expression)

    def of_request(self, topic: str, group: str, expression: str) -> Accept:
        """Return what an expression that came with a pull accepts."""
        self._check_enabled()
        return self._accept(topic, group, _parsed(expression))

    def of_group(self, topic: str, group: str, sub_version: int) -> Accept:
        """Return what a group's own subscription accepts."""
        found = self._table.find(group, topic)
        if found is None:
            remark = (
                f"The broker's consumer filter data is not exist! The expression of {group} on {topic} "
                "may be wrong: the broker's log names the column"
            )
            raise Refusal(Code.FILTER_DATA_NOT_EXIST, remark)
        entry, selector = found
        if entry.client_version < sub_version:
            raise Refusal(Code.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
        self._check_enabled()
        return entry.noted_by(self._accept(topic, group, selector))

    def noted(self, topic: str, group: str) -> tuple[str, Noted] | None:
        """Return what is kept of a group's selector, as text and as a selector."""
        found = self._table.find(group, topic)
        if found is None:
            return None
        entry, selector = found
        return entry.text(), entry.noted_by(self._accept(topic, group, selector))

    def bits_of(self, entry: Entry) -> bytes:
        """Return what the store notes of a message: the groups that want it."""
        return self._table.bits_of(entry.topic, entry.properties) if self._rules().notes_bits else b""

    def _check_enabled(self) -> None:
        if not self._rules().is_enabled:
            remark = f"The broker does not support consumer to filter message by {SQL92}"
            raise Refusal(Code.SYSTEM_ERROR, f"{remark}: it has enablePropertyFilter=false")

    def _accept(self, topic: str, group: str, selector: Selector) -> Accept:
        if self._rules().retried_too and names.is_retry(topic):
            return self._accept_retried(topic)

        def accept(properties: bytes) -> bool:
            return selector.matches(parse_properties(properties.decode(errors="replace")))

        return accept

    def _accept_retried(self, topic: str) -> Accept:
        """A message that comes again is judged by the group's selector on the topic that it came from."""
        group = topic.removeprefix(names.RETRY_PREFIX)

        def accept(properties: bytes) -> bool:
            pairs = parse_properties(properties.decode(errors="replace"))
            found = self._table.find(group, pairs.get("RETRY_TOPIC", ""))
            return found is None or found[1].matches(pairs)

        return accept

    # What heartbeats say.

    def joined(self, data: ConsumerData, is_news: bool) -> None:
        """Note the selectors of a member; conflicts are looked for with the next tick."""
        if is_news:
            self._unchecked[data.group] = None
        now_ms = self._now_ms()
        for each in data.subscriptions:
            if (each.expression_type or TAG) == SQL92 and each.sub_string:
                self._table.register(data.group, each.topic, SQL92, each.sub_string, each.sub_version, now_ms)
        self._table.end_others(data.group, (each.topic for each in data.subscriptions), now_ms)

    def left(self, group: str) -> None:
        """Note that a member has gone; with the last one the group's selectors die."""
        self._unchecked[group] = None
        if group not in self._sessions.consumers:
            self._table.end_others(group, (), self._now_ms())

    def _now_ms(self) -> int:
        # No message that is stored already may look younger than a selector that is born now: nobody has
        # noted whether it matches. Store times never go back, the clock may.
        return max(self._clock.now_ms(), self._newest_store_ms())

    def tables(self) -> tuple[TableHook, ...]:
        now_ms, table = self._clock.now_ms, self._table

        def saved() -> None:
            table.changed = False

        return (
            TableHook(
                "consumerFilter.json",
                lambda stored: table.load(stored, now_ms()),
                lambda: table.dump(now_ms(), self._rules().keep_dead_ms),
                lambda: table.changed,
                saved,
                SAVE_SECONDS,
            ),
        )

    # Conflicts.

    def on_tick(self, now: float) -> None:
        """Look at the groups that changed since the last tick."""
        groups, self._unchecked = self._unchecked, {}
        for group in groups:
            live = self._sessions.consumers.get(group)
            found = conflicts_of(live) if live is not None else {}
            before = self._conflicts.get(group, {})
            self.conflicts_seen += len(found.keys() - before.keys())
            if found:
                self._conflicts[group] = found
                self._tell(group, found, now)
            elif before:
                del self._conflicts[group]
                log.info("the members of group %s subscribe alike again", group)
        if len(self._told_at) > len(self._conflicts):
            late = now - CONFLICT_LOG_SECONDS
            self._told_at = {group: at for group, at in self._told_at.items() if at > late}

    def _tell(self, group: str, found: Mapping[str, list[View]], now: float) -> None:
        told_at = self._told_at.get(group)
        if told_at is not None and now - told_at < CONFLICT_LOG_SECONDS:
            return
        self._told_at[group] = now
        topic, views = next(iter(found.items()))
        told = "; ".join(f"{_words(view)} by {', '.join(view.client_ids[:3])}" for view in views[:4])
        log.warning(
            "subscription conflict in group %s on %d topics: members must subscribe alike or they lose "
            "messages. %s: %s",
            group, len(found), topic, told,
        )  # fmt: skip

    def runtime_texts(self) -> Mapping[str, str]:
        return {
            "subscriptionConflictGroups": str(len(self._conflicts)),
            "subscriptionConflictTopics": str(sum(map(len, self._conflicts.values()))),
            "subscriptionConflictsSeen": str(self.conflicts_seen),
        }


def _parsed(expression: str) -> Selector:
    try:
        return parse(expression)
    except SqlError as error:
        shown = expression if len(expression) <= 200 else f"{expression[:200]}…"
        remark = f"parse the consumer's subscription failed: {error}. Expression: {shown}"
        raise Refusal(Code.SUBSCRIPTION_PARSE_FAILED, remark) from None


def _words(view: View) -> str:
    if not view.expression_type:
        return "not subscribed"
    return f"{view.expression_type} {view.expression[:100]!r}"
