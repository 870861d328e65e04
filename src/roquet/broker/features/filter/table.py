"""Which selector each group has on each topic: consumerFilter.json.

    heartbeat ─▶ register ─▶ alive ── group or topic gone ──▶ dead (kept a day) ── heartbeat ──▶ alive

A newer version of a client's subscription replaces an older one, never the other way round. Entries of
groups that went stay for a day, since the bits that were noted of messages are judged by the time of birth.
Pure: times are arguments. Reference: ConsumerFilterManager of Apache 5.5.0; unlike it, an expression that
cannot be parsed is dropped when a file is loaded, where Apache would hand out every message.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from roquet.broker.features.filter.bloom import Bloom
from roquet.broker.features.filter.lexer import SqlError
from roquet.broker.features.filter.sql import Selector, parse
from roquet.model import names
from roquet.model.match import Accept, Noted, mask_of
from roquet.model.message import parse_properties

log = logging.getLogger("roquet.broker")

LOADED_DEAD_MS: Final = 30_000
"""Nobody is connected while a file is loaded: entries count as dead since this long, or their birth."""


class _BloomData(msgspec.Struct, rename="camel"):
    bit_num: int = 0
    bit_pos: list[int] = []


class Entry(msgspec.Struct, rename="camel", kw_only=True):
    """The selector of one group on one topic, in Apache's order."""

    bloom_filter_data: _BloomData
    born_time: int
    client_version: int
    consumer_group: str
    dead: bool = False
    dead_time: int = 0
    expression: str
    expression_type: str
    topic: str

    @property
    def is_dead(self) -> bool:
        return self.dead_time >= self.born_time

    def noted_by(self, accept: Accept) -> Noted:
        """Return the selector as one whose verdicts lie beside the messages stored since its birth."""
        bloom = self.bloom_filter_data
        return Noted(accept, self.born_time, bloom.bit_num, bloom.bit_pos)

    def text(self) -> str:
        """Return the entry as Apache shows it: JSON with tabs, lists on one line."""
        self.dead = self.is_dead
        return _pretty(msgspec.to_builtins(self))


class _TopicStored(msgspec.Struct, rename="camel"):
    group_filter_data: dict[str, Entry] = {}
    topic: str = ""


class _Stored(msgspec.Struct, rename="camel"):
    """consumerFilter.json."""

    filter_data_by_topic: dict[str, _TopicStored] = {}


class FilterTable:
    """The selectors by group and topic."""

    def __init__(self, bloom: Bloom) -> None:
        self._bloom = bloom
        self._entries: dict[str, dict[str, tuple[Entry, Selector]]] = {}
        self._masks: dict[str, tuple[tuple[int, Selector], ...]] = {}
        self.changed = False

    def bits_of(self, topic: str, properties: bytes) -> bytes:
        """Return the bits of all groups on a topic whose selectors a message matches; none without groups."""
        masks = self._masks.get(topic)
        if masks is None:
            masks = self._masks[topic] = tuple(
                (mask_of(topics[topic][0].bloom_filter_data.bit_pos), topics[topic][1])
                for topics in self._entries.values()
                if topic in topics
            )
        if not masks:
            return b""
        bits, pairs = 0, parse_properties(properties.decode(errors="replace"))
        for mask, selector in masks:
            if selector.matches(pairs):
                bits |= mask
        return bits.to_bytes(self._bloom.bit_count // 8, "little")

    def find(self, group: str, topic: str) -> tuple[Entry, Selector] | None:
        """Return the entry of a group on a topic, dead or alive."""
        return self._entries.get(group, {}).get(topic)

    def register(self, group: str, topic: str, kind: str, expression: str, version: int, now_ms: int) -> None:
        """Take what a heartbeat says of one topic; a wrong expression leaves no entry behind."""
        known = self.find(group, topic)
        if known is not None and not self._replaces(known[0], kind, expression, version):
            return
        self.changed = True
        self._masks.pop(topic, None)
        try:
            selector = parse(expression)
        except SqlError as error:
            # Without an entry the group's pulls are refused: better than too many messages.
            log.warning("group %s, topic %s: %r cannot be used: %s", group, topic, expression[:200], error)
            self._entries.get(group, {}).pop(topic, None)
            return
        if selector.ignored:
            log.warning("group %s, topic %s: %r, %s", group, topic, expression[:200], selector.ignored)
        positions = self._bloom.positions(f"{group}#{topic}")
        entry = Entry(
            bloom_filter_data=_BloomData(self._bloom.bit_count, list(positions)),
            born_time=now_ms,
            client_version=version,
            consumer_group=group,
            expression=expression,
            expression_type=kind,
            topic=topic,
        )
        self._entries.setdefault(group, {})[topic] = (entry, selector)

    def _replaces(self, known: Entry, kind: str, expression: str, version: int) -> bool:
        """Return whether a new entry is needed; brings the known one up to date when it is not."""
        if version < known.client_version:
            return False
        is_same = (kind, expression) == (known.expression_type, known.expression)
        if version > known.client_version and not is_same:
            return True
        if known.is_dead or version > known.client_version:
            known.dead_time = 0
            known.client_version = version
            self.changed = True
        return False

    def end_others(self, group: str, topics: Iterable[str], now_ms: int) -> None:
        """Let the entries of a group die whose topics it no longer subscribes."""
        kept = set(topics)
        for topic, (entry, _) in self._entries.get(group, {}).items():
            if topic not in kept and not entry.is_dead:
                entry.dead_time = now_ms
                self.changed = True

    def load(self, stored: object, now_ms: int) -> None:
        """Take over what consumerFilter.json held; nothing of a file with another bloom filter."""
        try:
            read = msgspec.convert(stored, _Stored, strict=False)
        except msgspec.ValidationError as error:
            log.warning("consumerFilter.json is not what it should be: %s; the groups will tell again", error)
            return
        rows = [
            entry
            for by_group in read.filter_data_by_topic.values()
            for entry in by_group.group_filter_data.values()
        ]
        self._masks = {}
        shape = (self._bloom.bit_count, self._bloom.hash_count)
        for entry in rows:
            if (entry.bloom_filter_data.bit_num, len(entry.bloom_filter_data.bit_pos)) != shape:
                log.warning("consumerFilter.json was written with another bloom filter: not loaded")
                return
        for entry in rows:
            if names.group_fault(entry.consumer_group) or names.topic_fault(entry.topic):
                continue
            try:
                selector = parse(entry.expression)
            except SqlError as error:
                log.warning("group %s, topic %s: %s", entry.consumer_group, entry.topic, error)
                continue
            if not entry.dead_time:
                entry.dead_time = max(entry.born_time, now_ms - LOADED_DEAD_MS)
            self._entries.setdefault(entry.consumer_group, {})[entry.topic] = (entry, selector)

    def dump(self, now_ms: int, keep_dead_ms: int) -> dict[str, Any]:
        """Return what consumerFilter.json shall hold, without what has been dead for too long."""
        self._forget(now_ms - keep_dead_ms)
        by_topic: dict[str, _TopicStored] = {}
        for group, topics in self._entries.items():
            for topic, (entry, _) in topics.items():
                entry.dead = entry.is_dead
                by_topic.setdefault(topic, _TopicStored({}, topic)).group_filter_data[group] = entry
        stored: dict[str, Any] = msgspec.to_builtins(_Stored(by_topic))
        return stored

    def _forget(self, dead_before_ms: int) -> None:
        self._masks = {}
        for group in list(self._entries):
            topics = self._entries[group]
            for topic in [each for each, (entry, _) in topics.items() if _died(entry, dead_before_ms)]:
                del topics[topic]
            if not topics:
                del self._entries[group]


def _pretty(value: object, depth: int = 1) -> str:
    if not isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    tabs = "\t" * depth
    members = ",\n".join(f'{tabs}"{name}":{_pretty(member, depth + 1)}' for name, member in value.items())
    return f"{{\n{members}\n{tabs[1:]}}}"


def _died(entry: Entry, before_ms: int) -> bool:
    return entry.is_dead and entry.dead_time <= before_ms
