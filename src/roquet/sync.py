"""The client for synchronous code: the same objects over one background event loop.

    with roquet.sync.Producer("127.0.0.1:9876", group="shop") as producer:
        receipt = producer.send("orders", b"...", tag="created", keys=["42"])

Written by `roquet.client.describe_sync` from the asynchronous classes, whose docstrings say more: do not
edit, run `make docs`. Every object may be used from several threads. Functions that you hand in (handlers,
checks) run in threads of their own.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Unpack

from roquet.client.admin.admin import Admin as AsyncAdmin
from roquet.client.admin.brokers import Brokers as AsyncBrokers
from roquet.client.admin.brokers import Runtime
from roquet.client.admin.clients import Clients as AsyncClients
from roquet.client.admin.clients import Connection, ConsumerGroup, LiveProducer, View
from roquet.client.admin.dead_letters import DeadGroup, Replayed
from roquet.client.admin.dead_letters import DeadLetters as AsyncDeadLetters
from roquet.client.admin.groups import Groups as AsyncGroups
from roquet.client.admin.messages import FOUND_MAX
from roquet.client.admin.messages import Messages as AsyncMessages
from roquet.client.admin.names import NameServers as AsyncNameServers
from roquet.client.admin.offsets import Bounds, Progress, QueueTimes, Target
from roquet.client.admin.offsets import Offsets as AsyncOffsets
from roquet.client.admin.reach import BrokerPlace
from roquet.client.admin.reading import PAGE_MAX
from roquet.client.admin.timers import Pending
from roquet.client.admin.timers import Timers as AsyncTimers
from roquet.client.admin.topics import Access, Kind, TopicStats
from roquet.client.admin.topics import Topics as AsyncTopics
from roquet.client.admin.transactions import Transactions as AsyncTransactions
from roquet.client.blocking import Blocking, BlockingBlock, in_thread
from roquet.client.cluster.cluster import Cluster as AsyncCluster
from roquet.client.cluster.where import Encoding
from roquet.client.compression import Compression
from roquet.client.consumer.consumer import Consumer as AsyncConsumer
from roquet.client.core.accumulate import Batching
from roquet.client.core.assign import Assign, averagely
from roquet.client.core.positions import Start
from roquet.client.core.route_view import RouteView
from roquet.client.core.sending import Body
from roquet.client.core.subscription import Expression
from roquet.client.hooks import Hook
from roquet.client.message import Message as AsyncMessage
from roquet.client.message import Outgoing, Receipt
from roquet.client.producer.packing import Queue
from roquet.client.producer.producer import (
    COMPRESS_ABOVE_BYTES,
    GROUP,
    MESSAGE_BYTES_MAX,
    PENDING_BYTES_MAX,
    PENDING_MAX,
    HowToSend,
)
from roquet.client.producer.producer import Producer as AsyncProducer
from roquet.client.producer.transaction import Half as AsyncHalf
from roquet.client.producer.transaction import Outcome
from roquet.client.reader.follow import Follow as AsyncFollow
from roquet.client.reader.reader import BYTES_MAX, Page, RawPage
from roquet.client.reader.reader import GROUP as READER_GROUP
from roquet.client.reader.reader import Bounds as READER_Bounds
from roquet.client.reader.reader import Reader as AsyncReader
from roquet.model.group import Group, Subscription
from roquet.model.message import Host
from roquet.model.names import AUTO_CREATE_TOPIC
from roquet.model.route import QueueName
from roquet.model.topic import Topic
from roquet.ports import Ports
from roquet.store.format.timer_check import TimerCheck
from roquet.wire.bodies import admin, answers, running
from roquet.wire.frame import Frame
from roquet.wire.row import Header

__all__ = ["Message", "Cluster", "Half", "Producer", "Consumer", "Follow", "Reader", "Admin"]


class Brokers(Blocking[AsyncBrokers]):
    """Looks at brokers and sets them up."""

    def list(self, cluster: str = "") -> tuple[BrokerPlace, ...]:
        """Return all brokers that the name servers know, masters and slaves."""
        return self._run(self._inner.list(cluster))

    def members(self, cluster: str, broker: str) -> dict[int, str]:
        """Return the addresses behind one broker name by id, as the name servers tell brokers."""
        return self._run(self._inner.members(cluster, broker))

    def runtime(self, broker: str) -> Runtime:
        """Return how a broker runs."""
        return self._run(self._inner.runtime(broker))

    def settings(self, broker: str) -> dict[str, str]:
        """Return all settings of a broker by their names in broker.conf."""
        return self._run(self._inner.settings(broker))

    def update_settings(self, changes: Mapping[str, str], *, broker: str = "", cluster: str = "") -> None:
        """Change settings of one broker, of a cluster's masters or of all masters, while they run."""
        self._run(self._inner.update_settings(changes, broker=broker, cluster=cluster))

    def stats(self, broker: str, name: str, key: str) -> admin.StatsLines:
        """Return one counter (TOPIC_PUT_NUMS, GROUP_GET_NUMS …) over a minute, an hour and a day."""
        return self._run(self._inner.stats(broker, name, key))

    def replication(self, broker: str) -> admin.ReplicationStatus:
        """Return the replicas of a broker and how far they are."""
        return self._run(self._inner.replication(broker))

    def clean_queues(self, *, cluster: str = "", broker: str = "") -> None:
        """Remove queue files that point before the oldest log file."""
        self._run(self._inner.clean_queues(cluster=cluster, broker=broker))

    def clean_topics(self, *, cluster: str = "", broker: str = "") -> None:
        """Remove the queues of topics that are gone from the settings."""
        self._run(self._inner.clean_topics(cluster=cluster, broker=broker))

    def delete_expired_log(self, *, cluster: str = "", broker: str = "") -> None:
        """Remove log files that are past their time now, not at the next clean-up hour."""
        self._run(self._inner.delete_expired_log(cluster=cluster, broker=broker))


class NameServers(Blocking[AsyncNameServers]):
    """Looks at name servers and sets them up."""

    @property
    def addresses(self) -> Sequence[str]:
        """The name servers that are asked."""
        return self._call(lambda: self._inner.addresses)

    def get(self, namespace: str, key: str) -> str:
        """Return a stored value; raises NotFound."""
        return self._run(self._inner.get(namespace, key))

    def values(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace; raises NotFound when there is none."""
        return self._run(self._inner.values(namespace))

    def put(self, namespace: str, key: str, value: str) -> None:
        """Store a value."""
        self._run(self._inner.put(namespace, key, value))

    def delete(self, namespace: str, key: str) -> None:
        """Forget a value."""
        self._run(self._inner.delete(namespace, key))

    def wipe_write(self, broker: str) -> dict[str, int]:
        """Send producers away from a broker; returns how many topics that touched, by name server."""
        return self._run(self._inner.wipe_write(broker))

    def add_write(self, broker: str) -> dict[str, int]:
        """Let producers come back to a broker; returns how many topics that touched, by name server."""
        return self._run(self._inner.add_write(broker))

    def settings(self) -> dict[str, dict[str, str]]:
        """Return all settings by name server."""
        return self._run(self._inner.settings())

    def update_settings(self, changes: Mapping[str, str]) -> None:
        """Change settings of every name server while they run."""
        self._run(self._inner.update_settings(changes))


class Topics(Blocking[AsyncTopics]):
    """Administers topics."""

    def create(
        self,
        name: str,
        *,
        queues: int = 8,
        access: Access = "rw",
        ordered: bool = False,
        kind: Kind = "NORMAL",
        attributes: Mapping[str, str] | None = None,
        cluster: str = "",
        broker: str = "",
    ) -> None:
        """Create a topic on every master (of one cluster, of one broker), or set all its settings anew."""
        self._run(
            self._inner.create(
                name,
                queues=queues,
                access=access,
                ordered=ordered,
                kind=kind,
                attributes=attributes,
                cluster=cluster,
                broker=broker,
            )
        )

    def create_many(self, topics: Sequence[Topic], *, cluster: str = "", broker: str = "") -> None:
        """Create several topics at once: all or none on each master, one by one on those before 5.0."""
        self._run(self._inner.create_many(topics, cluster=cluster, broker=broker))

    def update(
        self,
        name: str,
        *,
        queues: int | None = None,
        read_queues: int | None = None,
        write_queues: int | None = None,
        access: Access | None = None,
        ordered: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        broker: str = "",
    ) -> None:
        """Change what is given of a topic and leave the rest as it is, on each of its brokers."""
        self._run(
            self._inner.update(
                name,
                queues=queues,
                read_queues=read_queues,
                write_queues=write_queues,
                access=access,
                ordered=ordered,
                attributes=attributes,
                broker=broker,
            )
        )

    def delete(self, name: str, *, cluster: str = "") -> None:
        """Delete a topic with its messages from every master, and its route from every name server."""
        self._run(self._inner.delete(name, cluster=cluster))

    def forget_route(self, name: str, *, cluster: str = "") -> None:
        """Take a topic's route out of every name server; brokers that still have it bring it back."""
        self._run(self._inner.forget_route(name, cluster=cluster))

    def register_route(self, name: str, route: RouteView) -> None:
        """Give a topic the queues of another one's route on every name server, without asking a broker."""
        self._run(self._inner.register_route(name, route))

    def list(self, *, cluster: str = "") -> tuple[str, ...]:
        """Return the names of all topics, or of those that a cluster serves, sorted."""
        return self._run(self._inner.list(cluster=cluster))

    def list_system(self) -> tuple[str, ...]:
        """Return the topics that belong to the servers: clusters, brokers, and each broker's own."""
        return self._run(self._inner.list_system())

    def list_units(self, flags: Literal["unit", "subscribed", "subscribed-only"] = "unit") -> tuple[str, ...]:
        """Return topics by their unit flags: of a unit, subscribed across units, or the latter alone."""
        return self._run(self._inner.list_units(flags))

    def get(self, name: str, *, cluster: str = "", broker: str = "") -> dict[str, Topic]:
        """Return a topic's settings by broker name; raises NotFound when no broker has it."""
        return self._run(self._inner.get(name, cluster=cluster, broker=broker))

    def table(self, broker: str) -> dict[str, Topic]:
        """Return the settings of all topics of one broker, the broker's own among them."""
        return self._run(self._inner.table(broker))

    def route(self, name: str) -> RouteView:
        """Return who serves a topic, asking a name server now; raises NoRoute."""
        return self._run(self._inner.route(name))

    def stats(self, name: str) -> TopicStats:
        """Return what the queues of a topic hold."""
        return self._run(self._inner.stats(name))

    def groups(self, name: str) -> tuple[str, ...]:
        """Return the groups that consume a topic: those that are live, and those with offsets for it."""
        return self._run(self._inner.groups(name))


class Groups(Blocking[AsyncGroups]):
    """Administers consumer groups."""

    def create(
        self,
        name: str,
        *,
        max_attempts: int = 16,
        consume: bool = True,
        broadcast: bool = True,
        ordered: bool = False,
        retry_queues: int = 1,
        cluster: str = "",
        broker: str = "",
    ) -> None:
        """Create a group on every master (of one cluster, of one broker), or set all its settings anew."""
        self._run(
            self._inner.create(
                name,
                max_attempts=max_attempts,
                consume=consume,
                broadcast=broadcast,
                ordered=ordered,
                retry_queues=retry_queues,
                cluster=cluster,
                broker=broker,
            )
        )

    def put(self, group: Group, *, cluster: str = "", broker: str = "") -> None:
        """Store the settings of a group as they are given."""
        self._run(self._inner.put(group, cluster=cluster, broker=broker))

    def create_many(self, groups: Sequence[Group], *, cluster: str = "", broker: str = "") -> None:
        """Store the settings of several groups: all or none on each master, one by one before 5.0."""
        self._run(self._inner.create_many(groups, cluster=cluster, broker=broker))

    def update(
        self,
        name: str,
        *,
        max_attempts: int | None = None,
        consume: bool | None = None,
        broadcast: bool | None = None,
        ordered: bool | None = None,
        retry_queues: int | None = None,
    ) -> None:
        """Change what is given of a group and leave the rest, on each broker that has it."""
        self._run(
            self._inner.update(
                name,
                max_attempts=max_attempts,
                consume=consume,
                broadcast=broadcast,
                ordered=ordered,
                retry_queues=retry_queues,
            )
        )

    def delete(self, name: str, *, keep_offsets: bool = False, keep_letters: bool = False) -> None:
        """Delete a group with its offsets, its retry topic and its dead letters, as far as not kept."""
        self._run(self._inner.delete(name, keep_offsets=keep_offsets, keep_letters=keep_letters))

    def list(self, *, cluster: str = "", system: bool = False) -> tuple[str, ...]:
        """Return the names of all groups, sorted; the servers' own ones only when wanted."""
        return self._run(self._inner.list(cluster=cluster, system=system))

    def get(self, name: str, *, cluster: str = "", broker: str = "") -> dict[str, Group]:
        """Return a group's settings by broker name; raises NotFound when no broker has it."""
        return self._run(self._inner.get(name, cluster=cluster, broker=broker))

    def table(self, broker: str) -> dict[str, Group]:
        """Return the settings of all groups of one broker, by name."""
        return self._run(self._inner.table(broker))

    def topics(self, name: str) -> tuple[str, ...]:
        """Return the topics that a group has offsets for."""
        return self._run(self._inner.topics(name))

    def subscription(self, name: str, topic: str) -> dict[str, Subscription]:
        """Return what a live group subscribes of a topic, by broker name; nothing when it does not."""
        return self._run(self._inner.subscription(name, topic))

    def may_read(self, name: str, topic: str) -> dict[str, bool]:
        """Return, by broker name, whether a group may read a topic."""
        return self._run(self._inner.may_read(name, topic))

    def set_may_read(self, name: str, topic: str, allowed: bool) -> dict[str, bool]:
        """Allow or forbid a group to read a topic; returns what holds now."""
        return self._run(self._inner.set_may_read(name, topic, allowed))


class Offsets(Blocking[AsyncOffsets]):
    """Looks at and moves the positions of groups."""

    def progress(self, group: str, topic: str = "") -> Progress:
        """Return how far a group is in a topic, or in all that it has offsets for."""
        return self._run(self._inner.progress(group, topic))

    def progress_of_all(self, broker: str, *, ordered_only: bool = False) -> dict[str, Progress]:
        """Return how far every group is on one broker."""
        return self._run(self._inner.progress_of_all(broker, ordered_only=ordered_only))

    def times(self, group: str, topic: str) -> list[QueueTimes]:
        """Return which time a group's position in each queue stands for."""
        return self._run(self._inner.times(group, topic))

    def live(self, group: str, topic: str, client_id: str = "") -> dict[str, dict[QueueName, int]]:
        """Return how far each live member says it is, by client id; asks the members themselves."""
        return self._run(self._inner.live(group, topic, client_id))

    def corrections(
        self, topic: str, compare_group: str, without: tuple[str, ...] = ()
    ) -> dict[QueueName, int | None]:
        """Return the lowest position of all groups in each queue; None where the compared group is behind."""
        return self._run(self._inner.corrections(topic, compare_group, without))

    def table(self, broker: str) -> answers.OffsetDump:
        """Return the whole offset table of one broker."""
        return self._run(self._inner.table(broker))

    def bounds(self, topic: str) -> list[Bounds]:
        """Return the ends of every queue of a topic, and when its oldest message was stored."""
        return self._run(self._inner.bounds(topic))

    def at_time(self, topic: str, when: datetime) -> dict[QueueName, int]:
        """Return, for each queue, the offset of the first message stored at a time or later."""
        return self._run(self._inner.at_time(topic, when))

    def position(self, group: str, queue: QueueName) -> int:
        """Return what a group has committed in one queue; raises NotFound when it has nothing there."""
        return self._run(self._inner.position(group, queue))

    def commit(self, group: str, queue: QueueName, offset: int) -> None:
        """Store how far a group is in one queue; members that are live will soon overwrite it."""
        self._run(self._inner.commit(group, queue, offset))

    def reset(self, group: str, topic: str, to: Target) -> dict[QueueName, int]:
        """Move a group on all queues of a topic: to a time, to the beginning or to the end."""
        return self._run(self._inner.reset(group, topic, to))

    def reset_queue(self, group: str, queue: QueueName, offset: int) -> int:
        """Move a group in one queue to an offset and return it; raises Refused when it is not in there."""
        return self._run(self._inner.reset_queue(group, queue, offset))

    def skip(self, group: str, topic: str) -> dict[QueueName, int]:
        """Let a group forget what has piled up in a topic: it goes on with what comes from now on."""
        return self._run(self._inner.skip(group, topic))

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give a group the positions of another one in a topic."""
        self._run(self._inner.clone(source, target, topic))


class Messages(Blocking[AsyncMessages]):
    """Finds messages."""

    def get(self, message_id: str, topic: str = "") -> AsyncMessage:
        """Return a message by its offset id, or by its unique id and topic; raises NotFound."""
        return self._run(self._inner.get(message_id, topic))

    def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        max: int = FOUND_MAX,
    ) -> list[AsyncMessage]:
        """Return messages of a topic that carry a key, oldest first; without times, of all times."""
        return self._run(self._inner.by_key(topic, key, begin=begin, end=end, max=max))

    def by_unique_id(self, topic: str, message_id: str) -> list[AsyncMessage]:
        """Return every stored copy of a message: a retry or a double send stores it again."""
        return self._run(self._inner.by_unique_id(topic, message_id))

    def by_time(
        self, topic: str, begin: datetime, end: datetime, *, max: int = FOUND_MAX
    ) -> list[AsyncMessage]:
        """Return the first messages of a topic that were stored within a time, oldest first."""
        return self._run(self._inner.by_time(topic, begin, end, max=max))

    def by_offset(self, queue: QueueName, offset: int, *, max: int = PAGE_MAX) -> list[AsyncMessage]:
        """Return messages of one queue from an offset on."""
        return self._run(self._inner.by_offset(queue, offset, max=max))

    def entries(self, queue: QueueName, offset: int, *, max: int = 10, group: str = "") -> admin.QueueWalk:
        """Return raw entries of one queue, and what a group subscribes of it."""
        return self._run(self._inner.entries(queue, offset, max=max, group=group))

    def resend(self, message: Message | AsyncMessage, topic: str = "") -> Receipt:
        """Send a stored message again, to its topic or another one; keys, tags and properties go with it."""
        return self._run(
            self._inner.resend(message._inner if isinstance(message, Message) else message, topic)
        )

    def consume_directly(
        self, message: Message | AsyncMessage, group: str, client_id: str
    ) -> running.ConsumedDirectly:
        """Hand a stored message to one live member of a group now, and tell what became of it."""
        return self._run(
            self._inner.consume_directly(
                message._inner if isinstance(message, Message) else message, group, client_id
            )
        )


class Clients(Blocking[AsyncClients]):
    """Looks at live clients."""

    def consumers(self, group: str) -> ConsumerGroup:
        """Return the live members of a group; raises NotFound when nobody is."""
        return self._run(self._inner.consumers(group))

    def producers(self, group: str) -> tuple[Connection, ...]:
        """Return the live producers of a group; raises NotFound when nobody is."""
        return self._run(self._inner.producers(group))

    def all_producers(self, broker: str) -> list[LiveProducer]:
        """Return the live producers of every group at one broker; needs a broker of 5.0 or later."""
        return self._run(self._inner.all_producers(broker))

    def running(self, group: str, client_id: str, *, stacks: bool = False) -> running.RunningInfo:
        """Ask a live member for its whole state: queues, positions, paces, settings; raises NotFound."""
        return self._run(self._inner.running(group, client_id, stacks=stacks))

    def conflicts(self, group: str) -> dict[str, list[View]]:
        """Return the topics that members of a group subscribe in different ways; nothing when they agree."""
        return self._run(self._inner.conflicts(group))


class Timers(Blocking[AsyncTimers]):
    """Looks at messages that wait for their time."""

    def counts(self, broker: str) -> dict[str, int]:
        """Return how many messages with a time of their own wait at a broker, by topic."""
        return self._run(self._inner.counts(broker))

    def check(self, broker: str) -> TimerCheck:
        """Return how far the timer of a broker is: the numbers of its checkpoint."""
        return self._run(self._inner.check(broker))

    def level_offsets(self, broker: str) -> dict[int, int]:
        """Return up to where each delay level is delivered."""
        return self._run(self._inner.level_offsets(broker))

    def pending(self, topic: str = "", *, broker: str = "") -> Iterator[Pending]:
        """Yield what waits, of one topic or of all, at one broker or at all."""
        return self._iterate(lambda: self._inner.pending(topic, broker=broker))

    def recall(self, topic: str, handle: str, *, broker: str = "") -> str:
        """Take back a message by the handle that its send was answered with; returns its id."""
        return self._run(self._inner.recall(topic, handle, broker=broker))


class Transactions(Blocking[AsyncTransactions]):
    """Looks after transactions that were given up."""

    def given_up(self, *, max: int = PAGE_MAX) -> list[AsyncMessage]:
        """Return half messages that brokers no longer ask about, oldest first at each broker."""
        return self._run(self._inner.given_up(max=max))

    def resume(self, message: Message | AsyncMessage) -> None:
        """Have the broker ask about a transaction again that it gave up; takes what `given_up` returned."""
        self._run(self._inner.resume(message._inner if isinstance(message, Message) else message))


class DeadLetters(Blocking[AsyncDeadLetters]):
    """Looks after what groups gave up."""

    def groups(self) -> list[DeadGroup]:
        """Return the groups that have dead letters."""
        return self._run(self._inner.groups())

    def count(self, group: str) -> DeadGroup:
        """Return how many dead letters a group has; none when it never gave up anything."""
        return self._run(self._inner.count(group))

    def peek(self, group: str, *, max: int = PAGE_MAX, newest: bool = True) -> list[AsyncMessage]:
        """Return dead letters of a group, the newest or the oldest ones, in the order they were stored."""
        return self._run(self._inner.peek(group, max=max, newest=newest))

    def replay(
        self, group: str, *, topic: str = "", again: bool = False, max: int | None = None
    ) -> Iterator[Replayed]:
        """Send dead letters of a group to the topic they first came from, or to another; yields each."""
        return self._iterate(lambda: self._inner.replay(group, topic=topic, again=again, max=max))


class Message(Blocking[AsyncMessage]):
    """A message as a consumer sees it."""

    @property
    def broker(self) -> str:
        return self._inner.broker

    @property
    def body(self) -> bytes:
        """The bytes as they were sent; a compressed body is opened."""
        return self._inner.body

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, the protocol's own ones among them."""
        return self._inner.properties

    @property
    def topic(self) -> str:
        """The topic that it was sent to, also when it comes back through a retry topic."""
        return self._inner.topic

    @property
    def tag(self) -> str:
        return self._inner.tag

    @property
    def keys(self) -> list[str]:
        return self._inner.keys

    @property
    def queue_id(self) -> int:
        return self._inner.queue_id

    @property
    def queue_offset(self) -> int:
        return self._inner.queue_offset

    @property
    def log_offset(self) -> int:
        return self._inner.log_offset

    @property
    def message_id(self) -> str:
        """The producer's id for it, the same over retries; the offset id where it has none."""
        return self._inner.message_id

    @property
    def offset_id(self) -> str:
        """The id that tells where the record lies."""
        return self._inner.offset_id

    @property
    def attempt(self) -> int:
        """1 at the first delivery, one more after each retry."""
        return self._inner.attempt

    @property
    def born_time(self) -> datetime:
        """When the producer made it."""
        return self._inner.born_time

    @property
    def store_time(self) -> datetime:
        """When the broker stored it."""
        return self._inner.store_time

    @property
    def born_host(self) -> Host:
        return self._inner.born_host

    @property
    def store_host(self) -> Host:
        return self._inner.store_host

    def ack(self) -> None:
        """It is done: it will not come again."""
        self._run(self._inner.ack())

    def retry(self, after: timedelta | None = None) -> None:
        """Give it back; it comes again after a while, by default a little longer each time."""
        self._run(self._inner.retry(after))

    def dead_letter(self) -> None:
        """Give it up: it goes to the group's dead letters."""
        self._run(self._inner.dead_letter())


class Cluster(BlockingBlock[AsyncCluster]):
    """The connections of one client; open it with `with`."""

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
        super().__init__(
            lambda: AsyncCluster(
                namesrv,
                namespace=namespace,
                unit=unit,
                instance=instance,
                timeout=timeout,
                encoding=encoding,
                ports=ports,
                auto_create_key=auto_create_key,
            )
        )

    @property
    def namespace(self) -> str:
        return self._inner.namespace

    @property
    def timeout_s(self) -> float:
        return self._inner.timeout_s

    def open(self) -> None:
        """Connect to a name server; each `open` needs its `close`, and the first and last do the work."""
        self._run(self._inner.open())

    def close(self) -> None:
        """Say goodbye to the brokers and close every connection; closing once too often is fine."""
        self._run(self._inner.close())

    @property
    def is_open(self) -> bool:
        return self._call(lambda: self._inner.is_open)

    @property
    def client_id(self) -> str:
        """Who we are to the brokers: `ip@pid#number`; known once the client is open."""
        return self._call(lambda: self._inner.client_id)

    @property
    def name_servers(self) -> Sequence[str]:
        return self._call(lambda: self._inner.name_servers)

    def route(self, topic: str, *, fresh: bool = False) -> RouteView:
        """Return who serves a topic; raises NoRoute, or NamesUnreachable when nothing is known of it."""
        return self._run(self._inner.route(topic, fresh=fresh))

    def publish_route(self, topic: str) -> RouteView:
        """Return where to send messages of a topic; one that a first message creates has a route, too."""
        return self._run(self._inner.publish_route(topic))

    def call(self, address: str, request: Header, body: bytes = b"", timeout_s: float | None = None) -> Frame:
        """Ask `host:port` and return its answer, whatever it says."""
        return self._run(self._inner.call(address, request, body, timeout_s))

    def ask(self, address: str, request: Header, body: bytes = b"", timeout_s: float | None = None) -> Frame:
        """Ask `host:port` and return its yes; raises what `call` raises, or Refused."""
        return self._run(self._inner.ask(address, request, body, timeout_s))

    def tell(self, address: str, request: Header, body: bytes = b"") -> None:
        """Send a one-way request; raises Unreachable when there is no connection to send it over."""
        self._run(self._inner.tell(address, request, body))

    def ask_names(self, request: Header, body: bytes = b"", timeout_s: float | None = None) -> Frame:
        """Ask one name server after another and return the first yes; raises NamesUnreachable or Refused."""
        return self._run(self._inner.ask_names(request, body, timeout_s))

    def ask_names_all(
        self, request: Header, body: bytes = b"", timeout_s: float | None = None
    ) -> dict[str, Frame]:
        """Ask every name server, for changes that each must take; raises the first failure after all."""
        return self._run(self._inner.ask_names_all(request, body, timeout_s))

    def is_ailing(self, address: str) -> bool:
        """True when the last try to connect to an address failed: better take another, if there is one."""
        return self._call(lambda: self._inner.is_ailing(address))


class Half(BlockingBlock[AsyncHalf]):
    """A transaction as a block: commits at its end, rolls back when it raises."""

    @property
    def receipt(self) -> Receipt:
        """Where the half message lies; `message_id` is the one that consumers will see."""
        return self._call(lambda: self._inner.receipt)

    @property
    def message_id(self) -> str:
        return self._call(lambda: self._inner.message_id)

    def leave_unknown(self) -> None:
        """End the block without a decision: the broker will ask the check function."""
        self._call(lambda: self._inner.leave_unknown())

    def commit(self) -> None:
        """Make the message visible now; raises TransactionUnsettled when the broker does not confirm."""
        self._run(self._inner.commit())

    def rollback(self) -> None:
        """Take the message back now; raises TransactionUnsettled when the broker does not confirm."""
        self._run(self._inner.rollback())


class Producer(BlockingBlock[AsyncProducer]):
    """Sends messages; open it with `with`."""

    def __init__(
        self,
        cluster: str | Cluster | None = None,
        *,
        group: str = GROUP,
        namespace: str = "",
        timeout: float = 3.0,
        retries: int = 2,
        max_message_bytes: int = MESSAGE_BYTES_MAX,
        compress_above: int | None = COMPRESS_ABOVE_BYTES,
        compression: Compression = "zlib",
        avoid_slow_brokers: bool = False,
        batching: bool | Batching = False,
        trace: bool | str = False,
        hooks: Sequence[Hook] = (),
        check: Callable[[AsyncMessage], Outcome] | None = None,
        max_pending: int = PENDING_MAX,
        max_pending_bytes: int = PENDING_BYTES_MAX,
        ports: Ports | None = None,
    ) -> None:
        super().__init__(
            lambda: AsyncProducer(
                cluster._inner if isinstance(cluster, Cluster) else cluster,
                group=group,
                namespace=namespace,
                timeout=timeout,
                retries=retries,
                max_message_bytes=max_message_bytes,
                compress_above=compress_above,
                compression=compression,
                avoid_slow_brokers=avoid_slow_brokers,
                batching=batching,
                trace=trace,
                hooks=hooks,
                check=in_thread(check, None),
                max_pending=max_pending,
                max_pending_bytes=max_pending_bytes,
                ports=ports,
            )
        )

    @property
    def group(self) -> str:
        return self._inner.group

    def open(self) -> None:
        """Connect; `with` does it. Raises NamesUnreachable."""
        self._run(self._inner.open())

    def close(self) -> None:
        """Wait for what is under way, say goodbye and disconnect; closing twice is fine."""
        self._run(self._inner.close())

    def send(
        self,
        topic: str,
        body: Body,
        *,
        tag: str = "",
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        ordering_key: str | None = None,
        queue: Queue = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Send a message and return where a broker stored it."""
        return self._run(
            self._inner.send(
                topic,
                body,
                tag=tag,
                keys=keys,
                properties=properties,
                delay=delay,
                deliver_at=deliver_at,
                ordering_key=ordering_key,
                queue=queue,
                timeout=timeout,
            )
        )

    def send_one_way(self, topic: str, body: Body, **how: Unpack[HowToSend]) -> None:
        """Send a message and wait for no answer: quick, and it may be lost without a word."""
        self._run(self._inner.send_one_way(topic, body, **how))

    def send_nowait(
        self, topic: str, body: Body, *, timeout: float | None = None, **how: Unpack[HowToSend]
    ) -> concurrent.futures.Future[Receipt]:
        """Send in the background and return the future receipt; raises Busy when too much is pending."""
        return self._start(lambda: self._inner.send_nowait(topic, body, timeout=timeout, **how))

    def send_batch(self, topic: str, messages: Sequence[Outgoing | Body]) -> list[Receipt]:
        """Send messages of one topic together, in their order; bodies alone will do."""
        return self._run(self._inner.send_batch(topic, messages))

    def send_many(self, messages: Iterable[Outgoing] | AsyncIterable[Outgoing]) -> list[Receipt]:
        """Send any number of messages, in batches by topic; receipts come in the order of the messages."""
        return self._run(self._inner.send_many(messages))

    def recall(self, topic: str, handle: str) -> str:
        """Take back a delayed message before it is due, and return its id."""
        return self._run(self._inner.recall(topic, handle))

    def transaction(self, topic: str, body: Body, **how: Unpack[HowToSend]) -> Half:
        """Return a transaction to be used with `with`: it commits at the end of the block."""
        return Half.around(self._call(lambda: self._inner.transaction(topic, body, **how)), self._background)

    def request(self, topic: str, body: Body, *, timeout: float, **how: Unpack[HowToSend]) -> AsyncMessage:
        """Send a message and return the reply of whoever consumes it; raises ReplyLost after `timeout` s."""
        return self._run(self._inner.request(topic, body, timeout=timeout, **how))

    def reply(self, message: Message | AsyncMessage, body: Body) -> Receipt:
        """Answer a message that was sent with `request`; raises SendFailed when the asker is gone."""
        return self._run(self._inner.reply(message._inner if isinstance(message, Message) else message, body))


class Consumer(BlockingBlock[AsyncConsumer]):
    """A member of a consumer group; open it with `with`, or let `run` do it."""

    def __init__(
        self,
        cluster: str | Cluster | None = None,
        *,
        group: str,
        subscribe: Mapping[str, Expression] | str | Sequence[str],
        start: Start = "latest",
        broadcast: bool = False,
        ordered: bool = False,
        handler: Callable[[Message], object] | None = None,
        concurrency: int = 20,
        batch: int = 32,
        prefetch: int = 1000,
        prefetch_bytes: int = 100 * 1024 * 1024,
        span: int = 2000,
        max_attempts: int | None = None,
        consume_timeout: timedelta = timedelta(minutes=15),
        drain_timeout: timedelta = timedelta(seconds=30),
        assign: Assign = averagely,
        auto_ack: bool = False,
        namespace: str = "",
        timeout: float | None = None,
        trace: bool | str = False,
        hooks: Sequence[Hook] = (),
        offsets_dir: str | None = None,
        drain_on_sigterm: bool = False,
        ports: Ports | None = None,
    ) -> None:
        super().__init__(
            lambda: AsyncConsumer(
                cluster._inner if isinstance(cluster, Cluster) else cluster,
                group=group,
                subscribe=subscribe,
                start=start,
                broadcast=broadcast,
                ordered=ordered,
                handler=in_thread(handler, lambda one: Message.around(one, self._background)),
                concurrency=concurrency,
                batch=batch,
                prefetch=prefetch,
                prefetch_bytes=prefetch_bytes,
                span=span,
                max_attempts=max_attempts,
                consume_timeout=consume_timeout,
                drain_timeout=drain_timeout,
                assign=assign,
                auto_ack=auto_ack,
                namespace=namespace,
                timeout=timeout,
                trace=trace,
                hooks=hooks,
                offsets_dir=offsets_dir,
                drain_on_sigterm=drain_on_sigterm,
                ports=ports,
            )
        )

    @property
    def group(self) -> str:
        return self._inner.group

    def open(self) -> None:
        """Join the group; when it returns, the first share of the queues is being read."""
        self._run(self._inner.open())

    def stop(self) -> None:
        """Hand out no more messages: loops over the consumer end, handlers finish, `run` returns."""
        self._call(lambda: self._inner.stop())

    def close(self) -> None:
        """Leave the group in good order; closing once too often is fine."""
        self._run(self._inner.close())

    def run(self) -> None:
        """Let the handler work until `stop`, SIGTERM (`drain_on_sigterm`) or cancellation, then close."""
        self._run(self._inner.run())

    def __iter__(self) -> Iterator[Message]:
        return (Message.around(each, self._background) for each in self._iterate(lambda: self._inner))

    def batches(self, max: int = 32, timeout: float | timedelta = 0.0) -> Iterator[list[Message]]:
        """Return lists of at most `max` messages ; with a `timeout` each waits so long to fill up."""
        return (
            [Message.around(one, self._background) for one in each]
            for each in self._iterate(lambda: self._inner.batches(max, timeout))
        )

    def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Take messages of one more topic, or others of it than before."""
        self._run(self._inner.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Take no more messages of a topic."""
        self._run(self._inner.unsubscribe(topic))

    @property
    def assigned(self) -> tuple[QueueName, ...]:
        """The queues that are ours now."""
        return self._call(lambda: self._inner.assigned)

    def pause(self, *queues: QueueName) -> None:
        """Hand out nothing of these queues (of all, when none is named) until `resume`."""
        self._call(lambda: self._inner.pause(*queues))

    def resume(self, *queues: QueueName) -> None:
        """Go on with these queues, or with all."""
        self._call(lambda: self._inner.resume(*queues))

    def seek(
        self, where: QueueName | str, to: int | datetime | timedelta | Literal["earliest", "latest"]
    ) -> None:
        """Go on from another offset or time, with one queue or with all of ours of a topic."""
        self._run(self._inner.seek(where, to))

    def position(self, queue: QueueName) -> int:
        """Return the lowest offset of a queue that is not done: what the group's position becomes."""
        return self._call(lambda: self._inner.position(queue))


class Follow(BlockingBlock[AsyncFollow]):
    """See the module; also an async context manager, for those who leave early."""

    def __iter__(self) -> Iterator[AsyncMessage]:
        return self._iterate(lambda: self._inner)


class Reader(BlockingBlock[AsyncReader]):
    """Reads queues by position; open it with `with`."""

    def __init__(
        self,
        cluster: str | Cluster | None = None,
        *,
        group: str = READER_GROUP,
        namespace: str = "",
        timeout: float | None = None,
        ports: Ports | None = None,
    ) -> None:
        super().__init__(
            lambda: AsyncReader(
                cluster._inner if isinstance(cluster, Cluster) else cluster,
                group=group,
                namespace=namespace,
                timeout=timeout,
                ports=ports,
            )
        )

    def open(self) -> None:
        """Connect; raises NamesUnreachable."""
        self._run(self._inner.open())

    def close(self) -> None:
        """End what follows topics, and disconnect."""
        self._run(self._inner.close())

    def queues(self, topic: str) -> tuple[QueueName, ...]:
        """Return the queues of a topic that may be read; raises NoRoute."""
        return self._run(self._inner.queues(topic))

    def min_offset(self, queue: QueueName) -> int:
        """Return the oldest offset that the queue still holds."""
        return self._run(self._inner.min_offset(queue))

    def max_offset(self, queue: QueueName) -> int:
        """Return the offset that the next message of the queue will get."""
        return self._run(self._inner.max_offset(queue))

    def bounds(self, queue: QueueName) -> READER_Bounds:
        """Return both ends of the queue, and whether its master told them."""
        return self._run(self._inner.bounds(queue))

    def offset_at(self, queue: QueueName, when: datetime | timedelta) -> int:
        """Return the offset of the first message stored at that time or later; a `timedelta` is ago."""
        return self._run(self._inner.offset_at(queue, when))

    def read(
        self,
        queue: QueueName,
        offset: int,
        *,
        max: int = 32,
        tags: str = "*",
        sql: str | None = None,
        wait: float | timedelta = 0.0,
    ) -> Page:
        """Return up to `max` messages from an offset on, waiting so long for the first of them."""
        return self._run(self._inner.read(queue, offset, max=max, tags=tags, sql=sql, wait=wait))

    def read_raw(
        self,
        queue: QueueName,
        offset: int,
        *,
        max_messages: int = 1024,
        max_bytes: int = BYTES_MAX,
        tags: str = "*",
        sql: str | None = None,
        wait: float | timedelta = 0.0,
    ) -> RawPage:
        """Return an answer's bytes; of tags the server compares only the hashes."""
        return self._run(
            self._inner.read_raw(
                queue, offset, max_messages=max_messages, max_bytes=max_bytes, tags=tags, sql=sql, wait=wait
            )
        )

    def follow(
        self, topic: str, *, start: Start = "latest", tags: str = "*", sql: str | None = None
    ) -> Follow:
        """Return the messages of all queues of a topic, those to come among them, to iterate over."""
        return Follow.around(
            self._call(lambda: self._inner.follow(topic, start=start, tags=tags, sql=sql)), self._background
        )


class Admin(BlockingBlock[AsyncAdmin]):
    """All administrative calls; open it with `with`."""

    def __init__(
        self,
        cluster: str | Cluster | None = None,
        *,
        timeout: float | None = None,
        ports: Ports | None = None,
    ) -> None:
        super().__init__(
            lambda: AsyncAdmin(
                cluster._inner if isinstance(cluster, Cluster) else cluster, timeout=timeout, ports=ports
            )
        )

    @property
    def cluster(self) -> Brokers:
        return Brokers.around(self._inner.cluster, self._background)

    @property
    def names(self) -> NameServers:
        return NameServers.around(self._inner.names, self._background)

    @property
    def topics(self) -> Topics:
        return Topics.around(self._inner.topics, self._background)

    @property
    def groups(self) -> Groups:
        return Groups.around(self._inner.groups, self._background)

    @property
    def offsets(self) -> Offsets:
        return Offsets.around(self._inner.offsets, self._background)

    @property
    def messages(self) -> Messages:
        return Messages.around(self._inner.messages, self._background)

    @property
    def clients(self) -> Clients:
        return Clients.around(self._inner.clients, self._background)

    @property
    def timers(self) -> Timers:
        return Timers.around(self._inner.timers, self._background)

    @property
    def transactions(self) -> Transactions:
        return Transactions.around(self._inner.transactions, self._background)

    @property
    def dead_letters(self) -> DeadLetters:
        return DeadLetters.around(self._inner.dead_letters, self._background)
