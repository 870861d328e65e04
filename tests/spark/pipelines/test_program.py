"""A pipeline as a program of its own: one JSON object on stdout and nothing else, notes on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store_reader.test_store_reader import Written

pytestmark = pytest.mark.process

PATIENCE_SECONDS = 300


def test_the_command_prints_its_summary_and_writes_its_report(tmp_path: Path) -> None:
    written = Written(tmp_path / "store")
    for number in range(20):
        written.add(queue_id=number % 2, hours=number)
    written.save()
    words = ["pipeline", "audit", "--store", str(written.root), "--window", "1h", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "roquet.cli.main", *words, "--report", str(tmp_path / "report")],
        env={**os.environ, "SPARK_MASTER": "local[1]"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    (line,) = ran.stdout.splitlines()
    found = json.loads(line)
    assert (found["pipeline"], found["rows"], found["skipped"]) == ("audit", 20, {})
    assert found["seconds"] > 0
    (topic,) = found["topics"]
    assert (topic["topic"], topic["messages"], topic["keys_that_repeat"]) == ("orders", 20, 2)
    assert topic["last"] == "1970-01-01T19:00:00+00:00"
    assert all(Path(path).exists() for path in found["files"])
    assert "Traceback" not in ran.stderr
