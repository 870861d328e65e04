"""The consumer groups of this broker: their settings, and which topics a group may not read.

Like the topics, a truth beside the log: each change goes to `on_change` and is saved before the request
is answered. Knows nothing of files, of the wire, or of who is connected (`sessions`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from roquet.model import names
from roquet.model.group import Group
from roquet.model.topic import DataVersion

FORBIDDEN_READ_BIT: Final = 0


class _Stored(msgspec.Struct, rename="camel"):
    """subscriptionGroup.json."""

    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, int]] = {}
    subscription_group_table: dict[str, Group] = {}


class Groups:
    """The table of groups."""

    def __init__(self, auto_create: bool, now_ms: Callable[[], int], on_change: Callable[[], None]) -> None:
        self.auto_create = auto_create
        self.version = DataVersion(timestamp=now_ms())
        self.table: dict[str, Group] = {name: Group(group_name=name) for name in names.SYSTEM_GROUPS}
        self.forbidden: dict[str, dict[str, int]] = {}
        self._now_ms = now_ms
        self._on_change = on_change

    def load(self, stored: object) -> None:
        """Take over what subscriptionGroup.json held."""
        read = msgspec.convert(stored, _Stored, strict=False)
        self.table |= {
            name: group
            for name, group in read.subscription_group_table.items()
            if not names.group_fault(name)
        }
        self.forbidden = read.forbidden_table
        self.version = read.data_version

    def dump(self) -> dict[str, Any]:
        """Return what subscriptionGroup.json shall hold."""
        return {
            "dataVersion": msgspec.to_builtins(self.version),
            "forbiddenTable": self.forbidden,
            "subscriptionGroupTable": {
                name: msgspec.to_builtins(group) for name, group in self.table.items()
            },
        }

    def get(self, name: str) -> Group | None:
        """Return a group that is there already."""
        return self.table.get(name)

    def find(self, name: str) -> Group | None:
        """Return a group, making it on first use when the rules allow that."""
        group = self.table.get(name)
        allowed = self.auto_create or name.startswith(names.SYSTEM_GROUP_PREFIX)
        if group is None and allowed and not names.group_fault(name):
            group = Group(group_name=name)
            self.put(group)
        return group

    def put(self, *changed: Group) -> None:
        """Store new or changed groups."""
        new = [group for group in changed if self.table.get(group.group_name) != group]
        if new:
            before = dict(self.table)
            for group in new:
                self.table[group.group_name] = group
            try:
                self._changed()
            except OSError:
                self.table = before  # what is not saved must not be built on
                raise

    def delete(self, name: str) -> bool:
        """Forget a group and what it may not read; returns whether it was there."""
        gone = self.table.pop(name, None) is not None
        gone = self.forbidden.pop(name, None) is not None or gone
        if gone:
            self._changed()
        return gone

    def may_read(self, group: str, topic: str) -> bool:
        return not self.forbidden.get(group, {}).get(topic, 0) >> FORBIDDEN_READ_BIT & 1

    def set_may_read(self, group: str, topic: str, readable: bool) -> None:
        """Allow or forbid a group to read one topic."""
        if readable == self.may_read(group, topic):
            return
        topics = self.forbidden.setdefault(group, {})
        topics[topic] = topics.get(topic, 0) ^ 1 << FORBIDDEN_READ_BIT
        if not topics[topic]:
            del topics[topic]
            if not topics:
                del self.forbidden[group]
        self._changed()

    def _changed(self) -> None:
        self.version = self.version.next(self._now_ms())
        self._on_change()
