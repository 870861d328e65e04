"""The first position of a queue: the stored one, or where the group was told to begin."""

from __future__ import annotations

from roquet.client.cluster.cluster import Cluster
from roquet.client.consumer.offsets_kept import Kept
from roquet.client.core.positions import At, End, Start, begin_at
from roquet.model.route import QueueName
from roquet.wire.requests.offsets import GetMaxOffset, GetMinOffset, OffsetFound, SearchOffset
from roquet.wire.row import Header


class Starts:
    """Finds where to begin; `asked_ms` is what "so long ago" counts from."""

    def __init__(self, cluster: Cluster, kept: Kept, start: Start, asked_ms: int) -> None:
        self._cluster = cluster
        self._kept = kept
        self._start = start
        self._asked_ms = asked_ms

    async def find(self, queue: QueueName) -> int:
        """Return the offset to pull from first; raises RoquetError when no broker tells."""
        stored = await self._kept.stored(queue)
        if stored is not None and stored >= 0:
            return stored
        begin = begin_at(self._start, queue.topic, self._asked_ms)
        return 0 if begin is End.OLDEST else await bound_of(self._cluster, queue, begin)


async def bound_of(cluster: Cluster, queue: QueueName, begin: End | At) -> int:
    """Ask a queue's broker for its oldest or next offset, or for that of a point in time."""
    request: Header
    if isinstance(begin, At):
        request = SearchOffset(queue.topic, queue.queue_id, begin.time_ms)
    elif begin is End.OLDEST:
        request = GetMinOffset(queue.topic, queue.queue_id)
    else:
        request = GetMaxOffset(queue.topic, queue.queue_id)
    address = (await cluster.route(queue.topic)).master(queue.broker_name)
    return OffsetFound.decode((await cluster.ask(address, request)).ext).offset
