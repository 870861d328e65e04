"""`python -m bench`: measure in turn and print the tables.

    python -m bench                                  three full rounds of everything
    python -m bench --quick                          one short round, some parts left out
    python -m bench --only sdk,spark                 of `brokers`, `sdk` and `spark` only these
    python -m bench --parts send,recovery --rounds 5 of the brokers only these parts
    python -m bench --name 2-cores --write README    keep the results, and put the tables into README.md
    python -m bench --from 2-cores --write README    draw kept results again, measuring nothing

Ends with 1 when a request failed, whoever's broker it was: such rates cannot be compared.
"""

import argparse
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bench import oldstore, results, rounds, servers, table
from bench.figures import failures
from bench.results import FOLDER, Result, Tally
from bench.rounds import Part, Plan
from bench.sdk import page as sdk_page
from bench.sdk import rounds as sdk_rounds
from bench.servers import Target
from bench.spark import page as spark_page
from bench.table import Place
from tests.peers.child import ChildError
from tests.peers.jars import ROOT, MissingTool

IN_TURN = (Target.APACHE, Target.ROQUET, Target.PURE)


class Suite(StrEnum):
    """What can be measured by itself, each with a table and a result of its own."""

    BROKERS = "brokers"
    SDK = "sdk"
    SPARK = "spark"


class Drawn(NamedTuple):
    """A table, where it belongs, and how many requests failed while it was measured."""

    text: str
    place: Place
    failed: float


def main() -> int:
    """Measure as the flags say, or draw kept results again; return the exit status."""
    flags = _flags().parse_args()
    began_at = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began_at:5.0f} s] {text}", file=sys.stderr, flush=True)

    status = 0
    for suite in _chosen(flags):
        try:
            drawn = DRAW[suite](flags, say)
        except (ChildError, MissingTool, FileNotFoundError, ModuleNotFoundError) as error:
            print(f"bench: {suite}: {error}", file=sys.stderr)
            status = 1
            continue
        print(drawn.text, end="\n\n")
        if drawn.failed:
            print(
                f"bench: {drawn.failed:.0f} requests failed: the load of those rounds does not count, and no "
                "page is written. Measure again when the machine has nothing else to do",
                file=sys.stderr,
            )
            status = 1
        elif flags.write:
            page = ROOT / flags.write
            table.write_into(page if page.suffix else page.with_suffix(".md"), drawn.text, drawn.place)
    return status


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Roquet beside Apache RocketMQ.")
    parser.add_argument("--rounds", type=_count, help="how often everything is measured (3; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="short windows, less work, some parts left out")
    parser.add_argument("--only", type=_suites, help=f"only these, of {','.join(Suite)}")
    parser.add_argument("--parts", type=_parts, help=f"of the brokers only these, of {','.join(Part)}")
    parser.add_argument("--name", default="latest", help="name of the results below bench/results")
    parser.add_argument("--from", dest="stored", metavar="NAME", help="draw kept results, measure nothing")
    parser.add_argument("--write", metavar="PAGE", help="put the tables into this page, such as README")
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


def _suites(text: str) -> list[Suite]:
    try:
        return [Suite(word) for word in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; give some of {','.join(Suite)}") from None


Say = Callable[[str], None]


def _chosen(flags: argparse.Namespace) -> list[Suite]:
    """Return what to measure, or to draw: of kept results those that are there, unless they are named."""
    if flags.only:
        return list(flags.only)
    if flags.stored:
        return [suite for suite in Suite if _file(flags.stored, suite).exists()] or [Suite.BROKERS]
    return [Suite.BROKERS] if flags.parts else list(Suite)


def _file(name: str, suite: Suite) -> Path:
    return FOLDER / (f"{name}.json" if suite is Suite.BROKERS else f"{name}-{suite}.json")


def _mode(flags: argparse.Namespace) -> str:
    return "quick" if flags.quick else "full"


def _rounds(flags: argparse.Namespace) -> int:
    return int(flags.rounds or (1 if flags.quick else 3))


def _brokers(flags: argparse.Namespace, say: Say) -> Drawn:
    if flags.stored:
        result = results.load(_file(flags.stored, Suite.BROKERS))
    else:
        plan = rounds.QUICK if flags.quick else rounds.FULL
        plan = plan if flags.parts is None else plan._replace(parts=flags.parts)
        result = _measure(plan, _mode(flags), _rounds(flags), flags.name, say)
    return Drawn(table.render(result), table.BROKERS, failures(result.values))


def _measure(plan: Plan, mode: str, count: int, name: str, say: Say) -> Result:
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


def _sdk(flags: argparse.Namespace, say: Say) -> Drawn:
    if flags.stored:
        tally = results.load_tally(flags.stored, Suite.SDK)
    else:
        tally = Tally(Suite.SDK, results.about(_mode(flags)))
        servers.warm_page_cache()
        for number in range(_rounds(flags)):
            say(f"round {number + 1} of {_rounds(flags)}: clients")
            found = sdk_rounds.Round(sdk_rounds.QUICK if flags.quick else sdk_rounds.FULL, say)
            found.measure(is_reversed=number % 2 == 1)
            _keep(tally, found.numbers, found.notes, flags.name, say)
    return Drawn(
        sdk_page.render(tally), sdk_page.PLACE, sum(found.get("failures", 0.0) for found in tally.rounds)
    )


def _spark(flags: argparse.Namespace, say: Say) -> Drawn:
    if flags.stored:
        tally = results.load_tally(flags.stored, Suite.SPARK)
    else:
        from bench.spark import rounds as spark_rounds  # the other suites run without Spark

        tally = Tally(Suite.SPARK, results.about(_mode(flags)))
        for number in range(_rounds(flags)):
            say(f"round {number + 1} of {_rounds(flags)}: Spark")
            found = spark_rounds.Round(spark_rounds.QUICK if flags.quick else spark_rounds.FULL, say)
            found.measure()
            _keep(tally, found.numbers, found.notes, flags.name, say)
    return Drawn(spark_page.render(tally), spark_page.PLACE, 0.0)


def _keep(tally: Tally, numbers: dict[str, float], notes: dict[str, str], name: str, say: Say) -> None:
    tally.rounds.append(numbers)
    tally.notes |= notes
    say(f"kept as {tally.save(name).relative_to(ROOT)}")


DRAW: dict[Suite, Callable[[argparse.Namespace, Say], Drawn]] = {
    Suite.BROKERS: _brokers,
    Suite.SDK: _sdk,
    Suite.SPARK: _spark,
}

if __name__ == "__main__":
    sys.exit(main())
