"""A driver is killed (-9) before its commit, its successor in the middle of it, and each row comes once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.peers import roquet as peer
from tests.peers.child import Child
from tests.spark.sinks import counted, once

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).with_name("killed_driver.py")
ROWS = 20_000
REACHED_S = 180.0


def start(namesrv: str, folder: Path, where: str) -> Child:
    argv = [sys.executable, str(PROGRAM), namesrv, str(folder), "killed", where]
    return Child(f"driver ({where})", argv, folder / f"{where}.out", {"SPARK_LOCAL_IP": "127.0.0.1"})


def kill_at(namesrv: str, folder: Path, where: str) -> None:
    driver = start(namesrv, folder, where)
    try:
        driver.wait_until((folder / where).exists, f"coming to {where}", REACHED_S)
    finally:
        end_session(driver)


def end_session(driver: Child) -> None:
    """Kill the driver, its JVM and Spark's Python workers, which have process groups of their own."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
            if int(words[3]) == driver.pid:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended by itself
    driver.kill()


def test_whoever_is_killed_every_row_is_there_once(tmp_path: Path) -> None:
    node = peer.start_up(tmp_path / "store")
    (tmp_path / "in").mkdir()
    for number in range(4):
        lines = map(str, range(number * ROWS // 4, (number + 1) * ROWS // 4))
        (tmp_path / "in" / f"{number}.txt").write_text("\n".join(lines))
    try:
        kill_at(node.namesrv, tmp_path, "before")
        assert counted(node.namesrv, "killed") == {}
        kill_at(node.namesrv, tmp_path, "between")
        some = counted(node.namesrv, "killed")
        assert 0 < len(some) < ROWS
        assert set(some.values()) == {1}
        last = start(node.namesrv, tmp_path, "never")
        try:
            last.wait_until((tmp_path / "done").exists, "the end of the stream", REACHED_S)
        finally:
            end_session(last)
        assert counted(node.namesrv, "killed") == once(0, ROWS)
    finally:
        node.kill()
