"""The running state: every line that tools read, single counters, replicas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roquet.wire.frame import split
from roquet.wire.requests.settings import GetReplicationStatus, GetRuntimeInfo, ViewStats
from tests.broker.handlers.desk import Desk

GOLDEN = Path(__file__).parents[2] / "golden" / "frames" / "28-get_broker_runtime_info.res.bin"


def test_the_runtime_table_has_every_line_that_apache_has() -> None:
    (captured,), _ = split(GOLDEN.read_bytes())
    theirs = {
        key
        for key in json.loads(captured.body)["table"]
        if not key.startswith(("scheduleMessageOffset_", "commitLogDiskRatio_"))
    }
    with Desk() as desk:

        async def scenario() -> None:
            ours = json.loads((await desk.ask(GetRuntimeInfo())).body)["table"]
            assert theirs - set(ours) == set()
            assert set(ours) - theirs == {"commitLogDiskRatio_/store/commitlog"}
            assert all(isinstance(text, str) for text in ours.values())

        desk.run(scenario())


def test_the_runtime_table_tells_what_happened() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            empty = json.loads((await desk.ask(GetRuntimeInfo())).body)["table"]
            assert empty["earliestMessageTimeStamp"] == "-1"
            assert empty["putTps"] == "  "
            appended = await desk.append("orders", 0, b"x")
            desk.stats.put("orders", 0, 1, appended.size_bytes)
            table = json.loads((await desk.ask(GetRuntimeInfo())).body)["table"]
            assert table["commitLogMaxOffset"] == str(appended.size_bytes)
            assert table["earliestMessageTimeStamp"] == str(appended.store_ms)
            assert table["msgPutTotalTodayNow"] == "1"
            assert table["putMessageAverageSize"] == f"{appended.size_bytes}.0"
            assert table["remainHowManyDataToFlush"] == f"{appended.size_bytes} B"
            assert table["commitLogDirCapacity"].startswith("Total : ")
            assert 0.0 <= float(table["commitLogDiskRatio"]) <= 1.0

        desk.run(scenario())


def test_one_counter_is_shown_over_three_windows() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            now_ms = desk.clock.now_ms()
            desk.stats.sample(now_ms)
            for _ in range(8):
                desk.stats.put("GoldenTopic", 0, 1, 100)
            desk.stats.put("GoldenTopic", 0, 2, 100)
            desk.stats.sample(now_ms + 10_000)
            desk.stats.sample(now_ms + 20_000)
            shown = await desk.ask(ViewStats("TOPIC_PUT_NUMS", "GoldenTopic"))
            assert json.loads(shown.body)["statsMinute"] == {
                "avgpt": pytest.approx(10 / 9),
                "sum": 10,
                "tps": 0.5,
            }
            assert shown.body.startswith(
                b'{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour":{"avgpt":0.0,"sum":0,"tps":0.0},'
            )
            for name, key in (("TOPIC_PUT_NUMS", "ghost"), ("NO_SUCH_STATS", "GoldenTopic")):
                unknown = await desk.ask(ViewStats(name, key))
                assert (unknown.code, unknown.remark) == (1, f"The stats <{name}> <{key}> not exist")

        desk.run(scenario())


def test_a_master_without_followers_says_so_like_apache() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            size_bytes = (await desk.append("orders", 0, b"x")).size_bytes
            answer = await desk.ask(GetReplicationStatus())
            assert answer.body == (
                b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,'
                b'"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[],"inSyncSlaveNums":0,'
                b'"master":true,"masterCommitLogMaxOffset":%d}' % size_bytes
            )

        desk.run(scenario())
