"""The log of a query's commits, which is what makes them happen once: its records and how they add up; pure.

    begun(t) … part … part · prepared(t, 7, parts) … committed(t, 7)        all of one query, in one queue
       │                          │ the commit point of batch 7, if t is still the last that has begun
       └ a token t: whoever begins later takes the turn, and what t prepares after that counts for nothing

Whoever reads the queue up to its own `begun` knows all that can still count (`fold`). A `prepared` and a
`committed` hold the state as of their own `begun`, so that a reader need not go further back. Places of
halves are in parts, which are read only when somebody else's commit must be finished.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    import numpy as np

PART_PLACES_MAX: Final = 100_000
"""Places in one part: 1.6 MB before they are packed, which any broker takes."""

NO_EPOCH: Final = -1
"""Before the first one: batches are numbered from 0."""

Ends = dict[str, dict[str, dict[str, int]]]
"""topic → broker → queue id → offset."""


class Prepared(msgspec.Struct, frozen=True):
    """A batch that is committed for good, though perhaps not visible yet."""

    epoch: int
    rows: int
    parts: tuple[int, ...]
    """queue offsets of the parts"""
    stages: tuple[str, ...]
    """which attempts of tasks it takes in"""
    ends: Ends
    """where the target queues ended before; only of brokers that would commit a half twice"""


class State(msgspec.Struct, frozen=True):
    """What a query's log adds up to."""

    token: str = ""
    committed: int = NO_EPOCH
    stages: tuple[str, ...] = ()
    """of the batch that was committed last"""
    prepared: Prepared | None = None


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    token: str


class PreparedRecord(msgspec.Struct, frozen=True, tag="prepared"):
    token: str
    batch: Prepared
    begun: int
    """queue offset of the `begun` that this belongs to"""
    before: State
    """the state there"""
    version: int = 1


class CommittedRecord(msgspec.Struct, frozen=True, tag="committed"):
    token: str
    epoch: int
    stages: tuple[str, ...]
    begun: int
    before: State
    version: int = 1


Record = Begun | PreparedRecord | CommittedRecord

_DECODER: Final = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    return msgspec.json.encode(record)


def decode(body: bytes) -> Record:
    """Return a record; raises ValueError for what is none."""
    record: Record = _DECODER.decode(body)
    return record


def fold(state: State, record: Record) -> State:
    """Return the state after one more record."""
    if isinstance(record, Begun):
        return msgspec.structs.replace(state, token=record.token)
    if isinstance(record, PreparedRecord):
        counts = (
            record.token == state.token and state.prepared is None and record.batch.epoch > state.committed
        )
        return msgspec.structs.replace(state, prepared=record.batch) if counts else state
    if record.epoch <= state.committed:
        return state
    left = state.prepared if state.prepared is not None and state.prepared.epoch > record.epoch else None
    return State(state.token, record.epoch, record.stages, left)


def fold_all(state: State, records: Iterable[Record]) -> State:
    for record in records:
        state = fold(state, record)
    return state


class Run(NamedTuple):
    """Halves of one broker and topic, in the order in which they shall become visible."""

    broker: str
    topic: str
    places: bytes
    """queue offset 8, log offset 8 (big-endian), one behind the other"""


PLACE_BYTES: Final = 16


def rows_of(runs: Iterable[Run]) -> int:
    return sum(len(run.places) for run in runs) // PLACE_BYTES


def joined(stages: Iterable[Sequence[Run]]) -> list[Run]:
    """Return the halves of several tasks, one run for each broker and topic."""
    found: dict[tuple[str, str], list[bytes]] = {}
    for runs in stages:
        for run in runs:
            found.setdefault((run.broker, run.topic), []).append(run.places)
    return [Run(broker, topic, b"".join(parts)) for (broker, topic), parts in sorted(found.items())]


class _PartHead(msgspec.Struct, frozen=True):
    token: str
    runs: tuple[tuple[str, str, int], ...]
    """broker, topic, how many"""


def parts(token: str, runs: Sequence[Run]) -> Iterator[bytes]:
    """Yield the bodies of parts that hold all places: a line that says whose, then packed differences."""
    pieces: list[Run] = []
    room = PART_PLACES_MAX
    for run in runs:
        start, count = 0, len(run.places) // PLACE_BYTES
        while start < count:
            end = min(count, start + room)
            pieces.append(run._replace(places=run.places[start * PLACE_BYTES : end * PLACE_BYTES]))
            room -= end - start
            start = end
            if not room:
                yield _part(token, pieces)
                pieces, room = [], PART_PLACES_MAX
    if pieces:
        yield _part(token, pieces)


def _part(token: str, pieces: Sequence[Run]) -> bytes:
    import numpy as np

    head = _PartHead(token, tuple((run.broker, run.topic, len(run.places) // PLACE_BYTES) for run in pieces))
    table = _table(b"".join([run.places for run in pieces]))
    # Neighbours differ by little: differences pack to a fifth of what the numbers do.
    steps = np.diff(table, axis=0, prepend=np.zeros((1, 2), np.int64))
    return msgspec.json.encode(head) + b"\n" + zlib.compress(steps.T.astype(">i8").tobytes(), 1)


def read_part(body: bytes) -> tuple[str, list[Run]]:
    """Return a part's token and its runs; raises ValueError for what is none."""
    import numpy as np

    line, _, packed = body.partition(b"\n")
    head = msgspec.json.decode(line, type=_PartHead)
    steps = np.frombuffer(zlib.decompress(packed), ">i8").reshape(2, -1).T.astype(np.int64)
    places = np.cumsum(steps, axis=0).astype(">i8").tobytes()
    runs, position = [], 0
    for broker, topic, count in head.runs:
        end = position + count * PLACE_BYTES
        runs.append(Run(broker, topic, places[position:end]))
        position = end
    if position != len(places):
        raise ValueError(f"a part holds {len(places)} bytes of places, and its head says {position}")
    return head.token, runs


def without(run: Run, log_offsets: frozenset[int]) -> Run:
    """Return a run without the halves at these places in the log."""
    import numpy as np

    table = _table(run.places)
    gone = np.isin(table[:, 1], np.fromiter(log_offsets, np.int64, len(log_offsets)))
    return run._replace(places=table[~gone].astype(">i8").tobytes())


def pairs_of(run: Run) -> list[tuple[int, int]]:
    """Return queue offset and log offset of each half."""
    return [(queue_offset, log_offset) for queue_offset, log_offset in _table(run.places).tolist()]


def _table(places: bytes) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    import numpy as np

    return np.frombuffer(places, ">i8").reshape(-1, 2).astype(np.int64)


def spared(state: State, epoch: int) -> frozenset[str]:
    """Return the attempts of tasks that no abort of this batch may take back."""
    found = set(state.stages) if state.committed >= epoch else set()
    if state.prepared is not None:
        found.update(state.prepared.stages)
    return frozenset(found)


def target_ends(ends: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[tuple[str, str, int, int]]:
    """Return topic, broker, queue id and offset of every target queue that is to be looked through."""
    return [
        (topic, broker, int(queue_id), offset)
        for topic, brokers in ends.items()
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    ]
