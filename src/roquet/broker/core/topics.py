"""The topics of this broker: the table, the broker's own topics, and creation on first use.

The table is one of the three truths beside the log: every change is handed to `on_change`, which saves
it and tells the name servers before the request is answered. Rules of creation: Apache's
TopicConfigManager (5.5.0). Knows nothing of files or of the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from roquet.model import names
from roquet.model.topic import READ_WRITE, SYS_UNIT_SUB, DataVersion, Perm, Topic


class Identity(NamedTuple):
    """Who this broker is; a change of it makes another broker."""

    cluster: str
    broker_name: str
    broker_id: int


class TopicRules(NamedTuple):
    """The settings that decide about topics."""

    auto_create: bool = True
    default_queue_nums: int = 8
    cluster_topic: bool = True
    broker_topic: bool = True
    trace_topic: str | None = None


def system_topics(identity: Identity, rules: TopicRules) -> list[Topic]:
    """Return the topics that exist on every broker of this identity."""

    def make(name: str, queues: int, perm: int = READ_WRITE) -> Topic:
        return Topic(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)

    open_perm = READ_WRITE | Perm.INHERIT
    found = [
        make(names.SELF_TEST_TOPIC, 1),
        make(names.BENCHMARK_TOPIC, 1024),
        make(identity.cluster, 16, open_perm if rules.cluster_topic else Perm.INHERIT),
        make(identity.broker_name, 1, open_perm if rules.broker_topic else Perm.INHERIT),
        make(names.OFFSET_MOVED_TOPIC, 1),
        make(names.SCHEDULE_TOPIC, 18),
        make(f"{identity.cluster}_REPLY_TOPIC", 1),
        make(f"rmq_sys_REVIVE_LOG_{identity.cluster}", 8),
        make(f"rmq_sys_SYNC_BROKER_MEMBER_{identity.broker_name}", 1, Perm.INHERIT),
        make(names.HALF_TOPIC, 1),
        make(names.OP_HALF_TOPIC, 1),
        make(names.ROCKSDB_HALF_TOPIC, 1),
        make(names.ROCKSDB_OP_HALF_TOPIC, 1),
        make(names.TIMER_TOPIC, 1),
    ]
    if rules.auto_create:
        found.append(make(names.AUTO_CREATE_TOPIC, rules.default_queue_nums, open_perm))
    if rules.trace_topic:
        found.append(make(rules.trace_topic, 1))
    return found


class _Stored(msgspec.Struct, rename="camel"):
    """topics.json."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, Topic] = {}


class Topics:
    """The table of topics. `on_change` gets the topics that are new or different, after each change."""

    def __init__(
        self,
        identity: Identity,
        rules: TopicRules,
        now_ms: Callable[[], int],
        on_change: Callable[[list[Topic]], None],
    ) -> None:
        self.identity = identity
        self.rules = rules
        self.version = DataVersion(timestamp=now_ms())
        self.table: dict[str, Topic] = {}
        self.ordinary: dict[str, int] = {}
        """How many queues the topics have that take plain messages without a further look."""
        self._now_ms = now_ms
        self._on_change = on_change
        self.own_names = frozenset(topic.topic_name for topic in system_topics(identity, rules))
        for topic in system_topics(identity, rules):
            self.table[topic.topic_name] = topic
            self._glance(topic.topic_name)

    def load(self, stored: object) -> None:
        """Take over what topics.json held; the broker's own topics keep their shape."""
        read = msgspec.convert(stored, _Stored, strict=False)
        for name, topic in read.topic_config_table.items():
            if name not in self.own_names and not _fault(topic):
                self.table[name] = topic
                self._glance(name)
        self.version = read.data_version

    def dump(self) -> dict[str, Any]:
        """Return what topics.json shall hold."""
        table = {name: msgspec.to_builtins(topic) for name, topic in self.table.items()}
        return {"dataVersion": msgspec.to_builtins(self.version), "topicConfigTable": table}

    def get(self, name: str) -> Topic | None:
        return self.table.get(name)

    def put(self, *changed: Topic) -> None:
        """Store new or changed topics; those that are equal to the stored ones change nothing."""
        new = [topic for topic in changed if self.table.get(topic.topic_name) != topic]
        if new:
            before = {topic.topic_name: self.table.get(topic.topic_name) for topic in new}
            for topic in new:
                self.table[topic.topic_name] = topic
            self._changed(new, before)

    def delete(self, *gone: str) -> list[str]:
        """Forget topics; returns those that were there."""
        before = {name: self.table[name] for name in gone if name in self.table}
        for name in before:
            del self.table[name]
        if before:
            self._changed([], before)
        return list(before)

    def is_own(self, name: str) -> bool:
        """True for topics that belong to the broker: users neither change nor delete them."""
        return name in self.own_names or names.is_system(name)

    def create_on_send(
        self, name: str, template_name: str, client_queue_nums: int, producer_unit: bool
    ) -> Topic | None:
        """Return the topic that a first send creates from a template; None when the rules forbid it."""
        template = self.table.get(template_name)
        may = template_name != names.AUTO_CREATE_TOPIC or self.rules.auto_create
        if template is not None and may and template.perm & Perm.INHERIT:
            queues = max(min(client_queue_nums, template.write_queue_nums), 0)
            return self.create(name, queues, producer_unit, template.perm & ~Perm.INHERIT)
        return self.create(name, 1, producer_unit) if names.is_retry(name) else None

    def create(self, name: str, queues: int, unit: bool, perm: int = READ_WRITE) -> Topic:
        """Return the topic, creating it when it is not there yet."""
        topic = self.table.get(name)
        if topic is None:
            topic = Topic(
                topic_name=name,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=perm,
                topic_sys_flag=SYS_UNIT_SUB if unit and names.is_retry(name) else int(unit),
            )
            self.put(topic)
        return topic

    def mark_ordered(self, ordered: Iterable[str]) -> None:
        """Set the order flag as a name server's order configuration says."""
        wanted = set(ordered)
        self.put(
            *(
                msgspec.structs.replace(topic, order=name in wanted)
                for name, topic in list(self.table.items())
                if topic.order != (name in wanted)
            )
        )

    def touch(self) -> None:
        """Raise the version although no topic changed: what is said of all of them did."""
        self._changed([], {})

    def _changed(self, new: list[Topic], before: Mapping[str, Topic | None]) -> None:
        """Pass a change on. One that cannot be saved is taken back: a topic that the next start does not
        know would leave acknowledged messages without a way to them."""
        version = self.version
        self.version = version.next(self._now_ms())
        try:
            self._on_change(new)
        except BaseException:
            self.version = version
            for name, topic in before.items():
                if topic is None:
                    del self.table[name]
                else:
                    self.table[name] = topic
            raise
        finally:
            for name in before:
                self._glance(name)

    def _glance(self, name: str) -> None:
        """Keep what the lane for ordinary sends must know of a topic."""
        topic = self.table.get(name)
        if topic is None or topic.attributes or name in names.NO_SEND_TOPICS or _is_special(name):
            self.ordinary.pop(name, None)
        else:
            self.ordinary[name] = max(topic.read_queue_nums, topic.write_queue_nums)


def _is_special(name: str) -> bool:
    return names.is_retry(name) or names.is_dead_letter(name) or name.startswith(names.SYSTEM_PREFIX)


def _fault(topic: Topic) -> str:
    """Return why a topic from a file cannot be used; names become folders."""
    if "+" in topic.topic_name and names.is_retry(topic.topic_name):
        return names.topic_fault(topic.topic_name.replace("+", "_"))
    return names.topic_fault(topic.topic_name)
