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

from roquet.model.message import Draft, Entry, Host, SysFlag
from roquet.model.status import Appended, PutStatus
from roquet.ports import Clock
from roquet.store.format import record
from roquet.store.queues import Queue
from roquet.store.segments import Segments, StoreDamaged
from roquet.store.settings import StoreSettings

log = logging.getLogger("roquet.store")

ZEROS = bytes(1024 * 1024)

_TRANSACTION_PREPARED = int(SysFlag.TRANSACTION_PREPARED)

Done = Callable[[Appended], None]


def has_queue_entry(sys_flag: int) -> bool:
    """Return whether such a record appears in its queue: prepared and rolled-back ones do not."""
    return not sys_flag & _TRANSACTION_PREPARED


class Waiting:
    """One append (a draft, or a batch stored as a whole) between its acceptance and its answer."""

    __slots__ = (
        "appended",
        "deadline",
        "done",
        "end_offset",
        "entries",
        "is_answered",
        "properties",
        "queues",
    )

    def __init__(
        self,
        appended: Appended,
        entries: list[Entry],
        queues: list[Queue],
        end_offset: int,
        done: Done,
        properties: bytes,
    ) -> None:
        self.appended = appended
        self.entries = entries
        self.queues = queues
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
        self, drafts: Sequence[Draft], queues: list[Queue], done: Done, settings: StoreSettings
    ) -> str:
        """Give the drafts their places and keep their bytes for the next `write`.

        Returns an empty text, or why the drafts can never be stored.
        """
        store_ms = self._clock.now_ms()
        if store_ms < self.last_store_ms:
            store_ms = self.last_store_ms
        else:
            self.last_store_ms = store_ms
        start = self.end_offset
        data, entries = self._encode(drafts, queues, start, store_ms, settings)
        size = len(data)
        file_size = self.segments.file_size_bytes
        free = file_size - start % file_size
        if size + record.BLANK_SIZE_BYTES_MIN > file_size:
            return f"{size} bytes do not fit into one log file of {file_size}: send less at once"
        if size + record.BLANK_SIZE_BYTES_MIN > free:
            self._add(record.blank(free), start)
            start += free
            data, entries = self._encode(drafts, queues, start, store_ms, settings)
        run = self._add(data, start)
        self.end_offset = start + size
        for queue, entry in zip(queues, entries, strict=True):
            if not entry.sys_flag & _TRANSACTION_PREPARED:
                queue.next_offset += 1
        log_offsets = [entry.log_offset for entry in entries]
        queue_offsets = [entry.queue_offset for entry in entries]
        appended = Appended(
            PutStatus.PUT_OK, log_offsets, queue_offsets[0], store_ms, size, queue_offsets=queue_offsets
        )
        run.waiting.append(Waiting(appended, entries, queues, self.end_offset, done, drafts[0].properties))
        self.pending_bytes += size
        return ""

    def _encode(
        self,
        drafts: Sequence[Draft],
        queues: list[Queue],
        log_offset: int,
        store_ms: int,
        settings: StoreSettings,
    ) -> tuple[bytes, list[Entry]]:
        encode = record.encode_with_crc if settings.append_property_crc else record.encode
        parts: list[bytes] = []
        entries: list[Entry] = []
        ahead: dict[Queue, int] = {}
        for draft, queue in zip(drafts, queues, strict=True):
            queue_offset = 0
            if not draft.sys_flag & _TRANSACTION_PREPARED:
                queue_offset = ahead.get(queue, queue.next_offset)
                ahead[queue] = queue_offset + 1
            part = encode(draft, queue_offset, log_offset, store_ms, self._store_host)
            tag_code = draft.tag_code
            if draft.topic == record.DELAY_TOPIC:
                # The entry carries the time of delivery, counted from the store time: the same rule that
                # rebuilds it after a crash.
                tag_code, _ = record.describe(
                    draft.topic, draft.properties, store_ms, settings.delay_levels_ms
                )
            entries.append(
                Entry(
                    log_offset,
                    len(part),
                    draft.topic,
                    draft.queue_id,
                    queue_offset,
                    tag_code,
                    store_ms,
                    draft.sys_flag,
                    draft.prepared_log_offset,
                    draft.keys,
                    draft.properties,
                )  # fmt: skip
            )
            parts.append(part)
            log_offset += len(part)
        return (parts[0] if len(parts) == 1 else b"".join(parts)), entries

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
            for queue, entry in zip(waiting.queues, waiting.entries, strict=True):
                if has_queue_entry(entry.sys_flag):
                    queue.next_offset -= 1
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


def refusal(draft: Draft, settings: StoreSettings) -> Appended | None:
    """Return why a draft can never be stored, or None when it can."""
    size = len(draft.topic)
    if size > record.V1_TOPIC_CHARS_MAX and not draft.topic.startswith("%RETRY%"):
        return _illegal(f"the topic has {size} characters; {record.V1_TOPIC_CHARS_MAX} are allowed")
    if len(draft.body) > settings.message_size_bytes_max:
        return _illegal(
            f"the body has {len(draft.body)} bytes; {settings.message_size_bytes_max} are allowed: "
            "send less, or raise maxMessageSize"
        )
    properties_size = len(draft.properties)
    if settings.append_property_crc:
        properties_size += record.CRC_PROPERTY_SIZE_BYTES + 1
    if properties_size > record.PROPERTIES_BYTES_MAX:
        return Appended(
            PutStatus.PROPERTIES_SIZE_EXCEEDED,
            reason=f"the properties have {properties_size} bytes; {record.PROPERTIES_BYTES_MAX} are allowed",
        )
    return None


def _illegal(reason: str) -> Appended:
    return Appended(PutStatus.MESSAGE_ILLEGAL, reason=reason)
