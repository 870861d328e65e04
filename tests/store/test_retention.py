"""Which files go, when, and when writes are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roquet.ports import DiskUsage, FileStat
from roquet.store.retention import (
    MS_PER_HOUR,
    Thresholds,
    Verdict,
    decide,
    expired_before,
    thresholds,
    used_percent,
)
from roquet.store.settings import StoreSettings

SETTINGS = StoreSettings(root_dir="/store")
NOW_MS = 1_700_000_000_000
GIB = 1 << 30


def usage(percent: float, total: int = 1000 * GIB) -> DiskUsage:
    used = int(total * percent / 100)
    return DiskUsage(total, used, total - used)


def files(*ages_hours: float) -> list[FileStat]:
    return [
        FileStat(f"{n * GIB:020d}", GIB, NOW_MS - int(age * MS_PER_HOUR), False)
        for n, age in enumerate(ages_hours)
    ]


def verdict(
    percent: float,
    *ages_hours: float,
    hour: int = 12,
    was_disk_full: bool = False,
    queues_percent: float = 0,
    settings: StoreSettings = SETTINGS,
) -> Verdict:
    usages = [usage(percent), usage(queues_percent)]
    return decide(settings, files(*ages_hours), usages, NOW_MS, hour, was_disk_full)


@pytest.mark.parametrize(
    ("used", "free", "percent"),
    [(0, 100, 0), (1, 999, 1), (75, 25, 75), (751, 249, 76), (100, 0, 100), (0, 0, 0), (10, 0, 100)],
)
def test_the_ratio_is_rounded_up(used: int, free: int, percent: int) -> None:
    assert used_percent(DiskUsage(10_000, used, free)) == percent


def test_thresholds_have_ranges() -> None:
    assert thresholds(SETTINGS) == Thresholds(75, 85, 90)
    high = replace(
        SETTINGS, disk_max_used_percent=100, disk_clean_forcibly_percent=100, disk_warning_percent=100
    )
    assert thresholds(high) == Thresholds(95, 85, 90)
    low = replace(SETTINGS, disk_max_used_percent=0, disk_clean_forcibly_percent=0, disk_warning_percent=0)
    assert thresholds(low) == Thresholds(10, 30, 35)


def test_nothing_happens_outside_the_hour_while_there_is_space() -> None:
    assert verdict(75, 100, 100, 1) == Verdict(0, False, False, "disk 75% used")


def test_in_the_hour_expired_files_go() -> None:
    assert verdict(10, 100, 72, 71.9, 100, hour=4) == Verdict(
        2, False, False, "hour 4: deleting expired files"
    )


def test_above_the_first_threshold_expired_files_go_at_any_hour() -> None:
    found = verdict(75.1, 100, 80, 1)
    assert (found.delete_count, found.forced, found.disk_full) == (2, False, False)
    assert "76%" in found.reason


def test_at_most_a_batch() -> None:
    assert verdict(80, *[100] * 30).delete_count == 10
    assert verdict(95, *[1] * 300).delete_count == 10


def test_forced_deletion_takes_no_more_than_needed() -> None:
    assert verdict(85.35, *[1] * 9)[:3] == (4, True, False)
    assert verdict(85.35, *[100] * 6, 1)[:3] == (6, True, False)  # expired ones go anyway
    assert verdict(89, *[1] * 9)[:3] == (9, True, False)


def test_forced_deletion_can_be_switched_off() -> None:
    off = replace(SETTINGS, clean_file_forcibly_enable=False)
    assert verdict(95, 100, 1, settings=off)[:3] == (1, False, True)


def test_a_full_partition_of_the_queues_counts_too() -> None:
    assert verdict(10, *[1] * 20, queues_percent=91)[:3] == (10, True, True)
    assert verdict(10, 100, 1, queues_percent=80)[:3] == (1, False, False)


def test_writes_are_refused_above_the_last_threshold_and_again_allowed_below_the_second() -> None:
    assert not verdict(90).disk_full
    found = verdict(90.1)
    assert found.disk_full and "writes are refused" in found.reason
    assert verdict(86, was_disk_full=True).disk_full
    assert not verdict(86).disk_full
    assert not verdict(85, was_disk_full=True).disk_full


def test_without_full_files_nothing_is_deleted() -> None:
    assert verdict(99).delete_count == 0


@pytest.mark.parametrize("text", ["-1", "0", "", "soon", "1.5", "9" * 30, "٣"])
def test_a_topic_without_its_own_time_hides_nothing(text: str) -> None:
    assert expired_before({"reserve.time": text}, NOW_MS) == 0
    assert expired_before({}, NOW_MS) == 0


def test_a_topics_own_time_is_in_hours() -> None:
    assert expired_before({"reserve.time": "2"}, NOW_MS) == NOW_MS - 2 * MS_PER_HOUR
    assert expired_before({"reserve.time": "999999999999"}, NOW_MS) == 0
