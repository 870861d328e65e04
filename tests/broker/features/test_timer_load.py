"""Pending timers cost disk, not memory; see `timer_load`, which takes a million as well (about a minute)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

COUNT = 100_000
GROWN_BYTES_MAX = 16 * 1024 * 1024
"""A million may take 100 MiB. Whatever is kept for each message shows here: 160 bytes are too much."""


def test_a_hundred_thousand_timers_are_on_time_and_take_no_memory(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.broker.features.timer_load", str(COUNT), str(tmp_path / "store")]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["delivered"] == COUNT
    assert 0 <= seen["earliest_ms"] <= seen["latest_ms"] < 1_000
    assert seen["grown_bytes"] < GROWN_BYTES_MAX
