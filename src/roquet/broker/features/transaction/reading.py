"""From the half and op queues to the ledger: all of it after a start, the rest as time passes.

A start reads the op queue from its saved offset on, which says what is done, and then every other half
from its saved offset on. A committed message in the log names the half that it came from: one whose op
record a crash has taken is found so, and not committed a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from roquet.broker.core.redraft import Stored, reopen
from roquet.broker.features.transaction import shapes
from roquet.broker.features.transaction.halves import Half, Halves
from roquet.model.names import HALF_TOPIC, OP_HALF_TOPIC
from roquet.model.status import Got
from roquet.store.format.queue_entry import QueueEntry
from roquet.store.format.record import decode

BACKOFF_MAX: Final = 4
"""Waits between two questions grow up to so many check intervals."""

_ENTRIES_AT_ONCE: Final = 256

READ_COUNT: Final = 32
READ_BYTES: Final = 256 * 1024
"""Halves of one read: what the store gives at once."""


class Queues(Protocol):
    """What is read of the store."""

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    async def queue_entries(self, topic: str, queue_id: int, first: int, count: int) -> list[QueueEntry]: ...

    async def record_at(self, log_offset: int) -> bytes | None: ...

    def read_hot(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int, max_bytes: int
    ) -> Got | None: ...


class Terms(NamedTuple):
    """Time, and the settings that decide when a half is asked about."""

    now: float
    now_ms: int
    timeout_ms: int
    interval_ms: int


class Loaded(NamedTuple):
    """The ledger after a start, and records that are done without an op record saying so."""

    halves: Halves
    to_mend: list[int]


def backoff_ms(check_times: int, interval_ms: int) -> int:
    """Return how long a half is left alone after it was asked about for the n-th time."""
    return (
        interval_ms * min(2 ** max(check_times - 1, 0), BACKOFF_MAX)
        if check_times < 32
        else (interval_ms * BACKOFF_MAX)
    )


def half_of(stored: Stored, terms: Terms) -> Half:
    """Return the ledger's entry of a half. When it is due is counted from here on by the monotonic clock, and
    never further away than one wait: clocks of producers and of this host may be wrong."""
    properties = stored.properties
    times = shapes.check_times(properties)
    if times:
        since_ms, wait_ms = stored.store_ms, backoff_ms(times, terms.interval_ms)
    else:
        since_ms, wait_ms = stored.draft.born_ms, shapes.immunity_ms(properties, terms.timeout_ms)
    left_ms = min(max(since_ms + wait_ms - terms.now_ms, 0), wait_ms)
    topic, _ = shapes.real_place(properties)
    due = terms.now + left_ms / 1000
    return Half(stored.queue_offset, stored.log_offset, topic, times, due, terms.now)


async def load(
    store: Queues, half_offset: int | None, op_offset: int | None, committed: Mapping[int, str], terms: Terms
) -> Loaded:
    """Return the ledger. `committed` has the places of halves whose message was seen in the log, with its
    unique key."""
    first_half = _within(store, HALF_TOPIC, half_offset)
    halves = Halves(first_half, _within(store, OP_HALF_TOPIC, op_offset))
    done: set[int] = set()
    last_op = store.max_offset(OP_HALF_TOPIC, 0)
    while halves.next_op_offset < last_op:
        entries = await store.queue_entries(OP_HALF_TOPIC, 0, halves.next_op_offset, _ENTRIES_AT_ONCE)
        for entry in entries:
            data = await store.record_at(entry.log_offset)
            offsets = [] if data is None else shapes.op_offsets(decode(data))
            done.update(offsets)
            halves.op_stored(offsets)
        if not entries:
            break
    sieve = _Sieve(halves, done, committed, terms)
    last_half = store.max_offset(HALF_TOPIC, 0)
    while halves.frontier < last_half:
        first = halves.frontier
        entries = await store.queue_entries(HALF_TOPIC, 0, first, _ENTRIES_AT_ONCE)
        for queue_offset, entry in enumerate(entries, first):
            data = None if queue_offset in done else await store.record_at(entry.log_offset)
            if data is not None:
                sieve.take(reopen(data))
            halves.pass_over()
        if not entries:
            break
    return Loaded(halves, sieve.to_mend)


class _Sieve:
    """Takes the halves that no op record names, one after another, and finds those that are done all the
    same. Records of one transaction are told by the offset of the first one, or, where Apache stored it
    again, by the unique key."""

    def __init__(self, halves: Halves, done: set[int], committed: Mapping[int, str], terms: Terms) -> None:
        self._halves = halves
        self._done = done
        self._committed = committed
        # No client can have a message stored that names a place in the log other than 0.
        self._committed_keys = {key for place, key in committed.items() if place and key}
        self._terms = terms
        self._by_key: dict[str, Half] = {}
        self.to_mend: list[int] = []

    def take(self, record: Stored) -> None:
        halves, terms = self._halves, self._terms
        properties = record.properties
        key = properties.get(shapes.UNIQUE_KEY, "")
        first = shapes.first_offset(properties, record.queue_offset)
        half = half_of(record, terms)
        known = halves.find(first)
        if known is None and half.check_times:
            known = self._by_key.get(key)
        is_committed = self._committed.get(record.log_offset) == key or key in self._committed_keys
        is_ended = shapes.FIRST_OFFSET_OF_APACHE in properties and first in self._done
        if is_committed or is_ended:
            if known is not None:  # its newest record says so, but older ones were not passed yet
                self.to_mend += known.offsets
                halves.close(known, shapes.COMMIT)
                self._by_key.pop(key, None)
            self.to_mend.append(record.queue_offset)
        elif known is not None:
            self.to_mend.append(known.queue_offset)
            halves.move(known, record.queue_offset, record.log_offset, terms.now)
            known.check_times, known.due = half.check_times, half.due
        else:
            halves.add(half)
            self._by_key[key] = half
            if first != record.queue_offset:
                halves.add_older(half, first)


async def read_on(store: Queues, halves: Halves, limit: int, terms: Callable[[], Terms]) -> None:
    """Take halves up to an offset that are still undecided."""
    while (first := halves.skip(limit)) is not None:
        if _read_on_hot(store, halves, limit, terms()):
            continue
        entries = await store.queue_entries(HALF_TOPIC, 0, first, min(_ENTRIES_AT_ONCE, limit - first))
        if not entries:
            kept_from = store.min_offset(HALF_TOPIC, 0)
            if first >= kept_from:
                return
            while halves.frontier < min(kept_from, limit):  # their log files were deleted
                halves.pass_over()
            continue
        for queue_offset, entry in enumerate(entries, first):
            if halves.is_unread(queue_offset):
                data = await store.record_at(entry.log_offset)
                # While the disk was busy its producer may have ended it.
                if data is not None and halves.is_unread(queue_offset):
                    halves.add(half_of(reopen(data), terms()))
            halves.pass_over()


def _read_on_hot(store: Queues, halves: Halves, limit: int, terms: Terms) -> bool:
    """Take the next halves together and without a wait; False when one by one is the only way."""
    first = halves.frontier
    got = store.read_hot(HALF_TOPIC, 0, first, min(READ_COUNT, limit - first), READ_BYTES)
    for data in () if got is None else got.records:
        queue_offset = int.from_bytes(data[20:28], "big")
        if queue_offset != halves.frontier or queue_offset >= limit:
            break
        if halves.is_unread(queue_offset):
            halves.add(half_of(reopen(data), terms))
        halves.pass_over()
    return halves.frontier > first


def _within(store: Queues, topic: str, offset: int | None) -> int:
    """Return a saved offset as far as the queue has it: a power cut may have taken the end of the queue."""
    low, high = store.min_offset(topic, 0), store.max_offset(topic, 0)
    return low if offset is None else max(low, min(offset, high))
