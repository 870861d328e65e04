"""Every scenario file, with several seeds; see `script` for the commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.script import format_blocks, parse, play

FILES = sorted(Path(__file__).parent.glob("*.txt"))
SEEDS = range(6)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_prints_what_its_file_says(path: Path) -> None:
    if os.environ.get("ROQUET_REWRITE"):
        path.write_text(format_blocks(play(path, 0)))
    for seed in SEEDS:
        assert play(path, seed) == parse(path.read_text()), f"seed {seed}"


def test_a_file_is_written_back_as_it_was_read() -> None:
    for path in FILES:
        assert format_blocks(parse(path.read_text())) == path.read_text()


def test_a_scenario_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text("broker\n----\n\nsend t 0 hello\n----\n0 at 7\n")
    assert play(path, 0) != parse(path.read_text())
