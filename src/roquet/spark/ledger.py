"""A query's log of commits, in a queue of a broker: taking the turn, preparing, noting what is done.

    begin ─▶ append `begun`, read up to it ─▶ the state that nobody can change behind our back
    prepare ─▶ append parts and `prepared`, read what came between ─▶ ours, or Fenced

`manifest` says what the records mean. They lie in one queue of one broker, under the query's name as tag, so
that a broker finds them among those of other queries. A message counts as stored when the broker says so
without a reservation; how well that survives a power cut is the broker's flush mode (SYNC_FLUSH does).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import uuid4

from roquet.client.admin.admin import Admin
from roquet.client.core.bulk import KEYS, TAG, pair
from roquet.client.core.choose import always
from roquet.client.errors import NoRoute, NotFound, RoquetError, TimedOut
from roquet.client.producer.bulk import Bulk
from roquet.client.reader.reader import Reader
from roquet.model.route import QueueName
from roquet.spark import manifest
from roquet.spark.manifest import Begun, CommittedRecord, Prepared, PreparedRecord, Run, State

PAGE: Final = 64
LOOK_BACK: Final = (64, 2_048, 65_536)
"""How far back the newest commit is looked for, before the whole queue is."""

READ_WAIT_S: Final = 1.0


class Fenced(RoquetError):
    """Another driver of the same query has taken the turn."""

    default_hint = "is the query running twice? one of them goes on"


class Turn(NamedTuple):
    """A turn at the log: everything before it is known."""

    token: str
    queue_offset: int
    state: State


class Ledger:
    """The log of one query. Open the cluster before."""

    def __init__(self, bulk: Bulk, topic: str, query: str, timeout_s: float) -> None:
        self._bulk = bulk
        self._cluster = bulk.cluster
        self._reader = Reader(bulk.cluster)
        self._topic = topic
        self._query = query
        self._timeout_s = timeout_s
        self._queue: QueueName | None = None

    async def begin(self) -> Turn:
        """Take the turn and return what the log says; raises RoquetError."""
        token = uuid4().hex
        queue_offset = await self._append(manifest.encode(Begun(token)), self._query)
        state = await self._state_at(queue_offset)
        assert state.token == token, "the log ends with our own record"
        return Turn(token, queue_offset, state)

    async def prepare(
        self, turn: Turn, epoch: int, stages: Sequence[str], runs: Sequence[Run], ends: manifest.Ends
    ) -> Prepared:
        """Commit a batch for good; raises Fenced when somebody else has the turn, and then it is not."""
        parts = [await self._append(body, f"{self._query}-part") for body in manifest.parts(turn.token, runs)]
        batch = Prepared(epoch, manifest.rows_of(runs), tuple(parts), tuple(stages), ends)
        record = PreparedRecord(turn.token, batch, turn.queue_offset, turn.state)
        queue_offset = await self._append(manifest.encode(record), self._query)
        between = await self._records(turn.queue_offset + 1, queue_offset)
        if any(isinstance(other, Begun) for _, other in between):
            raise Fenced(f"batch {epoch} of query {self._query} is not committed: another driver has begun")
        return batch

    async def committed(self, turn: Turn, batch: Prepared) -> None:
        """Note that a batch is visible as a whole."""
        record = CommittedRecord(turn.token, batch.epoch, batch.stages, turn.queue_offset, turn.state)
        await self._append(manifest.encode(record), self._query)

    async def runs_of(self, batch: Prepared) -> list[Run]:
        """Return the halves of a batch that somebody has prepared."""
        queue = await self._home()
        found = []
        for queue_offset in batch.parts:
            page = await self._reader.read(queue, queue_offset, max=1, wait=READ_WAIT_S)
            if not page.messages or page.messages[0].queue_offset != queue_offset:
                raise NotFound(
                    f"part {queue_offset} of the commit of batch {batch.epoch} is no longer in {self._topic}",
                    hint="it was deleted by age: a query must be restarted within the topic's retention",
                )
            _, runs = manifest.read_part(page.messages[0].body)
            found.append(runs)
        return manifest.joined(found)

    # --- inside

    async def _append(self, body: bytes, tag: str) -> int:
        queue = await self._home()
        text = pair(TAG, tag) + pair(KEYS, self._query)
        receipt = await self._bulk.post(self._bulk.pack_one(self._topic, body, text), always(queue))
        return receipt.queue_offset

    async def _state_at(self, queue_offset: int) -> State:
        """Return the state as of a record, that one counted in."""
        oldest = await self._reader.min_offset(await self._home())
        for back in (*LOOK_BACK, queue_offset):
            start = max(oldest, queue_offset - back)
            found = await self._records(start, queue_offset)
            known = [each for _, each in found if not isinstance(each, Begun)]
            if known:
                since, state = known[-1].begun, known[-1].before
                if since < start:
                    found = await self._records(since, queue_offset)
                return manifest.fold_all(state, [each for offset, each in found if offset >= since])
            if start == oldest:
                break
        return manifest.fold_all(State(), [each for _, each in found])

    async def _records(self, start: int, last: int) -> list[tuple[int, manifest.Record]]:
        """Return the query's records from an offset to another one, that one counted in, with theirs."""
        queue, clock = await self._home(), self._cluster.ports.clock
        deadline = clock.monotonic() + self._timeout_s
        found: list[tuple[int, manifest.Record]] = []
        while start <= last:
            page = await self._reader.read(queue, start, max=PAGE, tags=self._query, wait=READ_WAIT_S)
            found += [
                (message.queue_offset, manifest.decode(message.body))
                for message in page.messages
                if message.queue_offset <= last
            ]
            if page.next_offset > start:
                start = page.next_offset
            elif clock.monotonic() >= deadline:
                raise TimedOut(f"{self._topic} cannot be read up to offset {last}: it ends at {start}")
        return found

    async def _home(self) -> QueueName:
        """Return the queue of the log; its topic is made where there is none."""
        if self._queue is None:
            try:
                queues = await self._reader.queues(self._topic)
            except NoRoute:
                await self._make_topic()
                queues = await self._reader.queues(self._topic)
            self._queue = min(queues)
        return self._queue

    async def _make_topic(self) -> None:
        """Make the topic on one broker, with one queue: a log has one end."""
        admin = Admin(self._cluster)
        masters = sorted({place.name for place in await admin.cluster.list() if place.is_master})
        await admin.topics.create(self._bulk.name(self._topic), queues=1, broker=masters[0])
