"""`python -m bench`: measure both brokers in turn and print the table.

    python -m bench                                  three full rounds
    python -m bench --quick                          one short round, some parts left out
    python -m bench --parts send,recovery --rounds 5 only these
    python -m bench --name 2-cores --write README    keep the result, and put the table into README.md
    python -m bench --from 2-cores --write README    draw a kept result again, measuring nothing

Ends with 1 when a request failed, whoever's broker it was: such rates cannot be compared.
"""

import argparse
import sys
import time
from functools import cache
from pathlib import Path

from bench import oldstore, results, rounds, servers, table
from bench.figures import failures
from bench.results import FOLDER, Result
from bench.rounds import Part, Plan
from bench.servers import Target
from tests.peers.child import ChildError
from tests.peers.jars import ROOT, MissingTool

IN_TURN = (Target.APACHE, Target.ROQUET, Target.PURE)


def main() -> int:
    """Measure as the flags say, or draw a kept result again; return the exit status."""
    flags = _flags().parse_args()
    if flags.stored:
        result = results.load(FOLDER / f"{flags.stored}.json")
    else:
        plan = rounds.QUICK if flags.quick else rounds.FULL
        plan = plan if flags.parts is None else plan._replace(parts=flags.parts)
        mode = "quick" if flags.quick else "full"
        count = flags.rounds or (1 if flags.quick else 3)
        try:
            result = _measure(plan, mode, count, flags.name)
        except (ChildError, MissingTool) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    print(table.render(result))
    failed = failures(result.values)
    if failed:
        print(
            f"bench: {failed:.0f} requests failed: the load of those rounds does not count, and no page is "
            "written. Measure again when the machine has nothing else to do",
            file=sys.stderr,
        )
        return 1
    if flags.write:
        page = ROOT / flags.write
        table.write_into(page if page.suffix else page.with_suffix(".md"), result)
    return 0


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Roquet beside Apache RocketMQ.")
    parser.add_argument("--rounds", type=_count, help="how often each broker is measured (3; quick: 1)")
    parser.add_argument(
        "--quick", action="store_true", help="short windows, no second start, consumer, kinds"
    )
    parser.add_argument("--parts", type=_parts, help=f"only these, of {','.join(Part)}")
    parser.add_argument("--name", default="latest", help="name of the result below bench/results")
    parser.add_argument("--from", dest="stored", metavar="NAME", help="draw a kept result, measure nothing")
    parser.add_argument("--write", metavar="PAGE", help="put the table into this page, such as README")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("give a whole number of at least 1")
    return int(text)


def _parts(text: str) -> frozenset[Part]:
    try:
        return frozenset(Part(word) for word in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; give some of {','.join(Part)}") from None


def _measure(plan: Plan, mode: str, count: int, name: str) -> Result:
    began_at = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began_at:5.0f} s] {text}", file=sys.stderr, flush=True)

    old = cache(oldstore.prepared)
    if plan.parts & rounds.ON_OLD_STORE:
        say("preparing a full log file")
        old()
    servers.warm_page_cache()
    result = results.begun(mode)
    kept = Path()
    for number in range(count):
        # Whoever goes first meets a cooler and quieter machine: take turns at that, too.
        for target in IN_TURN if number % 2 == 0 else reversed(IN_TURN):
            say(f"round {number + 1} of {count}: {target.value}")
            result.add(target, rounds.measure(target, plan, old, say))
        kept = result.save(name)
    say(f"kept as {kept.relative_to(ROOT)}")
    return result


if __name__ == "__main__":
    sys.exit(main())
