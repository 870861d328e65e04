"""The texts of the runtime table: rates, latencies, days, sizes, in Apache's formats."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from roquet.broker.core.runtime_info import Latency, RuntimeInfo, size_text, uptime_text
from roquet.broker.core.stats import Stats

START_MS = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
NIGHT_MS = 1_700_006_400_000  # the midnight after it


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def make() -> tuple[Stats, RuntimeInfo]:
    stats = Stats("DefaultCluster", START_MS)
    return stats, RuntimeInfo(stats, utc, START_MS)


def test_a_rate_stays_empty_until_there_are_enough_seconds() -> None:
    stats, runtime = make()
    assert runtime.rates.texts()["putTps"] == "  "
    runtime.tick(START_MS)
    for second in range(1, 11):
        stats.put("orders", 0, 5, 100)
        runtime.tick(START_MS + second * 1_000)
    assert runtime.rates.texts()["putTps"] == "5.0  "
    assert runtime.rates.texts()["getFoundTps"] == "0.0  "
    for second in range(11, 61):
        runtime.tick(START_MS + second * 1_000)
    assert runtime.rates.texts()["putTps"] == f"0.0 {50 / 60_000 * 1000} "
    assert runtime.rates.texts()["getTotalTps"] == "0.0 0.0 0.0"


def test_reads_count_as_found_missed_and_transferred() -> None:
    stats, runtime = make()
    runtime.tick(START_MS)
    for second in range(1, 11):
        stats.get("orders", 0, "billing", 32, 1_000)
        stats.miss()
        stats.miss()
        runtime.tick(START_MS + second * 1_000)
    texts = runtime.rates.texts()
    assert texts["getFoundTps"] == "1.0  "
    assert texts["getMissTps"] == "2.0  "
    assert texts["getTotalTps"] == "3.0 0.0 0.0"
    assert texts["getTransferredTps"] == "32.0  "


def test_ten_minutes_are_kept_and_no_more() -> None:
    stats, runtime = make()
    for second in range(1_000):
        stats.put("orders", 0, 1, 1)
        runtime.tick(START_MS + second * 1_000)
    assert runtime.rates.texts()["putTps"] == "1.0 1.0 1.0"


def test_totals_before_the_first_message_divide_by_one() -> None:
    stats, runtime = make()
    texts = runtime.texts(START_MS + 54_999)
    assert texts["putMessageTimesTotal"] == "1"
    assert texts["putMessageAverageSize"] == "0.0"
    assert texts["runtime"] == "[ 0 days, 0 hours, 0 minutes, 54 seconds ]"
    assert texts["bootTimestamp"] == str(START_MS)
    stats.put("orders", 0, 2, 500)
    stats.fail()
    texts = runtime.texts(START_MS + 60_000)
    assert texts["putMessageTimesTotal"] == "2"
    assert texts["putMessageSizeTotal"] == "500"
    assert texts["putMessageAverageSize"] == "250.0"
    assert texts["putMessageFailedTimes"] == "1"


def test_morning_totals_roll_at_local_midnight() -> None:
    stats, runtime = make()
    stats.put("orders", 0, 8, 1)
    runtime.tick(NIGHT_MS - 1_000)
    assert runtime.days.texts()["msgPutTotalTodayMorning"] == "0"
    assert runtime.days.texts()["msgPutTotalTodayNow"] == "8"
    runtime.tick(NIGHT_MS)
    stats.put("orders", 0, 1, 1)
    runtime.tick(NIGHT_MS + 1_000)
    assert runtime.days.texts()["msgPutTotalTodayMorning"] == "8"
    assert runtime.days.texts()["msgPutTotalTodayNow"] == "9"
    runtime.tick(NIGHT_MS + 86_400_000)
    assert runtime.days.texts()["msgPutTotalYesterdayMorning"] == "8"
    assert runtime.days.texts()["msgPutTotalTodayMorning"] == "9"


def test_latencies_show_once_their_minute_is_over() -> None:
    latency = Latency()
    latency.tick(START_MS)
    assert latency.texts()["putMessageDistributeTime"] == "null"
    assert latency.texts()["putLatency99"] == "0.00"
    for elapsed_ms in [0] * 50 + [5] * 49 + [12_000]:
        latency.took(elapsed_ms)
    latency.tick(START_MS + 60_001)
    texts = latency.texts()
    assert texts["putMessageDistributeTime"].startswith("[<=0ms]:50 [0~10ms]:49 [10~50ms]:0 ")
    assert texts["putMessageDistributeTime"].endswith("[5~10s]:0 [10s~]:1 ")
    assert texts["putMessageEntireTimeMax"] == "12000"
    assert texts["putLatency99"] == "5.00"
    assert texts["putLatency999"] == "5.00"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1_890, "1.8 KiB"), (252 * 1024**3, "252.0 GiB")],
)
def test_sizes_read_like_apaches(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_uptime_counts_days() -> None:
    assert uptime_text(93_784_000) == "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"
