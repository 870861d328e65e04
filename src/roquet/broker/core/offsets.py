"""How far each group is in each queue: committed, last pulled, and resets that wait to be taken.

Keys are `topic@group`, as in consumerOffset.json. Commits change memory only; the table is saved every
five seconds and at the end, so a crash repeats at most that much. A reset ordered by an administrator
wins over commits that are still under way until the next pull has taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from roquet.model.topic import DataVersion

Table = dict[str, dict[int, int]]


class _Stored(msgspec.Struct, rename="camel"):
    """consumerOffset.json; what is not named here is derived."""

    data_version: DataVersion = DataVersion()
    offset_table: Table = {}
    pull_offset_table: Table = {}


class Offsets:
    """The offsets of every group on this broker."""

    def __init__(self, now_ms: Callable[[], int], version_step: int = 500) -> None:
        self.version = DataVersion(timestamp=now_ms())
        self.committed: Table = {}
        self.pulled: Table = {}
        self._resets: Table = {}
        self._now_ms = now_ms
        self._version_step = version_step
        self._commits = 0
        self.changed = False

    def load(self, stored: object) -> None:
        """Take over what consumerOffset.json held."""
        read = msgspec.convert(stored, _Stored, strict=False)
        self.committed = read.offset_table
        self.pulled = read.pull_offset_table
        self.version = read.data_version

    def dump(self) -> dict[str, Any]:
        """Return what consumerOffset.json shall hold."""
        topics_by_group: dict[str, list[str]] = {}
        for key in self.committed:
            topic, _, group = key.partition("@")
            topics_by_group.setdefault(group, []).append(topic)
        return {
            "dataVersion": msgspec.to_builtins(self.version),
            "groupTopicMap": topics_by_group,
            "offsetTable": self.committed,
            "pullOffsetTable": self.pulled,
        }

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Store how far a group is; going back is allowed. Ignored while a reset waits."""
        key = f"{topic}@{group}"
        if queue_id in self._resets.get(key, ()):
            return
        self.committed.setdefault(key, {})[queue_id] = queue_offset
        self.changed = True
        self._commits += 1
        if self._commits % self._version_step == 0:
            self.version = self.version.next(self._now_ms())

    def pull_seen(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Remember where a group last pulled, which shows what is in flight."""
        key = f"{topic}@{group}"
        queues = self.pulled.get(key)
        if queues is None:
            queues = self.pulled[key] = {}
        queues[queue_id] = queue_offset

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a group's offset in a queue, or None; a reset that waits counts as the offset."""
        key = f"{topic}@{group}"
        reset = self._resets.get(key)
        if reset is not None and queue_id in reset:
            return reset[queue_id]
        return self.committed.get(key, {}).get(queue_id)

    def query_pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        return self.pulled.get(f"{topic}@{group}", {}).get(queue_id)

    def order_reset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Move a group: committed at once, and the next pull of that queue is sent there."""
        key = f"{topic}@{group}"
        self.committed.setdefault(key, {})[queue_id] = queue_offset
        self._resets.setdefault(key, {})[queue_id] = queue_offset
        self.changed = True

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return and forget the reset that waits for a queue, if there is one."""
        if not self._resets:
            return None
        key = f"{topic}@{group}"
        queues = self._resets.get(key)
        if queues is None or queue_id not in queues:
            return None
        queue_offset = queues.pop(queue_id)
        if not queues:
            del self._resets[key]
        return queue_offset

    def topics_of(self, group: str) -> list[str]:
        """Return the topics that a group has offsets for."""
        return [key.partition("@")[0] for key in self.committed if key.partition("@")[2] == group]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets for a topic."""
        return [key.partition("@")[2] for key in self.committed if key.partition("@")[0] == topic]

    def copy(self, source: str, target: str, topic: str) -> None:
        """Give a group the offsets of another for one topic."""
        found = self.committed.get(f"{topic}@{source}")
        if found is not None:
            self.committed[f"{topic}@{target}"] = dict(found)
            self.changed = True

    def forget_topic(self, topic: str) -> None:
        self._forget(key for key in list(self.committed) if key.partition("@")[0] == topic)

    def forget_group(self, group: str) -> None:
        self._forget(key for key in list(self.committed) if key.partition("@")[2] == group)

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            for table in (self.committed, self.pulled, self._resets):
                table.pop(key, None)
            self.changed = True
