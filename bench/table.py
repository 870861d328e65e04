"""The comparison as a Markdown table, and its place in a page; pure but for `write_into`.

A cell shows the median and, behind ±, half the distance between the lowest and the highest round in percent
of it. The table stands between two comments, which stay, so that it can be replaced by the next run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import GOALS, LABELS, Measure, Row, Spread, compare, verdict
from bench.results import Result
from bench.servers import Target

BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"


class Place(NamedTuple):
    """The two comments between which a table stands."""

    begin: str
    end: str


BROKERS = Place(BEGIN, END)


class NoPlace(ValueError):
    """The page has no place for the table."""


def render(result: Result) -> str:
    """Return the table and a sentence about where it comes from."""
    lines = [
        f"| | Apache {result.about['apache']} | Roquet | Roquet : Apache | goal | |",
        "|---|--:|--:|--:|--:|---|",
    ]
    lines += [_line(row) for row in compare(result.values)]
    rounds = max(map(len, result.values.values()), default=0)
    jvm = f"Apache's broker with `{result.about['broker_jvm']}`"
    return "\n".join(lines) + f"\n\n{origin(result.about, rounds)}; {jvm}."


def paste(page: str, text: str, place: Place = BROKERS) -> str:
    """Return the page with the text between the two comments; raises NoPlace when they are not there."""
    before, begin, rest = page.partition(place.begin)
    _, end, after = rest.partition(place.end)
    if not begin or not end:
        raise NoPlace(f"put a line {place.begin} and a line {place.end} where the table is to stand")
    return f"{before}{begin}\n{text}\n{end}{after}"


def write_into(page: Path, text: str, place: Place = BROKERS) -> None:
    """Put a table into a page."""
    page.write_text(paste(page.read_text(), text, place))


def number(value: float) -> str:
    """Return a number with three digits that count, or all of those before the point."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}"


def cell(found: Spread) -> str:
    """Return a median and how far the rounds are apart."""
    around = f" ±{found.percent / 2:.0f} %" if found.low != found.high else ""
    return f"{number(found.middle)}{around}"


def times(ratio: Spread) -> str:
    """Return a ratio with the lowest and the highest of the rounds."""
    between = f" ({number(ratio.low)} – {number(ratio.high)})" if ratio.low != ratio.high else ""
    return f"{number(ratio.middle)}×{between}"


def _line(row: Row) -> str:
    label = LABELS[row.measure] + (", without kernels" if row.target is Target.PURE else "")
    goal = GOALS.get((row.measure, row.target))
    wanted = "" if goal is None else f"{goal.bound.value} {goal.ratio:g}×"
    if row.measure is Measure.FAILURES:
        wanted = "0"
    cells = [label, cell(row.apache), cell(row.ours), _ratio(row), wanted, verdict(row)]
    return f"| {' | '.join(cells)} |"


def _ratio(row: Row) -> str:
    if not row.is_comparable or row.measure is Measure.FAILURES:
        return ""
    return times(row.ratio)


def origin(about: Mapping[str, Any], rounds: int) -> str:
    """Return where numbers come from: commit, day, machine."""
    machine = about["machine"]
    return (
        f"Measured {str(about['date'])[:10]} at commit {about['commit']}, {about['mode']} run of {rounds} "
        f"{'round' if rounds == 1 else 'rounds'}: {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, Python {machine['python']}, "
        f"{machine['java']}"
    )
