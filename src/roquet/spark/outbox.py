"""What a task of the sink sends through: bounded, confirmed, on an event loop beside the task's own thread.

    task's thread: Arrow batch ─▶ groups ─▶ send() ── waits for room ──┐
    event loop:                  pack ─▶ post, `pipeline` at once ◀────┘ ─▶ confirmed, or the first error

`send` returns when what it was given is under way, so a slow broker slows the task down; `finish` when all
of it is confirmed. Messages with an ordering key keep their order: what goes to their queue goes there one
request after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.choose import always, by_key
from roquet.client.core.sending import Rules
from roquet.client.producer.bulk import Bulk
from roquet.client.producer.parcel import Parcel
from roquet.client.producer.room import Room
from roquet.model.route import QueueName
from roquet.runtime.background import Background, shared
from roquet.spark.options import OptionError
from roquet.spark.rows import Group

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024

Result = TypeVar("Result")


class Wires(NamedTuple):
    """How a task reaches the brokers: what the options say of it."""

    namesrv: str
    namespace: str
    group: str
    timeout_s: float
    retries: int
    batch_bytes: int
    pipeline: int
    client: Mapping[str, str]

    def cluster(self) -> Cluster:
        """Return a cluster that is not open yet."""
        settings: dict[str, Any] = dict(self.client)
        return Cluster(self.namesrv, namespace=self.namespace, timeout=self.timeout_s, **settings)

    def bulk(self, cluster: Cluster) -> Bulk:
        rules = Rules(cluster.namespace, MESSAGE_BYTES_MAX, None, "zlib")
        return Bulk(
            cluster, self.group, timeout_s=self.timeout_s, retries=self.retries, rules=rules,
            batch_bytes=self.batch_bytes,
        )  # fmt: skip


class Outbox:
    """The sends of one task; use it with `with`."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        self._background: Background = shared()
        self._cluster = self._run(_made(wires))
        self._bulk = wires.bulk(self._cluster)
        self._room = Room(wires.pipeline, wires.pipeline * wires.batch_bytes)
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: dict[QueueName, asyncio.Task[None]] = {}
        self._errors: list[BaseException] = []
        self._turn = 0
        self.rows = 0
        self.size_bytes = 0

    def __enter__(self) -> Self:
        self._run(self._cluster.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close())

    def send(self, group: Group) -> None:
        """Start to send rows; waits while too much is under way. Raises what an earlier send failed with."""
        self._run(self._send(group))
        self.rows += len(group.bodies)
        self.size_bytes += sum(map(len, group.bodies))

    def finish(self) -> None:
        """Return when all is confirmed; raises the first failure."""
        self._run(self._finish())

    # --- on the loop

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._background.run(work)

    async def _send(self, group: Group) -> None:
        if group.dues:
            queues, turn = await self._bulk.queues(group.topic), self._next_turn()
            for row, body in enumerate(group.bodies):
                parcel = self._bulk.pack_one(group.topic, body, group.texts[row], group.dues[row])
                await self._start(parcel, queue_of(group, row, queues, turn))
            return
        if not group.queue_ids and not group.ordering_keys:
            for parcel in self._bulk.pack(group.topic, group.bodies, group.texts):
                await self._start(parcel, None)
            return
        for queue, rows in (await self._by_queue(group)).items():
            bodies = [group.bodies[row] for row in rows]
            texts = [group.texts[row] for row in rows]
            for parcel in self._bulk.pack(group.topic, bodies, texts):
                await self._start(parcel, queue)

    async def _by_queue(self, group: Group) -> dict[QueueName | None, list[int]]:
        queues = await self._bulk.queues(group.topic)
        found: dict[QueueName | None, list[int]] = {}
        turn = self._next_turn()
        for row in range(len(group.bodies)):
            found.setdefault(queue_of(group, row, queues, turn), []).append(row)
        return found

    async def _start(self, parcel: Parcel, queue: QueueName | None) -> None:
        """Begin to send a parcel: to this queue, behind what goes there already, or to the next one."""
        await self._room.take(1, len(parcel.body))
        if self._errors:
            self._room.give(1, len(parcel.body))
            raise self._errors[0]
        before = None if queue is None else self._last.get(queue)
        task = asyncio.get_running_loop().create_task(self._post(parcel, queue, before))
        if queue is not None:
            self._last[queue] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post(self, parcel: Parcel, queue: QueueName | None, before: asyncio.Task[None] | None) -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
            if not self._errors:
                await self._bulk.post(parcel, None if queue is None else always(queue))
        except Exception as error:
            self._errors.append(error)
        finally:
            self._room.give(1, len(parcel.body))

    async def _finish(self) -> None:
        while self._tasks and not self._errors:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        if self._errors:
            raise self._errors[0]

    async def _close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._cluster.close()

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn


async def _made(wires: Wires) -> Cluster:
    return wires.cluster()


def queue_of(group: Group, row: int, queues: Sequence[QueueName], turn: int) -> QueueName | None:
    """Return the queue that a row asks for, None when any will do; raises OptionError."""
    if group.ordering_keys and (key := group.ordering_keys[row]):
        return by_key(queues, key)
    queue_id = group.queue_ids[row] if group.queue_ids else None
    if queue_id is None:
        return None
    fit = [queue for queue in queues if queue.queue_id == queue_id]
    if not fit:
        ids = sorted({queue.queue_id for queue in queues})
        raise OptionError(
            f"topic {group.topic} has no queue {queue_id} to write to: it has {ids[0]} to {ids[-1]}"
        )
    return fit[turn % len(fit)]
