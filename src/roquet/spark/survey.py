"""What the driver asks the cluster: which queues there are, where they begin and end, and where to start.

    subscribe, subscribePattern, assign ─▶ queues ─▶ bounds ─▶ starts, ends (by word, time, group or number)

All of it by the client's reader: requests that any client may make, several at once. A survey lives on one
event loop and may be asked again and again. It plans nothing: that is `spark.plan`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from roquet.client.admin import Admin
from roquet.client.cluster.cluster import Cluster
from roquet.client.consumer.offsets_kept import RemoteOffsets
from roquet.client.core.namespace import unwrap, wrap
from roquet.client.errors import NoRoute
from roquet.client.reader.reader import Bounds, Reader, Status
from roquet.model.names import is_dead_letter, is_retry, is_system
from roquet.model.route import QueueName
from roquet.ports import Clock
from roquet.spark.access import Access, report_loss
from roquet.spark.options import OptionError
from roquet.spark.source_options import EARLIEST, LATEST

Result = TypeVar("Result")

AT_ONCE_MAX: Final = 256
"""Questions that are under way at the same time."""

SAMPLE_MESSAGES: Final = 32


class Survey:
    """Asks one cluster; open it before, close it after."""

    def __init__(self, given: Mapping[str, Any], cluster: Cluster | None = None) -> None:
        self._given = given
        self._access = Access.of(given)
        self._cluster = cluster or self._access.cluster()
        self._reader = Reader(self._cluster)
        self._known_to: set[str] = set()

    async def open(self) -> None:
        """Connect; raises NamesUnreachable."""
        await self._reader.open()

    async def close(self) -> None:
        await self._reader.close()

    @property
    def clock(self) -> Clock:
        return self._cluster.ports.clock

    async def _each(
        self, queues: Iterable[QueueName], ask: Callable[[QueueName], Awaitable[Result]]
    ) -> dict[QueueName, Result]:
        """Ask about every queue, with patience."""
        room = asyncio.Semaphore(AT_ONCE_MAX)

        async def one(queue: QueueName) -> Result:
            async with room:
                return await self._access.patiently(self.clock, lambda: ask(queue))

        listed = list(queues)
        return dict(zip(listed, await asyncio.gather(*map(one, listed)), strict=True))

    # --- queues

    async def queues(self, *, missing_is_error: bool = True) -> tuple[QueueName, ...]:
        """Return the queues to read; raises NoRoute for a topic that is not there, or OptionError."""
        if self._given["assign"]:
            return await self._assigned(missing_is_error)
        found: list[QueueName] = []
        for topic in await self._topics():
            try:
                ask = partial(self._reader.queues, topic)
                found += await self._access.patiently(self.clock, ask)
            except NoRoute:
                if missing_is_error:
                    raise
        return tuple(found)

    async def _assigned(self, missing_is_error: bool) -> tuple[QueueName, ...]:
        wanted: tuple[QueueName, ...] = self._given["assign"]
        served: set[QueueName] = set()
        for topic in sorted({queue.topic for queue in wanted}):
            try:
                ask = partial(self._reader.queues, topic)
                served.update(await self._access.patiently(self.clock, ask))
            except NoRoute:
                if missing_is_error:
                    raise
        for queue in wanted:
            if queue not in served and missing_is_error:
                raise OptionError(f"option assign: {shown(queue)} does not exist")
        return tuple(queue for queue in wanted if queue in served)

    async def _topics(self) -> Sequence[str]:
        subscribed: Sequence[str] = self._given["subscribe"]
        if subscribed:
            return subscribed
        pattern = self._given["subscribePattern"]
        listed = await self._access.patiently(self.clock, Admin(self._cluster).topics.list)
        topics = [unwrap(self._cluster.namespace, topic) for topic in listed if not _is_internal(topic)]
        return sorted(topic for topic in topics if pattern.fullmatch(topic))

    # --- ends of queues

    async def bounds(self, queues: Iterable[QueueName]) -> dict[QueueName, Bounds]:
        """Return where queues begin and end."""
        return await self._each(queues, self._reader.bounds)

    async def latest(self, queues: Iterable[QueueName]) -> dict[QueueName, int]:
        """Return where queues end."""
        return await self._each(queues, self._reader.max_offset)

    async def starts(self, bounds: Mapping[QueueName, Bounds], default: str) -> dict[QueueName, int]:
        """Return where the options say to begin; `default` is a word for where they do not."""
        when = self._given["startingTimestamp"]
        if when is not None:
            return await self._starts_at(bounds, when)
        return await self._by_option("startingOffsets", bounds, default)

    async def ends(self, bounds: Mapping[QueueName, Bounds]) -> dict[QueueName, int]:
        """Return where the options say to end."""
        when = self._given["endingTimestamp"]
        if when is not None:
            found = await self.at_time(bounds, when)
            return {queue: bounds[queue].max_offset if at is None else at for queue, at in found.items()}
        return await self._by_option("endingOffsets", bounds, "latest")

    async def _by_option(
        self, name: str, bounds: Mapping[QueueName, Bounds], default: str
    ) -> dict[QueueName, int]:
        given = self._given[name] or default
        if given == "group":
            stored = await self.stored(bounds)
            return {
                queue: bounds[queue].min_offset if at is None else max(at, bounds[queue].min_offset)
                for queue, at in stored.items()
            }
        words = {"earliest": EARLIEST, "latest": LATEST}
        if isinstance(given, str):
            return {queue: _offset(ends, words[given]) for queue, ends in bounds.items()}
        for queue in given:
            if queue not in bounds:
                raise OptionError(f"option {name}: {shown(queue)} is not among the queues that are read")
        return {
            queue: self._checked(name, queue, ends, _offset(ends, given.get(queue, words[default])))
            for queue, ends in bounds.items()
        }

    def _checked(self, name: str, queue: QueueName, ends: Bounds, offset: int) -> int:
        if offset > ends.max_offset:
            raise OptionError(
                f"option {name}: {shown(queue)} ends at {ends.max_offset}, and {offset} lies behind it"
            )
        if offset < ends.min_offset and name == "startingOffsets":
            what = f"{shown(queue)} begins at {ends.min_offset} by now, and {offset} was asked for"
            report_loss(what, self._given["failOnDataLoss"])
        return max(offset, ends.min_offset)

    # --- times

    async def _starts_at(self, bounds: Mapping[QueueName, Bounds], when: datetime) -> dict[QueueName, int]:
        found = await self.at_time(bounds, when)
        if self._given["startingTimestampStrategy"] == "error":
            for topic in sorted({queue.topic for queue in found}):
                if all(at is None for queue, at in found.items() if queue.topic == topic):
                    raise OptionError(
                        f"option startingTimestamp: topic {topic} has no message of {when.isoformat()} "
                        "or later; with startingTimestampStrategy=latest that means to begin at its end"
                    )
        return {queue: bounds[queue].max_offset if at is None else at for queue, at in found.items()}

    async def at_time(
        self, bounds: Mapping[QueueName, Bounds], when: datetime
    ) -> dict[QueueName, int | None]:
        """Return the first offset of a time or later in each queue; None where all messages are older."""

        async def ask(queue: QueueName) -> int | None:
            ends = bounds[queue]
            if ends.min_offset >= ends.max_offset:
                return None
            at = await self._reader.offset_at(queue, when)
            if at >= ends.max_offset:
                return None
            if at == ends.max_offset - 1:  # some servers name the last message when all are older
                page = await self._reader.read(queue, at, max=1)
                if page.messages and page.messages[0].store_time < when:
                    return None
            return max(at, ends.min_offset)

        return await self._each(bounds, ask)

    # --- sizes

    async def row_bytes(self, positions: Mapping[QueueName, int]) -> dict[QueueName, float]:
        """Return the mean size of the first messages from positions on; of queues that have any."""

        async def ask(queue: QueueName) -> float:
            page = await self._reader.read_raw(queue, positions[queue], max_messages=SAMPLE_MESSAGES)
            count = page.next_offset - positions[queue]
            return len(page.data) / count if page.status is Status.FOUND and count > 0 else 0.0

        found = await self._each(positions, ask)
        return {queue: size for queue, size in found.items() if size}

    # --- the group

    async def stored(self, queues: Iterable[QueueName]) -> dict[QueueName, int | None]:
        """Return where the option's group has got to."""
        kept = RemoteOffsets(self._cluster, self._group)
        return await self._each(queues, lambda queue: kept.stored(self._wrapped(queue)))

    async def store(self, offsets: Mapping[QueueName, int]) -> None:
        """Store where the option's group has got to, for those who watch its lag; trouble is only logged."""
        for queue, offset in offsets.items():
            if queue.broker_name not in self._known_to:  # a group comes to be by its first pull
                self._known_to.add(queue.broker_name)
                await Reader(self._cluster, group=self._given["group"]).read(queue, offset, max=1)
        kept = RemoteOffsets(self._cluster, self._group)
        await kept.store_now({self._wrapped(queue): offset for queue, offset in offsets.items()})

    @property
    def _group(self) -> str:
        return wrap(self._cluster.namespace, self._given["group"])

    def _wrapped(self, queue: QueueName) -> QueueName:
        return queue._replace(topic=wrap(self._cluster.namespace, queue.topic))


def shown(queue: QueueName) -> str:
    """Return a queue for people."""
    return f"queue {queue.queue_id} of topic {queue.topic} at {queue.broker_name}"


def _offset(ends: Bounds, given: int) -> int:
    return {EARLIEST: ends.min_offset, LATEST: ends.max_offset}.get(given, given)


def _is_internal(topic: str) -> bool:
    return is_system(topic) or is_retry(topic) or is_dead_letter(topic)
