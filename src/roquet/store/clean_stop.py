"""What a clean stop leaves behind so that the next start has nothing to read: `queues.json`.

It holds the end of the log and every queue's first and next offset. A start believes it only when the
log still ends with the very record that it names and each queue still has its folder; otherwise (another
program wrote to the store, a folder was deleted) recovery looks at everything. The file is removed at
every start, so a crash never finds an old one. Apache's broker ignores it.
"""

from __future__ import annotations

import logging

import msgspec

from roquet.ports import Disk
from roquet.store.format import record
from roquet.store.format.record import Stop
from roquet.store.queues import Queues
from roquet.store.segments import Segments

log = logging.getLogger("roquet.store")

FILE_NAME = "queues.json"


class CleanStop(msgspec.Struct, frozen=True):
    """The state of a store that was closed in order."""

    log_min_offset: int
    log_end_offset: int
    last_record_offset: int
    last_store_ms: int
    queues: dict[str, dict[int, tuple[int, int]]]


def save(disk: Disk, root_dir: str, found: CleanStop) -> None:
    """Write the file so that it is there whole or not at all."""
    path = f"{root_dir}/{FILE_NAME}"
    disk.write_file(f"{path}.tmp", msgspec.json.encode(found))
    disk.rename(f"{path}.tmp", path)


def take(disk: Disk, root_dir: str) -> CleanStop | None:
    """Return what the last stop left, and remove it; None when there is nothing to believe."""
    path = f"{root_dir}/{FILE_NAME}"
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        return None
    disk.remove(path)
    disk.sync_dir(root_dir)
    try:
        return msgspec.json.decode(data, type=CleanStop)
    except msgspec.DecodeError as error:
        log.warning("%s cannot be read (%s): every queue is looked at instead", path, error)
        return None


def describe(
    segments: Segments, queues: Queues, log_end_offset: int, last_record_offset: int, last_store_ms: int
) -> CleanStop:
    """Return the state of a store at rest."""
    table: dict[str, dict[int, tuple[int, int]]] = {}
    for queue in queues:
        if queue.max_offset:
            table.setdefault(queue.topic, {})[queue.queue_id] = (queue.min_offset, queue.max_offset)
    return CleanStop(segments.min_offset, log_end_offset, last_record_offset, last_store_ms, table)


def is_still_true(found: CleanStop, segments: Segments, queues: Queues) -> bool:
    """Return whether the files are as the stop left them, as far as a few reads can tell."""
    if segments.is_empty or segments.min_offset != found.log_min_offset:
        return False
    if not segments.min_offset <= found.last_record_offset < segments.end_capacity:
        return False
    last = found.last_record_offset
    file_end = segments.start_of(last) + segments.file_size_bytes
    head = segments.read_now(last, record.BLANK_SIZE_BYTES_MIN)
    size = int.from_bytes(head[:4], "big") + record.BLANK_SIZE_BYTES_MIN
    scan = record.scan(segments.read_now(last, size), last, file_end, True, (), 2)
    if len(scan.entries) != 1 or scan.entries[0].store_ms != found.last_store_ms:
        return False
    ends_here = scan.stop is Stop.ZEROS and scan.end_offset == found.log_end_offset
    ends_file = scan.stop is Stop.FILE_END and file_end == found.log_end_offset == segments.end_capacity
    if not (ends_here or ends_file):
        return False
    listed = {(topic, queue_id) for topic, of_topic in found.queues.items() for queue_id in of_topic}
    return listed == set(queues.discover())


def apply(found: CleanStop, queues: Queues) -> None:
    """Give every queue the offsets that the stop wrote down."""
    for topic, of_topic in found.queues.items():
        for queue_id, (min_offset, max_offset) in of_topic.items():
            queues.get(topic, queue_id).take_over(min_offset, max_offset)
