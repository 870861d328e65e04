"""Offsets: how far groups are, and moving them.

    progress ─▶ 208 of every broker that has the group          lag = broker offset − consumer offset
    reset    ─▶ 222 at every master of the topic: 5.x moves the group itself, 4.x tells the live members
                nobody to tell there ─▶ 29 for each queue, then 15: the group finds it at its next start

Codes 14, 15, 29 to 32, 43, 208, 222, 223, 303, 308, 314, 317.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from roquet.client.admin.answered import head, read
from roquet.client.admin.brokers import settings_of
from roquet.client.admin.reach import Reach
from roquet.client.admin.reading import Queues, milliseconds, moment
from roquet.client.errors import Misuse, Refused
from roquet.model.route import QueueName
from roquet.wire.bodies import admin, answers
from roquet.wire.codes import VERSION_MAPPING_IN_REGISTRATION, Code
from roquet.wire.requests import offsets as rows
from roquet.wire.requests.settings import GetSettings

LATEST_MS: Final = -1
"""How a reset says: to the end of every queue."""

VERSION_RESETS_ONE_QUEUE: Final = VERSION_MAPPING_IN_REGISTRATION
"""5.0.0: older brokers do not know the fields that name one queue."""

BEHIND_ALL: Final = 2**63 - 1

Target = datetime | Literal["earliest", "latest"]


class QueueProgress(NamedTuple):
    """How far a group is in one queue; `last_time` is when the last consumed message was stored."""

    queue: QueueName
    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_time: datetime | None

    @property
    def lag(self) -> int:
        """Messages that are stored and not consumed."""
        return max(self.broker_offset - self.consumer_offset, 0)

    @property
    def in_flight(self) -> int:
        """Messages that were fetched and are not finished."""
        return max(self.pull_offset - self.consumer_offset, 0)


class Progress(NamedTuple):
    """How far a group is in all its queues."""

    group: str
    queues: tuple[QueueProgress, ...]
    consume_tps: float

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.queues)

    def by_topic(self) -> dict[str, int]:
        """Return the lag of each topic."""
        lags: dict[str, int] = {}
        for each in self.queues:
            lags[each.queue.topic] = lags.get(each.queue.topic, 0) + each.lag
        return lags


class QueueTimes(NamedTuple):
    """Which times a queue holds and where a group is in them."""

    queue: QueueName
    first_time: datetime | None
    last_time: datetime | None
    consumed_time: datetime | None
    delay: timedelta
    """How long the next message has been waiting."""


class Bounds(NamedTuple):
    """The ends of one queue."""

    queue: QueueName
    min_offset: int
    max_offset: int
    first_time: datetime | None


class Offsets:
    """Looks at and moves the positions of groups."""

    def __init__(self, reach: Reach, queues: Queues) -> None:
        self._reach = reach
        self._queues = queues

    async def progress(self, group: str, topic: str = "") -> Progress:
        """Return how far a group is in a topic, or in all that it has offsets for."""
        if topic:
            masters = await self._reach.masters_of(topic)
        else:
            masters = await self._reach.masters_of_group(group)
        found = await self._reach.each(masters, rows.GetConsumeStats(group, topic or None))
        parts = [read(answers.decode_progress, each) for each in found.values()]
        queues = [_progress(queue, row) for part in parts for queue, row in part.queues.items()]
        queues.sort(key=lambda each: (each.queue.topic, each.queue))
        return Progress(group, tuple(queues), sum(part.consume_tps for part in parts))

    async def progress_of_all(self, broker: str, *, ordered_only: bool = False) -> dict[str, Progress]:
        """Return how far every group is on one broker."""
        answer = await self._reach.ask(broker, rows.GetBrokerConsumeStats(ordered_only))
        found = read(answers.decode_broker_progress, answer)
        return {
            group: Progress(
                group, tuple(_progress(queue, row) for queue, row in part.queues.items()), part.consume_tps
            )
            for group, part in sorted(found.groups.items())
        }

    async def times(self, group: str, topic: str) -> list[QueueTimes]:
        """Return which time a group's position in each queue stands for."""
        masters = await self._reach.masters_of(topic)
        found = await self._reach.each(masters, rows.QueryTimeSpan(topic, group))
        return [
            QueueTimes(
                row.queue,
                moment(row.first_ms),
                moment(row.last_ms),
                moment(row.consumed_ms),
                timedelta(milliseconds=row.delay_ms),
            )
            for each in found.values()
            for row in read(answers.decode_times, each)
        ]

    async def live(self, group: str, topic: str, client_id: str = "") -> dict[str, dict[QueueName, int]]:
        """Return how far each live member says it is, by client id; asks the members themselves."""
        masters = await self._reach.masters_of(topic)
        request = rows.GetConsumerStatus(topic, group, client_id or None)
        found = await self._reach.any_of(masters, request, absent=frozenset({Code.SYSTEM_ERROR}))
        told: dict[str, dict[QueueName, int]] = {}
        for each in found.values():
            for client, positions in read(answers.decode_client_positions, each).items():
                told.setdefault(client, {}).update(positions)
        return told

    async def corrections(
        self, topic: str, compare_group: str, without: tuple[str, ...] = ()
    ) -> dict[QueueName, int | None]:
        """Return the lowest position of all groups in each queue; None where the compared group is behind."""
        masters = await self._reach.masters_of(topic)
        request = rows.QueryCorrection(compare_group, topic, ",".join(without) or None)
        found: dict[QueueName, int | None] = {}
        for broker, answer in (await self._reach.each(masters, request)).items():
            offsets = read(
                lambda body: answers.by_number(answers.members(body).get("correctionOffsets")), answer
            )
            for queue_id, offset in offsets.items():
                found[QueueName(broker, queue_id, topic)] = None if offset == BEHIND_ALL else offset
        return found

    async def table(self, broker: str) -> answers.OffsetDump:
        """Return the whole offset table of one broker."""
        return read(answers.decode_offsets, await self._reach.ask(broker, rows.GetAllOffsets()))

    async def bounds(self, topic: str) -> list[Bounds]:
        """Return the ends of every queue of a topic, and when its oldest message was stored."""
        found = []
        for queue, address in (await self._queues.of(topic)).items():
            low, high = await self._queues.bounds(address, queue)
            earliest_ms = await self._queues.earliest_ms(address, queue)
            found.append(Bounds(queue, low, high, moment(earliest_ms)))
        return found

    async def at_time(self, topic: str, when: datetime) -> dict[QueueName, int]:
        """Return, for each queue, the offset of the first message stored at a time or later."""
        ms = milliseconds(when)
        queues = await self._queues.of(topic)
        return {queue: await self._queues.offset_at(address, queue, ms) for queue, address in queues.items()}

    async def position(self, group: str, queue: QueueName) -> int:
        """Return what a group has committed in one queue; raises NotFound when it has nothing there."""
        address = await self._reach.address(queue.broker_name)
        request = rows.QueryOffset(group, queue.topic, queue.queue_id, set_zero_if_not_found=False)
        return head(await self._reach.cluster.ask(address, request), rows.OffsetFound).offset

    async def commit(self, group: str, queue: QueueName, offset: int) -> None:
        """Store how far a group is in one queue; members that are live will soon overwrite it."""
        address = await self._reach.address(queue.broker_name)
        request = rows.UpdateOffset(group, queue.topic, queue.queue_id, offset)
        await self._reach.cluster.ask(address, request)

    async def reset(self, group: str, topic: str, to: Target) -> dict[QueueName, int]:
        """Move a group on all queues of a topic: to a time, to the beginning or to the end.

        Returns where it is now. Works while members are live and while none is.
        """
        moved: dict[QueueName, int] = {}
        request = rows.ResetOffset(topic, group, _target_ms(to), is_force=True)
        for broker, address in (await self._reach.masters_of(topic)).items():
            try:
                answer = await self._reach.cluster.ask(address, request)
                moved |= read(answers.decode_moved, answer)
            except Refused as error:
                if not _only_tells_members(error):
                    raise
                moved |= await self._commit_all(broker, request)
        return dict(sorted(moved.items()))

    async def _commit_all(self, broker: str, request: rows.ResetOffset) -> dict[QueueName, int]:
        """Move a group without members at a broker that only tells members, by committing for it."""
        moved = {}
        for queue, address in (await self._queues.of(request.topic)).items():
            if queue.broker_name != broker:
                continue
            if request.timestamp == LATEST_MS:
                offset = (await self._queues.bounds(address, queue))[1]
            else:
                offset = await self._queues.offset_at(address, queue, request.timestamp)
            await self.commit(request.group, queue, offset)
            moved[queue] = offset
        return moved

    async def reset_queue(self, group: str, queue: QueueName, offset: int) -> int:
        """Move a group in one queue to an offset and return it; raises Refused when it is not in there."""
        address = await self._reach.address(queue.broker_name)
        if not await self._resets_one_queue(address):
            await self.commit(group, queue, offset)
            return offset
        request = rows.ResetOffset(queue.topic, group, 0, True, queue.queue_id, offset)
        await self._reach.cluster.ask(address, request)
        return offset

    async def _resets_one_queue(self, address: str) -> bool:
        """True when a broker heeds the fields that name one queue; others would move all of them."""
        answer = await self._reach.cluster.ask(address, GetSettings())
        is_server_side = settings_of(answer).get("useServerSideResetOffset") != "false"
        return answer.version >= VERSION_RESETS_ONE_QUEUE and is_server_side

    async def skip(self, group: str, topic: str) -> dict[QueueName, int]:
        """Let a group forget what has piled up in a topic: it goes on with what comes from now on."""
        return await self.reset(group, topic, "latest")

    async def clone(self, source: str, target: str, topic: str) -> None:
        """Give a group the positions of another one in a topic."""
        if source == target:
            raise Misuse(f"{source} has its own positions already", hint="name two different groups")
        request = rows.CloneOffset(source, target, topic, offline=True)
        await self._reach.each(await self._reach.masters_of(topic), request)


def _only_tells_members(error: Refused) -> bool:
    """True when a broker would tell members to move and has none, or no position of theirs in some queue."""
    is_new = error.code == Code.SYSTEM_ERROR and "onsumer group <" in error.what and "not exist" in error.what
    return error.code == Code.CONSUMER_NOT_ONLINE or is_new


def _progress(queue: QueueName, row: admin.Progress) -> QueueProgress:
    return QueueProgress(
        queue, row.broker_offset, row.consumer_offset, row.pull_offset, moment(row.last_timestamp)
    )


def _target_ms(to: Target) -> int:
    if isinstance(to, datetime):
        return milliseconds(to)
    fixed: Mapping[str, int] = {"earliest": 0, "latest": LATEST_MS}
    if to not in fixed:
        raise Misuse(f"{to!r} is no place to reset to", hint='give a datetime, "earliest" or "latest"')
    return fixed[to]
