"""The commit log: drafts get their places, are encoded into one buffer, and reach the file in one write.

    append ── offsets, store time, bytes ──▶ pending runs ── write(), once a turn ──▶ segments

`append` never waits and never touches the disk. A run is the part of the pending bytes that lies in one
file; a batch that does not fit into what is left of a file is preceded by a blank and begins the next.
What a failed write may have left in the file is zeroed before anything else is written there, so that a
restart cannot take it for records. The log does not know flushing, visibility or queues' files.
Reference: Apache's CommitLog, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from roquet.model.message import Draft, Entry, Host
from roquet.model.status import Appended, PutStatus
from roquet.ports import Clock
from roquet.store.format import record
from roquet.store.format.run import Share, Shared, lay_out
from roquet.store.queues import Queue, Queues, is_name
from roquet.store.segments import Segments, StoreDamaged
from roquet.store.settings import StoreSettings

log = logging.getLogger("roquet.store")

ZEROS = bytes(1024 * 1024)

Done = Callable[[Appended], None]


class Place(NamedTuple):
    """A queue that drafts of an append go to: how many, and the offset of the first.

    `is_queued` says whether it gets entries of them.
    """

    queue: Queue
    message_count: int
    is_queued: bool
    first_offset: int


class Waiting:
    """One append (a draft, or a batch stored as a whole) between its acceptance and its answer."""

    __slots__ = (
        "appended",
        "deadline",
        "done",
        "end_offset",
        "entries",
        "is_answered",
        "owners",
        "places",
        "properties",
    )

    def __init__(
        self,
        appended: Appended,
        entries: list[Entry],
        places: Sequence[Place],
        owners: Sequence[int],
        end_offset: int,
        done: Done,
        properties: bytes,
    ) -> None:
        self.appended = appended
        self.entries = entries
        self.places = places
        self.owners = owners
        self.end_offset = end_offset
        self.done = done
        self.properties = properties
        self.is_answered = False
        self.deadline = 0.0


class Run:
    """Pending bytes for one file, and the appends that they belong to."""

    __slots__ = ("parts", "start", "waiting")

    def __init__(self, start: int) -> None:
        self.start = start
        self.parts: list[bytes] = []
        self.waiting: list[Waiting] = []


class Written(NamedTuple):
    """What a write achieved: the appends that are in the file, those that are not, and why."""

    stored: list[Waiting]
    failed: list[Waiting]
    reason: str


class CommitLog:
    """The log of one store, from the first file to `end_offset`, where the next record goes."""

    def __init__(self, segments: Segments, clock: Clock, store_host: Host) -> None:
        self.segments = segments
        self._clock = clock
        self._store_host = store_host
        self._runs: list[Run] = []
        self._torn: tuple[int, int] | None = None
        self.end_offset = 0
        self.written_offset = 0
        self.last_record_offset = 0
        self.last_store_ms = 0
        self.written_store_ms = 0
        self.pending_bytes = 0

    def begin_at(self, end_offset: int, last_record_offset: int, last_store_ms: int) -> None:
        """Continue behind what recovery found."""
        assert not self._runs
        self.last_record_offset = last_record_offset
        self.end_offset = self.written_offset = end_offset
        self.last_store_ms = self.written_store_ms = last_store_ms

    @property
    def min_offset(self) -> int:
        return min(self.segments.min_offset, self.written_offset)

    def append(
        self,
        drafts: Sequence[Draft],
        shared: Shared,
        queues: Sequence[Queue],
        done: Done,
        settings: StoreSettings,
    ) -> str:
        """Give the drafts their places and keep their bytes for the next `write`.

        `shared` are the drafts by queue, and `queues` those queues. Returns an empty text, or why the drafts
        can never be stored.
        """
        store_ms = self._clock.now_ms()
        if store_ms < self.last_store_ms:
            store_ms = self.last_store_ms
        else:
            self.last_store_ms = store_ms
        start = self.end_offset
        places = [
            Place(queue, share.message_count, share.is_queued, queue.next_offset if share.is_queued else 0)
            for share, queue in zip(shared.shares, queues, strict=True)
        ]
        queue_offsets = _queue_offsets(places, shared.owners)
        told = (store_ms, self._store_host, settings.delay_levels_ms, settings.append_property_crc)
        data, entries = lay_out(drafts, queue_offsets, start, *told)
        size = len(data)
        file_size = self.segments.file_size_bytes
        free = file_size - start % file_size
        if size + record.BLANK_SIZE_BYTES_MIN > file_size:
            return f"{size} bytes do not fit into one log file of {file_size}: send less at once"
        if size + record.BLANK_SIZE_BYTES_MIN > free:
            self._add(record.blank(free), start)
            start += free
            data, entries = lay_out(drafts, queue_offsets, start, *told)
        run = self._add(data, start)
        self.end_offset = start + size
        for queue, count, is_queued, _ in places:
            if is_queued:
                queue.next_offset += count
        log_offsets = [entry.log_offset for entry in entries]
        appended = Appended(
            PutStatus.PUT_OK, log_offsets, queue_offsets[0], store_ms, size, queue_offsets=queue_offsets
        )
        run.waiting.append(
            Waiting(appended, entries, places, shared.owners, self.end_offset, done, drafts[0].properties)
        )
        self.pending_bytes += size
        return ""

    def _add(self, data: bytes, log_offset: int) -> Run:
        file_size = self.segments.file_size_bytes
        if not self._runs or self._runs[-1].start // file_size != log_offset // file_size:
            self._runs.append(Run(log_offset))
        run = self._runs[-1]
        run.parts.append(data)
        return run

    def write(self) -> Written:
        """Write everything pending; on a failure, take the offsets of what is not stored back."""
        runs, self._runs = self._runs, []
        self.pending_bytes = 0
        stored: list[Waiting] = []
        for index, run in enumerate(runs):
            data = run.parts[0] if len(run.parts) == 1 else b"".join(run.parts)
            try:
                self._clear_torn()
                self.segments.ensure_durable(run.start)
                self.segments.write(run.start, data)
            except (OSError, StoreDamaged) as error:
                self._torn = self._torn or (run.start, run.start + len(data))
                failed = [waiting for late in runs[index:] for waiting in late.waiting]
                self._take_back(run.start, failed)
                return Written(stored, failed, self._explain(run.start, error))
            stored += run.waiting
            if run.waiting:
                self.last_record_offset = run.waiting[-1].entries[-1].log_offset
                self.written_store_ms = run.waiting[-1].appended.store_ms
            self.written_offset = run.start + len(data)
            if len(run.parts[-1]) == record.BLANK_SIZE_BYTES_MIN:
                # A blank ends the run: its bytes are few, but it stands for the rest of the file.
                self.written_offset = self.segments.start_of(run.start) + self.segments.file_size_bytes
        return Written(stored, [], "")

    def _take_back(self, end_offset: int, failed: list[Waiting]) -> None:
        self.end_offset = self.written_offset = end_offset
        for waiting in reversed(failed):
            for queue, count, is_queued, _ in waiting.places:
                if is_queued:
                    queue.next_offset -= count
        try:
            self._clear_torn()
        except (OSError, StoreDamaged):
            # The next write tries again before it writes anything else.
            log.error("%s: cannot clear what a failed write left", self.segments.path_of(end_offset))

    def _clear_torn(self) -> None:
        if self._torn is None:
            return
        start, stop = self._torn
        if start < self.segments.end_capacity:
            for position in range(start, stop, len(ZEROS)):
                self.segments.write(position, memoryview(ZEROS)[: min(stop - position, len(ZEROS))])
        self._torn = None

    def _explain(self, log_offset: int, error: Exception) -> str:
        path = self.segments.path_of(log_offset)
        return f"the log cannot be written at {log_offset} ({path}): {error}; free space or mend the disk"

    @property
    def is_torn(self) -> bool:
        """Whether a failed write left bytes behind the end that could not be cleared yet."""
        return self._torn is not None


def _queue_offsets(places: Sequence[Place], owners: Sequence[int]) -> list[int]:
    """Return the queue offset of each draft; those without an entry have 0."""
    if len(places) == 1:
        _, count, is_queued, first_offset = places[0]
        return list(range(first_offset, first_offset + count)) if is_queued else [0] * count
    following = [place.first_offset for place in places]
    steps = [int(place.is_queued) for place in places]
    queue_offsets: list[int] = []
    for owner in owners:
        queue_offsets.append(following[owner])
        following[owner] += steps[owner]
    return queue_offsets


def refusal(
    drafts: Sequence[Draft], shares: Sequence[Share], queues: Queues, settings: StoreSettings
) -> Appended | None:
    """Return why the first draft that can never be stored cannot, or None when all can."""
    for topic, queue_id, *_ in shares:
        if queues.find(topic, queue_id) is None and not is_name(topic, queue_id):
            return _illegal(f"{topic!r}/{queue_id} cannot name a queue: letters, digits, %|_+-")
    if all(
        _fault(some.topic, some.body_bytes_max, some.properties_bytes_max, settings) is None
        for some in shares
    ):
        return None
    faults = (_fault(each.topic, len(each.body), len(each.properties), settings) for each in drafts)
    return next(fault for fault in faults if fault is not None)


def _fault(topic: str, body_bytes: int, properties_bytes: int, settings: StoreSettings) -> Appended | None:
    size = len(topic)
    if size > record.V1_TOPIC_CHARS_MAX and not topic.startswith("%RETRY%"):
        return _illegal(f"the topic has {size} characters; {record.V1_TOPIC_CHARS_MAX} are allowed")
    if body_bytes > settings.message_size_bytes_max:
        return _illegal(
            f"the body has {body_bytes} bytes; {settings.message_size_bytes_max} are allowed: "
            "send less, or raise maxMessageSize"
        )
    if settings.append_property_crc:
        properties_bytes += record.CRC_PROPERTY_SIZE_BYTES + 1
    if properties_bytes > record.PROPERTIES_BYTES_MAX:
        return Appended(
            PutStatus.PROPERTIES_SIZE_EXCEEDED,
            reason=f"the properties have {properties_bytes} bytes; {record.PROPERTIES_BYTES_MAX} are allowed",
        )
    return None


def _illegal(reason: str) -> Appended:
    return Appended(PutStatus.MESSAGE_ILLEGAL, reason=reason)
