"""Whole clusters under faults: a few fixed seeds, every seed that once found something, and replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from roquet.sim.__main__ import main
from roquet.sim.trial import run_seed

SEEDS_DIR = Path(__file__).parents[1] / "seeds"
FIXED = range(100, 108)


def recorded() -> list[int]:
    """Return the seeds in tests/seeds/*.txt: the first word of each line that is not a comment."""
    lines = [line for path in sorted(SEEDS_DIR.glob("*.txt")) for line in path.read_text().splitlines()]
    return [int(line.split()[0]) for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("seed", [*FIXED, *recorded()])
def test_a_cluster_keeps_its_promises(seed: int) -> None:
    outcome = run_seed(seed)
    assert not outcome.reason, f"seed {seed}: {outcome.reason}\n" + "\n".join(outcome.tail[-20:])
    assert outcome.messages


def test_one_seed_is_one_run() -> None:
    first, second, other = run_seed(7), run_seed(7), run_seed(8)
    assert first == second
    assert first.trace_hash != other.trace_hash


def test_the_command_replays_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["7"]) == 0
    assert run_seed(7).trace_hash in capsys.readouterr().out
