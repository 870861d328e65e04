"""Retention: which log files may go, when, and whether the disk is too full to write.

Pure decisions over numbers; the store asks every ten seconds and does what the verdict says. Nothing
is remembered here but what the caller passes back, so all recovers by itself when space returns.

    used %   ≤ 75          > 75               > 85                         > 90
             expired files expired files      oldest files of any age      the same, and writes are
             in the hour   at any hour        (if allowed)                 refused until ≤ 85 again

A full file expires `file_reserved_hours` after its last change. A topic may ask for less with its
attribute `reserve.time` (hours): Apache's default store ignores it, its tiered store reads it as
hours; here the topic's older entries become invisible. Reference: CleanCommitLogService, 5.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roquet.ports import DiskUsage, FileStat
from roquet.store.settings import StoreSettings

MS_PER_HOUR = 3_600_000
RESERVE_TIME = "reserve.time"


class Verdict(NamedTuple):
    """What to do now: delete that many of the oldest full files, refuse writes or not, and why."""

    delete_count: int
    forced: bool
    disk_full: bool
    reason: str


class Thresholds(NamedTuple):
    """Percentages of used space, within the ranges that Apache allows."""

    max_used: int
    clean_forcibly: int
    warning: int


def thresholds(settings: StoreSettings) -> Thresholds:
    """Return the percentages that count: a setting outside its range is pulled to the nearest end."""
    return Thresholds(
        _within(10, settings.disk_max_used_percent, 95),
        _within(30, settings.disk_clean_forcibly_percent, 85),
        _within(35, settings.disk_warning_percent, 90),
    )


def used_percent(usage: DiskUsage) -> int:
    """Return the used share of what an ordinary user can fill, in whole percent, rounded up."""
    entire = usage.used_bytes + usage.free_bytes
    return -(-usage.used_bytes * 100 // entire) if entire > 0 else 0


def decide(
    settings: StoreSettings,
    full_files: Sequence[FileStat],
    usages: Sequence[DiskUsage],
    now_ms: int,
    hour: int,
    was_disk_full: bool,
) -> Verdict:
    """Return what to do with the log.

    `full_files` are the log's files, oldest first, without the one that is being written and those
    made ahead of it: these are never deleted. `usages` are the partitions of log and queues, the
    log's first. `hour` is the local hour of day, `was_disk_full` what the last verdict said.
    """
    limits = thresholds(settings)
    percents = [used_percent(usage) for usage in usages]
    worst = max(percents, default=0)
    disk_full = worst > limits.warning or (was_disk_full and worst > limits.clean_forcibly)
    full_text = "; writes are refused until there is space" if disk_full else ""
    batch = full_files[: settings.delete_file_batch_max]
    if worst > limits.clean_forcibly and settings.clean_file_forcibly_enable:
        reason = f"disk {worst}% used, more than {limits.clean_forcibly}%: deleting files of any age"
        needed = _files_to_free(batch, usages[0], limits.clean_forcibly)
        # When it is the queues' partition that is full, the log must shrink for queue files to go.
        count = needed if percents[0] > limits.clean_forcibly else len(batch)
        return Verdict(max(count, _expired(settings, batch, now_ms)), True, disk_full, reason + full_text)
    if worst > limits.max_used:
        reason = f"disk {worst}% used, more than {limits.max_used}%: deleting expired files"
    elif hour in settings.delete_when_hours:
        reason = f"hour {hour}: deleting expired files"
    else:
        return Verdict(0, False, disk_full, f"disk {worst}% used" + full_text)
    return Verdict(_expired(settings, batch, now_ms), False, disk_full, reason + full_text)


def expired_before(attributes: Mapping[str, str], now_ms: int) -> int:
    """Return the store time before which a topic's messages are hidden; 0 hides nothing.

    The store raises the first offset of the topic's queues to the first entry at or after it. A value
    that is not a positive number of hours means the store's own retention, as in Apache.
    """
    text = attributes.get(RESERVE_TIME, "")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        return 0
    hours = int(text)
    return max(0, now_ms - hours * MS_PER_HOUR) if hours else 0


def _expired(settings: StoreSettings, files: Sequence[FileStat], now_ms: int) -> int:
    """Count the files from the oldest up to the first that has not expired."""
    lifetime_ms = settings.file_reserved_hours * MS_PER_HOUR
    count = 0
    for file in files:
        if file.modified_ms + lifetime_ms > now_ms:
            break
        count += 1
    return count


def _files_to_free(files: Sequence[FileStat], usage: DiskUsage, percent: int) -> int:
    """Count the files that must go until the partition is no more than `percent` full.

    Apache takes the whole batch; what need not go stays here.
    """
    used, free = usage.used_bytes, usage.free_bytes
    for count, file in enumerate(files):
        if used_percent(DiskUsage(usage.total_bytes, used, free)) <= percent:
            return count
        used, free = used - file.size_bytes, free + file.size_bytes
    return len(files)


def _within(low: int, value: int, high: int) -> int:
    return max(low, min(high, value))
