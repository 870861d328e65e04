"""What a store can be told: sizes, flush mode, limits of a read, retention. Defaults are Apache's.

Built by the program's composition root (which maps `broker.conf` keys to these names) and handed to
`Store`, which also takes a new one at run time through `configure`. Fields marked "fixed" are read
when the store opens and never again. Reference: Apache's MessageStoreConfig, 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from roquet.store.format.queue_entry import ENTRY_SIZE_BYTES

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class FlushMode(Enum):
    """When an append is answered: after the write (survives a killed process) or after the sync."""

    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the milliseconds of each level of a text such as `1s 5s 1m 2h`; raises ValueError."""
    levels: list[int] = []
    for word in text.split():
        if word[-1] not in _UNITS_MS or not word[:-1].isdecimal():
            raise ValueError(f"delay level {word!r}: expected a number and one of s, m, h, d, such as 30s")
        levels.append(int(word[:-1]) * _UNITS_MS[word[-1]])
    return tuple(levels)


DELAY_LEVELS_MS = parse_delay_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """All settings of one store. `root_dir` is the only one without a default."""

    root_dir: str
    """Folder of everything but, if set elsewhere, the log (fixed)."""
    commitlog_dir: str = ""
    """Folder of the log; empty means `<root_dir>/commitlog` (fixed)."""
    log_file_size_bytes: int = GIB
    """Length of every log file (fixed; must match the files that exist)."""
    queue_file_size_bytes: int = 300_000 * ENTRY_SIZE_BYTES
    """Length of every queue file, rounded up to whole entries (fixed)."""
    queue_ext_enable: bool = False
    """Note beside each queue entry which selectors its message matches (fixed)."""
    queue_ext_file_size_bytes: int = 48 * MIB
    """Length of every file of such notes (fixed; files of another length count as missing)."""
    index_slot_count: int = 5_000_000
    """Hash slots of an index file (fixed)."""
    index_entry_count: int = 20_000_000
    """Entries of an index file (fixed)."""
    message_index_enable: bool = True
    """File messages under their keys (fixed)."""
    message_index_safe: bool = False
    """After a crash, recover from where the index is safe too: slower, loses no index entry (fixed)."""
    check_crc_on_recover: bool = True
    """Verify each body's checksum while recovering (fixed)."""
    append_property_crc: bool = False
    """End the properties of each record with a checksum of the whole record (fixed)."""
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS
    """Delay of each level: queue entries of the delay topic carry the time of delivery."""

    flush_mode: FlushMode = FlushMode.ASYNC
    """Answer after the write or after the sync."""
    flush_interval_ms: int = 500
    """How often the log is synced in ASYNC mode."""
    flush_least_pages: int = 4
    """Dirty 4 KiB pages below which a turn of the ASYNC sync is skipped."""
    flush_thorough_interval_ms: int = 10_000
    """After this time the log is synced whatever the number of pages."""
    sync_flush_timeout_ms: int = 5_000
    """In SYNC mode, answer FLUSH_DISK_TIMEOUT after this time."""
    queue_flush_interval_ms: int = 1_000
    """How often new queue entries are written out."""
    queue_flush_thorough_interval_ms: int = 60_000
    """How often queue files are synced and the checkpoint moves."""
    checkpoint_interval_ms: int = 1_000
    """How often the checkpoint is saved when it has changed."""

    message_size_bytes_max: int = 4 * MIB
    """Longest body accepted."""
    filter_message_size_bytes: int = 16_000
    """Bytes of queue entries that one read scans at most (800 entries), or what its count needs."""
    transfer_bytes_in_memory_max: int = 256 * KIB
    """Bytes that one read returns at most of recent messages."""
    transfer_count_in_memory_max: int = 32
    """Messages that one read returns at most of recent messages."""
    transfer_bytes_on_disk_max: int = 64 * KIB
    """Bytes that one read returns at most of old messages."""
    transfer_count_on_disk_max: int = 8
    """Messages that one read returns at most of old messages."""
    transfer_bytes_bulk_max: int = 4 * MIB
    """Bytes that one read returns at most to a reader that asks for bulk, such as Spark."""
    physical_memory_bytes: int = 8 * GIB
    """Memory of the machine: decides what counts as recent."""
    memory_percent_max: int = 40
    """Share of that memory that recent messages may take."""
    open_queue_files_max: int = 2_048
    """Queue files kept open at the same time (fixed)."""

    delete_when_hours: tuple[int, ...] = (4,)
    """Hours of the day in which expired log files are deleted."""
    file_reserved_hours: int = 72
    """Age at which a log file expires."""
    delete_file_batch_max: int = 10
    """Log files that one round deletes at most."""
    clean_interval_ms: int = 10_000
    """Time between two rounds of deletion."""
    clean_first_delay_ms: int = 60_000
    """Time from the start to the first round."""
    disk_max_used_percent: int = 75
    """Above it, expired files are deleted at any hour."""
    disk_clean_forcibly_percent: int = 85
    """Above it, the oldest files are deleted whatever their age."""
    disk_warning_percent: int = 90
    """Above it, writes are refused as well."""
    clean_file_forcibly_enable: bool = True
    """Whether deletion regardless of age is allowed."""

    timer_wheel_enable: bool = True
    """Accept messages for an arbitrary time."""
    timer_precision_ms: int = 1_000
    """Length of a slot of the timer wheel: how much later than asked a timed message may be (fixed)."""
    timer_max_delay_s: int = 3 * 86_400
    """How far ahead a message may be timed."""
    timer_roll_window_slots: int = 2 * 86_400
    """Slots ahead within which a message gets its own; others are filed again on the way."""
    timer_log_file_size_bytes: int = 100 * MIB
    """Length of every file of the timer log (fixed; must match the files that exist)."""
    timer_flush_interval_ms: int = 1_000
    """How often the timer's files are saved when they have changed."""
    timer_delete_key_with_topic: bool = False
    """Write the topic into markers that cancel a timed message, as before 5.5.0."""

    @property
    def log_dir(self) -> str:
        return self.commitlog_dir or f"{self.root_dir}/commitlog"

    @property
    def queues_dir(self) -> str:
        return f"{self.root_dir}/consumequeue"

    @property
    def queue_ext_dir(self) -> str:
        return f"{self.root_dir}/consumequeue_ext"

    @property
    def index_dir(self) -> str:
        return f"{self.root_dir}/index"

    @property
    def queue_file_bytes(self) -> int:
        """Length of a queue file: the setting rounded up to whole entries."""
        return -(-self.queue_file_size_bytes // ENTRY_SIZE_BYTES) * ENTRY_SIZE_BYTES

    @property
    def recent_bytes_max(self) -> int:
        """Distance from the end of the log within which a message counts as being in memory."""
        return self.physical_memory_bytes * self.memory_percent_max // 100
