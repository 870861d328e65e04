"""The brokers of a cluster: who they are, how they run, their settings, counters and clean-up.

Codes 25, 26, 28, 106, 306, 315, 316, 329, 901, 907.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from roquet.client.admin.answered import read, shaped
from roquet.client.admin.reach import BrokerPlace, Reach
from roquet.client.admin.reading import moment
from roquet.runtime import properties
from roquet.wire.bodies import admin
from roquet.wire.bodies import route as route_body
from roquet.wire.bodies.registration import decode_values
from roquet.wire.frame import Frame
from roquet.wire.requests import settings as rows
from roquet.wire.requests.names import GetMembers
from roquet.wire.requests.topics import CleanQueues, CleanTopics, DeleteExpiredLog
from roquet.wire.row import Header


class Rates(NamedTuple):
    """Something by the second, over the last 10 seconds, minute and ten minutes."""

    seconds_10: float
    seconds_60: float
    seconds_600: float


class Runtime(NamedTuple):
    """How a broker runs; `table` has every line that it sent."""

    version: str
    booted: datetime | None
    put_tps: Rates
    get_tps: Rates
    put_today: int
    get_today: int
    log_min_offset: int
    log_max_offset: int
    disk_ratio: float
    dispatch_behind_bytes: int
    earliest_time: datetime | None
    table: Mapping[str, str]


class Brokers:
    """Looks at brokers and sets them up."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def list(self, cluster: str = "") -> tuple[BrokerPlace, ...]:
        """Return all brokers that the name servers know, masters and slaves."""
        return await self._reach.places(cluster)

    async def members(self, cluster: str, broker: str) -> dict[int, str]:
        """Return the addresses behind one broker name by id, as the name servers tell brokers."""
        return read(
            route_body.decode_members, await self._reach.cluster.ask_names(GetMembers(cluster, broker))
        )

    async def runtime(self, broker: str) -> Runtime:
        """Return how a broker runs."""
        table = read(decode_values, await self._reach.ask(broker, rows.GetRuntimeInfo()))
        return Runtime(
            table.get("brokerVersionDesc", ""),
            moment(_whole(table, "bootTimestamp")),
            _rates(table.get("putTps", "")),
            _rates(table.get("getTransferredTps") or table.get("getTransferedTps", "")),
            _whole(table, "msgPutTotalTodayNow") - _whole(table, "msgPutTotalTodayMorning"),
            _whole(table, "msgGetTotalTodayNow") - _whole(table, "msgGetTotalTodayMorning"),
            _whole(table, "commitLogMinOffset"),
            _whole(table, "commitLogMaxOffset"),
            float(table.get("commitLogDiskRatio") or 0),
            _whole(table, "dispatchBehindBytes"),
            moment(_whole(table, "earliestMessageTimeStamp")),
            table,
        )

    async def settings(self, broker: str) -> dict[str, str]:
        """Return all settings of a broker by their names in broker.conf."""
        return settings_of(await self._reach.ask(broker, rows.GetSettings()))

    async def update_settings(
        self, changes: Mapping[str, str], *, broker: str = "", cluster: str = ""
    ) -> None:
        """Change settings of one broker, of a cluster's masters or of all masters, while they run."""
        body = properties.write(changes.items()).encode()
        await self._reach.each(await self._reach.masters(cluster, broker), rows.UpdateSettings(), body)

    async def stats(self, broker: str, name: str, key: str) -> admin.StatsLines:
        """Return one counter (TOPIC_PUT_NUMS, GROUP_GET_NUMS …) over a minute, an hour and a day."""
        return shaped(await self._reach.ask(broker, rows.ViewStats(name, key)), admin.StatsLines)

    async def replication(self, broker: str) -> admin.ReplicationStatus:
        """Return the replicas of a broker and how far they are."""
        return shaped(await self._reach.ask(broker, rows.GetReplicationStatus()), admin.ReplicationStatus)

    async def clean_queues(self, *, cluster: str = "", broker: str = "") -> None:
        """Remove queue files that point before the oldest log file."""
        await self._order(CleanQueues(), cluster, broker)

    async def clean_topics(self, *, cluster: str = "", broker: str = "") -> None:
        """Remove the queues of topics that are gone from the settings."""
        await self._order(CleanTopics(), cluster, broker)

    async def delete_expired_log(self, *, cluster: str = "", broker: str = "") -> None:
        """Remove log files that are past their time now, not at the next clean-up hour."""
        await self._order(DeleteExpiredLog(), cluster, broker)

    async def _order(self, request: Header, cluster: str, broker: str) -> None:
        await self._reach.each(await self._reach.masters(cluster, broker), request)


def settings_of(answer: Frame) -> dict[str, str]:
    """Return the pairs of properties text in a body."""
    text = bytes(answer.body).decode("utf-8", "replace")
    return {each.key: each.value for each in properties.read(text)}


def _whole(table: Mapping[str, str], name: str) -> int:
    text = table.get(name, "").strip()
    return int(text) if text.removeprefix("-").isdecimal() else 0


def _rates(text: str) -> Rates:
    """Read three rates; a broker that has just started leaves places empty."""
    numbers = [float(part or 0) for part in text.split(" ")[:3]]
    return Rates(*numbers, *[0.0] * (3 - len(numbers)))
