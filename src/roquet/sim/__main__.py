"""`python -m roquet.sim [--kinds] [SEED] [--seconds 30]`: run new seeds for a while, or replay one.

Prints a line for each run: seed, trace hash, virtual seconds, messages. A run that finds something wrong
prints the seed, the reason and the last events, and ends with exit code 1. `--kinds` runs the trial of
delayed, timed, transactional and retried messages instead of that of clusters. See docs/SIMULATION.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from roquet.sim.kinds import run_kinds_seed
from roquet.sim.trial import TAIL_LINES, Outcome, run_seed

SECONDS = 30.0


def main(arguments: list[str]) -> int:
    """Run seeds as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m roquet.sim", description="Simulate whole clusters.")
    parser.add_argument("seed", nargs="?", type=int, help="replay this one")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="wall time for new seeds")
    parser.add_argument("--kinds", action="store_true", help="run the trial of the kinds of messages")
    wanted = parser.parse_args(arguments)
    run = run_kinds_seed if wanted.kinds else run_seed
    flag = "--kinds " if wanted.kinds else ""
    if wanted.seed is not None:
        return _show(run(wanted.seed), flag)
    fresh = random.SystemRandom()
    until = time.monotonic() + wanted.seconds
    while time.monotonic() < until:
        code = _show(run(fresh.randrange(1 << 32)), flag)
        if code:
            return code
    return 0


def _show(outcome: Outcome, flag: str) -> int:
    result = "WRONG" if outcome.reason else "ok"
    print(
        f"seed {outcome.seed:>10}  trace {outcome.trace_hash}  {outcome.virtual_s:6.1f} s  "
        f"{outcome.messages:5} messages  {result}",
        flush=True,
    )
    if not outcome.reason:
        return 0
    print("\n".join(outcome.tail[-TAIL_LINES:]))
    print(f"\nseed {outcome.seed}: {outcome.reason}\nreplay it with: make sim SEED='{flag}{outcome.seed}'")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
