"""Consumer groups: create, change, delete, list, what they subscribe and what they may read.

Settings live on each broker by itself, so changes go to every master. Codes 200, 201, 207, 225, 343, 345,
352, 353.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from roquet.client.admin.answered import PAGE, is_last_page, listed, read, shaped
from roquet.client.admin.reach import NOT_SUPPORTED, Reach
from roquet.client.admin.topics import Topics
from roquet.client.errors import Misuse, NotFound, Refused
from roquet.model import names
from roquet.model.group import Group, Subscription
from roquet.wire.bodies import admin, answers
from roquet.wire.requests import groups as rows
from roquet.wire.requests.client import GetConsumerConnections
from roquet.wire.requests.offsets import GetAllOffsets


class Groups:
    """Administers consumer groups."""

    def __init__(self, reach: Reach, topics: Topics) -> None:
        self._reach = reach
        self._topics = topics

    async def create(
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
        fault = names.group_fault(name)
        if fault:
            raise Misuse(fault)
        group = Group(
            group_name=name,
            retry_max_times=max_attempts,
            consume_enable=consume,
            consume_broadcast_enable=broadcast,
            consume_message_orderly=ordered,
            retry_queue_nums=retry_queues,
        )
        await self.put(group, cluster=cluster, broker=broker)

    async def put(self, group: Group, *, cluster: str = "", broker: str = "") -> None:
        """Store the settings of a group as they are given."""
        masters = await self._reach.masters(cluster, broker)
        await self._reach.each(masters, rows.UpdateGroup(), admin.encode(group))

    async def create_many(self, groups: Sequence[Group], *, cluster: str = "", broker: str = "") -> None:
        """Store the settings of several groups: all or none on each master, one by one before 5.0."""
        body = admin.encode(admin.GroupList(group_config_list=[*groups]))
        try:
            await self._reach.each(await self._reach.masters(cluster, broker), rows.UpdateGroups(), body)
        except Refused as error:
            if error.code not in NOT_SUPPORTED:
                raise
            for group in groups:
                await self.put(group, cluster=cluster, broker=broker)

    async def update(
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
        given = {
            "retry_max_times": max_attempts,
            "consume_enable": consume,
            "consume_broadcast_enable": broadcast,
            "consume_message_orderly": ordered,
            "retry_queue_nums": retry_queues,
        }
        changes = {key: value for key, value in given.items() if value is not None}
        for broker, known in (await self.get(name)).items():
            await self.put(msgspec.structs.replace(known, **changes), broker=broker)

    async def delete(self, name: str, *, keep_offsets: bool = False, keep_letters: bool = False) -> None:
        """Delete a group with its offsets, its retry topic and its dead letters, as far as not kept."""
        request = rows.DeleteGroup(name, clean_offset=not keep_offsets)
        await self._reach.each(await self._reach.masters(), request)
        await self._topics.delete(f"{names.RETRY_PREFIX}{name}")
        if not keep_letters:
            await self._topics.delete(f"{names.DLQ_PREFIX}{name}")

    async def list(self, *, cluster: str = "", system: bool = False) -> tuple[str, ...]:
        """Return the names of all groups, sorted; the servers' own ones only when wanted."""
        masters = await self._reach.masters(cluster)
        found = {name for broker in masters for name in await self.table(broker)}
        return tuple(sorted(name for name in found if system or not is_system_group(name)))

    async def get(self, name: str, *, cluster: str = "", broker: str = "") -> dict[str, Group]:
        """Return a group's settings by broker name; raises NotFound when no broker has it.

        A broker that creates groups by itself creates it at this question, as at any other first use; see
        `list` for a look that changes nothing.
        """
        masters = await self._reach.masters(cluster, broker)
        try:
            found = await self._reach.any_of(masters, rows.GetGroup(name))
        except Refused as error:
            if error.code not in NOT_SUPPORTED:
                raise
            return await self._get_from_tables(name, masters)  # a broker before 5.0
        return {broker_name: shaped(each, Group) for broker_name, each in found.items()}

    async def _get_from_tables(self, name: str, masters: Iterable[str]) -> dict[str, Group]:
        tables = {broker: await self.table(broker) for broker in masters}
        found = {broker: table[name] for broker, table in tables.items() if name in table}
        if not found:
            raise NotFound(f"no broker has the group {name}", hint=f"roquet group create {name}")
        return found

    async def table(self, broker: str) -> dict[str, Group]:
        """Return the settings of all groups of one broker, by name."""
        found: dict[str, Group] = {}
        version: str | None = None
        while True:
            answer = await self._reach.ask(broker, rows.GetAllGroups(len(found), PAGE, version))
            read = shaped(answer, admin.GroupTable)
            version = admin.encode(read.data_version).decode()
            before = len(found)
            found |= read.subscription_group_table
            if is_last_page(answer, len(found), before):
                return dict(sorted(found.items()))

    async def topics(self, name: str) -> tuple[str, ...]:
        """Return the topics that a group has offsets for."""
        masters = await self._reach.masters_of_group(name)
        try:
            found = await self._reach.each(masters, rows.QueryTopicsOfGroup(name))
        except Refused as error:
            if error.code not in NOT_SUPPORTED:
                raise
            dumps = (await self._reach.each(masters, GetAllOffsets())).values()  # brokers before 5.0
            pairs = {pair for each in dumps for pair in read(answers.decode_offsets, each).committed}
            return tuple(sorted(topic for topic, group in pairs if group == name))
        return tuple(sorted({topic for each in found.values() for topic in listed(each, "topicList")}))

    async def subscription(self, name: str, topic: str) -> dict[str, Subscription]:
        """Return what a live group subscribes of a topic, by broker name; nothing when it does not."""
        masters = await self._reach.masters_of(topic)
        try:
            found = await self._reach.each(masters, rows.QuerySubscription(name, topic))
        except Refused as error:
            if error.code not in NOT_SUPPORTED:
                raise
            live = await self._reach.any_of(masters, GetConsumerConnections(name))  # a broker before 5.0
            tables = {
                broker: shaped(each, admin.ConsumerConnections).subscription_table
                for broker, each in live.items()
            }
            return {broker: table[topic] for broker, table in tables.items() if topic in table}
        told = {broker: shaped(each, admin.SubscriptionOf) for broker, each in found.items()}
        return {broker: each.subscription_data for broker, each in told.items() if each.subscription_data}

    async def may_read(self, name: str, topic: str) -> dict[str, bool]:
        """Return, by broker name, whether a group may read a topic."""
        return await self._forbidden(rows.UpdateForbidden(name, topic))

    async def set_may_read(self, name: str, topic: str, allowed: bool) -> dict[str, bool]:
        """Allow or forbid a group to read a topic; returns what holds now."""
        return await self._forbidden(rows.UpdateForbidden(name, topic, allowed))

    async def _forbidden(self, request: rows.UpdateForbidden) -> dict[str, bool]:
        found = await self._reach.each(await self._reach.masters_of(request.topic), request)
        return {broker: shaped(each, admin.Forbidden).readable for broker, each in found.items()}


def is_system_group(name: str) -> bool:
    """True for groups that belong to the servers."""
    return name in names.SYSTEM_GROUPS or name.startswith(names.SYSTEM_GROUP_PREFIX)
