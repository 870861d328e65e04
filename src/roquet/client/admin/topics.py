"""Topics: create, change, delete, list, and what their queues hold.

A topic lives on each broker by itself: changes go to every master of the cluster (or of all clusters), and
what is read comes back by broker name. Codes 17, 18, 21, 105, 202, 206, 215, 216, 224, 300, 304, 305, 311,
312, 313, 351.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from roquet.client.admin.answered import PAGE, is_last_page, listed, read, shaped
from roquet.client.admin.reach import NOT_SUPPORTED, Reach
from roquet.client.admin.reading import moment
from roquet.client.core.route_view import RouteView
from roquet.client.errors import Misuse, NotFound, Refused
from roquet.model import names
from roquet.model.route import QueueName
from roquet.model.topic import Perm, Topic
from roquet.wire.bodies import admin, answers
from roquet.wire.requests import names as name_rows
from roquet.wire.requests import topics as rows
from roquet.wire.row import Header

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"

Access = Literal["rw", "r", "w", ""]
Kind = Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]

_PERMS: Final[Mapping[str, int]] = {
    "rw": int(Perm.READ | Perm.WRITE),
    "r": int(Perm.READ),
    "w": int(Perm.WRITE),
    "": 0,
}


class QueueStats(NamedTuple):
    """What one queue holds; `last_time` is None when it never got a message."""

    queue: QueueName
    min_offset: int
    max_offset: int
    last_time: datetime | None

    @property
    def messages(self) -> int:
        return self.max_offset - self.min_offset


class TopicStats(NamedTuple):
    """What all queues of a topic hold, over all brokers."""

    topic: str
    queues: tuple[QueueStats, ...]
    put_tps: float

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.queues)


def access_of(perm: int) -> str:
    """Return a permission for people: rw, r, w or nothing."""
    return ("r" if perm & Perm.READ else "") + ("w" if perm & Perm.WRITE else "")


def attribute_text(changes: Mapping[str, str]) -> str:
    """Return attributes as a change carries them: `+key=value` sets, an empty value removes (`-key`)."""
    return ",".join(f"+{key}={value}" if value else f"-{key}" for key, value in changes.items())


class Topics:
    """Administers topics."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def create(
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
        """Create a topic on every master (of one cluster, of one broker), or set all its settings anew.

        Returns when the name servers know it, so that it can be used at once.
        """
        fault = names.topic_fault(name)
        if fault:
            raise Misuse(fault)
        changes = dict(attributes or {})
        if kind != "NORMAL":  # releases before 5.0 know no attributes: a plain topic sends none
            changes["message.type"] = kind
        request = rows.UpdateTopic(
            name,
            queues,
            queues,
            _PERMS[access],
            default_topic=names.AUTO_CREATE_TOPIC,
            order=ordered,
            attributes=attribute_text(changes) or None,
        )
        masters = await self._reach.masters(cluster, broker)
        await self._reach.each(masters, request)
        if ":" not in broker:
            await self._reach.wait_for_route(name, masters, (queues, queues))

    async def create_many(self, topics: Sequence[Topic], *, cluster: str = "", broker: str = "") -> None:
        """Create several topics at once: all or none on each master, one by one on those before 5.0."""
        signed = [
            msgspec.structs.replace(
                topic, attributes={f"+{key}": value for key, value in topic.attributes.items()}
            )
            for topic in topics
        ]
        body = admin.encode(admin.TopicList(topic_config_list=signed))
        masters = await self._reach.masters(cluster, broker)
        try:
            await self._reach.each(masters, rows.UpdateTopics(), body)
        except Refused as error:
            if error.code not in NOT_SUPPORTED:
                raise
            for topic in topics:
                await self._reach.each(masters, _request_for(topic))
        if ":" not in broker:
            for topic in topics:
                await self._reach.wait_for_route(topic.topic_name, masters)

    async def update(
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
        """Change what is given of a topic and leave the rest as it is, on each of its brokers.

        An attribute with an empty value is taken away. Raises NotFound when no broker has the topic.
        """
        masters = await self._reach.masters(broker=broker)
        for broker_name, known in (await self.get(name, broker=broker)).items():
            request = rows.UpdateTopic(
                name,
                _first(read_queues, queues, known.read_queue_nums),
                _first(write_queues, queues, known.write_queue_nums),
                known.perm if access is None else _PERMS[access],
                known.topic_filter_type,
                names.AUTO_CREATE_TOPIC,
                known.topic_sys_flag,
                known.order if ordered is None else ordered,
                attribute_text(attributes or {}) or None,
            )
            await self._reach.cluster.ask(masters[broker_name], request)
            if ":" not in broker_name:
                queue_nums = (request.read_queue_nums, request.write_queue_nums)
                await self._reach.wait_for_route(name, (broker_name,), queue_nums)

    async def delete(self, name: str, *, cluster: str = "") -> None:
        """Delete a topic with its messages from every master, and its route from every name server."""
        await self._reach.each(await self._reach.masters(cluster), rows.DeleteTopic(name))
        await self.forget_route(name, cluster=cluster)
        await self._reach.cluster.ask_names_all(name_rows.DeleteValue(ORDER_NAMESPACE, name))

    async def forget_route(self, name: str, *, cluster: str = "") -> None:
        """Take a topic's route out of every name server; brokers that still have it bring it back."""
        await self._reach.cluster.ask_names_all(name_rows.DeleteRoute(name, cluster or None))

    async def register_route(self, name: str, route: RouteView) -> None:
        """Give a topic the queues of another one's route on every name server, without asking a broker."""
        queues = [msgspec.to_builtins(each) for each in route.route.queues]
        body = admin.encode({"queueDatas": queues, "brokerDatas": []})
        await self._reach.cluster.ask_names_all(name_rows.RegisterTopic(name), body)

    async def list(self, *, cluster: str = "") -> tuple[str, ...]:
        """Return the names of all topics, or of those that a cluster serves, sorted."""
        request: Header = name_rows.ListTopicsOfCluster(cluster) if cluster else name_rows.ListTopics()
        return await self._listed(request)

    async def list_system(self) -> tuple[str, ...]:
        """Return the topics that belong to the servers: clusters, brokers, and each broker's own."""
        found = set(await self._listed(name_rows.ListSystemTopics()))
        for answer in (await self._reach.each(await self._reach.masters(), rows.GetSystemTopics())).values():
            found.update(listed(answer, "topicList"))
        return tuple(sorted(found))

    async def list_units(
        self, flags: Literal["unit", "subscribed", "subscribed-only"] = "unit"
    ) -> tuple[str, ...]:
        """Return topics by their unit flags: of a unit, subscribed across units, or the latter alone."""
        requests: dict[str, Header] = {
            "unit": name_rows.ListUnitTopics(),
            "subscribed": name_rows.ListUnitSubTopics(),
            "subscribed-only": name_rows.ListUnitSubOnlyTopics(),
        }
        return await self._listed(requests[flags])

    async def _listed(self, request: Header) -> tuple[str, ...]:
        answer = await self._reach.cluster.ask_names(request)
        return tuple(sorted(set(listed(answer, "topicList"))))

    async def get(self, name: str, *, cluster: str = "", broker: str = "") -> dict[str, Topic]:
        """Return a topic's settings by broker name; raises NotFound when no broker has it."""
        masters = await self._reach.masters(cluster, broker)
        try:
            found = await self._reach.any_of(masters, rows.GetTopic(name))
        except Refused as error:
            if error.code not in NOT_SUPPORTED:
                raise
            return await self._get_from_tables(name, masters)  # a broker before 5.0
        return {broker_name: shaped(each, Topic) for broker_name, each in found.items()}

    async def _get_from_tables(self, name: str, masters: Iterable[str]) -> dict[str, Topic]:
        found = {}
        for broker_name in masters:
            topic = (await self.table(broker_name)).get(name)
            if topic is not None:
                found[broker_name] = topic
        if not found:
            raise NotFound(f"no broker has the topic {name}", hint=f"roquet topic create {name}")
        return found

    async def table(self, broker: str) -> dict[str, Topic]:
        """Return the settings of all topics of one broker, the broker's own among them."""
        found: dict[str, Topic] = {}
        version: str | None = None
        while True:
            request = rows.GetAllTopics(len(found), PAGE, version)
            answer = await self._reach.ask(broker, request)
            page = shaped(answer, admin.TopicTable)
            version = admin.encode(page.data_version).decode()
            before = len(found)
            found |= page.topic_config_table
            if is_last_page(answer, len(found), before):
                return dict(sorted(found.items()))

    async def route(self, name: str) -> RouteView:
        """Return who serves a topic, asking a name server now; raises NoRoute."""
        return await self._reach.route(name)

    async def stats(self, name: str) -> TopicStats:
        """Return what the queues of a topic hold."""
        masters = await self._reach.masters_of(name)
        found = (await self._reach.any_of(masters, rows.GetTopicStats(name))).values()
        bounds = [read(answers.decode_bounds, each) for each in found]
        queues = [
            QueueStats(queue, row.min_offset, row.max_offset, moment(row.last_update_timestamp))
            for each in bounds
            for queue, row in each.queues.items()
        ]
        return TopicStats(name, tuple(sorted(queues)), sum(each.put_tps for each in bounds))

    async def groups(self, name: str) -> tuple[str, ...]:
        """Return the groups that consume a topic: those that are live, and those with offsets for it."""
        masters = await self._reach.masters_of(name)
        found = await self._reach.each(masters, rows.QueryGroupsOfTopic(name))
        return tuple(sorted({group for each in found.values() for group in listed(each, "groupList")}))


def _request_for(topic: Topic) -> rows.UpdateTopic:
    """Return the request that creates one topic as it is."""
    return rows.UpdateTopic(
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.perm,
        topic.topic_filter_type,
        names.AUTO_CREATE_TOPIC,
        topic.topic_sys_flag,
        topic.order,
        attribute_text(topic.attributes) or None,
    )


def _first(*choices: int | None) -> int:
    return next(each for each in choices if each is not None)
