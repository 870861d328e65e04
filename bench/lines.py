"""Numbers by name, round by round, and lines of a table that sets one beside another; pure.

    {"roquet.async.send.per_s": 27_000.0, …} of each round ─▶ | what | measured | beside | ratio | goal | |

A ratio is taken within each round, like those of `figures`. A goal is a number to be reached by what was
measured, or by its ratio. Used by the parts that compare other things than two brokers.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from bench.figures import Bound, Spread, spread
from bench.table import cell, times

Rounds = Sequence[Mapping[str, float]]


class Want(NamedTuple):
    """A goal."""

    bound: Bound
    number: float
    of: Literal["value", "ratio"] = "value"

    def is_reached(self, found: float) -> bool:
        return found >= self.number if self.bound is Bound.AT_LEAST else found <= self.number


class Line(NamedTuple):
    """One line: the name of the number, and of the one beside it (empty: none)."""

    label: str
    key: str
    beside: str = ""
    beside_label: str = ""
    want: Want | None = None


HEADER = ("| | measured | beside | ratio | goal | |", "|---|--:|--:|--:|--:|---|")


def lines_of(lines: Sequence[Line], rounds: Rounds) -> list[str]:
    """Return the table's lines for everything that was measured; none when nothing was."""
    rows = [_row(line, rounds) for line in lines if numbers_of(rounds, line.key)]
    return [*HEADER, *rows] if rows else []


def numbers_of(rounds: Rounds, key: str) -> dict[int, float]:
    """Return the numbers of one name, by round."""
    return {number: found[key] for number, found in enumerate(rounds) if key in found}


def ratio_of(rounds: Rounds, key: str, beside: str) -> Spread | None:
    """Return the ratio of two numbers, or None when no round has both."""
    others = numbers_of(rounds, beside)
    found = [mine / others[number] for number, mine in numbers_of(rounds, key).items() if others.get(number)]
    return spread(found) if found else None


def verdict(line: Line, rounds: Rounds) -> str:
    """Return "reached", "missed", or an empty text where there is no goal or nothing to hold it against."""
    if line.want is None:
        return ""
    if line.want.of == "ratio":
        found = ratio_of(rounds, line.key, line.beside)
    else:
        found = spread([*numbers_of(rounds, line.key).values()])
    if found is None:
        return ""
    return "reached" if line.want.is_reached(found.middle) else "missed"


def wanted(want: Want | None) -> str:
    if want is None:
        return ""
    sign = "×" if want.of == "ratio" else ""
    return f"{want.bound.value} {want.number:,.12g}{sign}"


def _row(line: Line, rounds: Rounds) -> str:
    mine = cell(spread([*numbers_of(rounds, line.key).values()]))
    others = numbers_of(rounds, line.beside)
    beside = f"{line.beside_label} {cell(spread([*others.values()]))}" if others else ""
    ratio = ratio_of(rounds, line.key, line.beside)
    ratio_text = "" if ratio is None else times(ratio)
    cells = [line.label, mine, beside, ratio_text, wanted(line.want), verdict(line, rounds)]
    return f"| {' | '.join(cells)} |"
