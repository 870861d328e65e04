"""The clients as two tables: what each does in a second and for how much CPU, and the goals; pure."""

from collections.abc import Mapping

from bench.figures import Bound, spread
from bench.lines import Line, Rounds, Want, lines_of, numbers_of
from bench.results import Tally
from bench.sdk.proxy import PACKAGE
from bench.sdk.rounds import CLIENTS, WORKS
from bench.table import Place, cell, origin

PLACE = Place("<!-- bench:sdk:begin -->", "<!-- bench:sdk:end -->")

HEADS = {
    "async": "`roquet`",
    "sync": "`roquet.sync`",
    "java": "Apache's Java client",
    "pypi": f"`{PACKAGE.partition('==')[0]}`",
}
WORDS = {
    "send": "sends, each confirmed, 64 at once",
    "send_batch": "sends in batches of 256, 8 at once",
    "receive": "receives, one by one",
    "receive_batch": "receives, in lists",
}
BROKER_WORDS = {"roquet": "Roquet's broker", "apache": "Apache's broker"}
UNIT_WORDS = {"per_s": "messages per second", "cpu": "client CPU per million, s"}

FASTER = 5
"""How many times as much as the package we want to get out of a core."""

GOALS = (
    Line("async sends per second", "roquet.async.send.per_s", want=Want(Bound.AT_LEAST, 25_000)),
    Line(
        "async sends per second, batches", "roquet.async.send_batch.per_s", want=Want(Bound.AT_LEAST, 150_000)
    ),
    Line(
        "async receives per second, lists",
        "roquet.async.receive_batch.per_s",
        want=Want(Bound.AT_LEAST, 150_000),
    ),
    *(
        Line(
            f"{client} client: CPU per million {work}s, Apache's broker, s",
            f"apache.{client}.{work}.cpu",
            f"apache.pypi.{work}.cpu",
            "PyPI client",
            Want(Bound.AT_MOST, 1 / FASTER, "ratio"),
        )
        for work in ("send", "receive")
        for client in ("async", "sync")
    ),
)


def render(tally: Tally) -> str:
    """Return the tables and a sentence about where they come from."""
    blocks = ["\n".join(_matrix(tally.rounds)), "\n".join(lines_of(GOALS, tally.rounds)), _notes(tally.notes)]
    blocks.append(f"{origin(tally.about, len(tally.rounds))}.")
    return "\n\n".join(block for block in blocks if block)


def _matrix(rounds: Rounds) -> list[str]:
    lines = [
        f"| 128 B | {' | '.join(HEADS[client] for client in CLIENTS)} |",
        f"|---|{'--:|' * len(CLIENTS)}",
    ]
    for work in WORKS:
        for broker, at in BROKER_WORDS.items():
            for unit, words in UNIT_WORDS.items():
                keys = [f"{broker}.{client}.{work}.{unit}" for client in CLIENTS]
                cells = [_cell(rounds, key) for key in keys]
                if any(cells):
                    lines.append(f"| {WORDS[work]}: {words}, {at} | {' | '.join(cells)} |")
    return lines


def _cell(rounds: Rounds, key: str) -> str:
    found = numbers_of(rounds, key)
    return cell(spread([*found.values()])) if found else ""


def _notes(notes: Mapping[str, str]) -> str:
    return "\n".join(f"- Not measured: {what}: {why}" for what, why in sorted(notes.items()))
