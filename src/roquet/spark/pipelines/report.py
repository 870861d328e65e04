"""A report: plots as PNG files, tables and words, together in one HTML page that needs nothing else.

    report = Page("Dead letters", "127.0.0.1:9876")
    report.plot("By age", bars(...));  report.table("Groups", rows);  report.save("report/")   ▶ index.html

The page holds its plots inside itself, so it can be sent by mail; the PNG files lie beside it. What comes
from messages is escaped. matplotlib draws without a display and is imported when the first plot is made.
"""

from __future__ import annotations

import base64
import html
import io
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from roquet.spark.pipelines.summary import Refused, Row, shown, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#2f6690", "#d1603d", "#3a7d44", "#8e5572", "#c8963e", "#4a4e69", "#16a3a3", "#9b2226")
INK: Final = "#333333"
BARS_MAX: Final = 20
LINES_MAX: Final = 8
"""More would not be told apart by their colours."""
LABEL_CHARS_MAX: Final = 32
ALONE: Final = timedelta(minutes=10)

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
.where{color:#666;margin-top:0}table{border-collapse:collapse;font-size:.9rem}
th,td{padding:.25rem .7rem;text-align:left;border-bottom:1px solid #ddd}th{border-bottom:2px solid #888}
td.n{text-align:right;font-variant-numeric:tabular-nums}img{max-width:100%}.wide{overflow-x:auto}
"""


class Page:
    """Collects the parts of a report and writes them."""

    def __init__(self, name: str, where: str) -> None:
        self._name = name
        self._where = where
        self._parts: list[str] = []
        self._plots: dict[str, bytes] = {}

    def say(self, sentence: str) -> None:
        """Add a sentence."""
        self._parts.append(f"<p>{html.escape(sentence)}</p>")

    def table(self, name: str, rows: Sequence[Row], most: int = 100) -> None:
        """Add a table; its columns are those of the first row."""
        if not rows:
            self._parts.append(f"<h2>{html.escape(name)}</h2><p>none</p>")
            return
        names = list(rows[0])
        head = "".join(f"<th>{html.escape(title(each))}</th>" for each in names)
        body = "".join(f"<tr>{''.join(_cell(row.get(each)) for each in names)}</tr>" for row in rows[:most])
        rest = f"<p>… and {len(rows) - most:,} more</p>" if len(rows) > most else ""
        self._parts.append(
            f'<h2>{html.escape(name)}</h2><div class="wide"><table><tr>{head}</tr>{body}</table></div>{rest}'
        )

    def plot(self, name: str, figure: Figure) -> None:
        """Add a plot."""
        target = io.BytesIO()
        figure.savefig(target, format="png", dpi=110)
        data = target.getvalue()
        self._plots[f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.png"] = data
        source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        self._parts.append(f'<h2>{html.escape(name)}</h2><img alt="{html.escape(name)}" src="{source}">')

    def save(self, folder: str) -> list[str]:
        """Write page and plots into a folder; return their paths, the page first. Raises Refused."""
        when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        page = (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(self._name)}</title>'
            f"<style>{_STYLE}</style><h1>{html.escape(self._name)}</h1>"
            f'<p class="where">{html.escape(self._where)} · {when}</p>{"".join(self._parts)}</html>\n'
        )
        try:
            os.makedirs(folder, exist_ok=True)
            paths = [os.path.join(folder, "index.html")]
            with open(paths[0], "w", encoding="utf-8") as stream:
                stream.write(page)
            for name, data in self._plots.items():
                paths.append(os.path.join(folder, name))
                with open(paths[-1], "wb") as binary:
                    binary.write(data)
        except OSError as error:
            raise Refused(f"the report cannot be written to {folder}: {error.strerror}") from None
        return paths


def bars(values: Mapping[str, float], label: str, *, log: bool = False) -> Figure:
    """Draw the largest values as bars below each other, the largest on top."""
    largest = sorted(values.items(), key=lambda item: -item[1])[:BARS_MAX]
    figure, axes = _figure(1.2 + 0.32 * max(len(largest), 1))
    names = [_short(name) for name, _ in largest]
    drawn = axes.barh(range(len(largest)), [value for _, value in largest], color=COLOURS[0], height=0.7)
    axes.set_yticks(range(len(largest)), names)
    axes.invert_yaxis()
    if log and largest and min(value for _, value in largest) > 0:
        axes.set_xscale("log")
    labels = [shown(int(value) if value == int(value) else value) for _, value in largest]
    axes.bar_label(drawn, labels, padding=4, fontsize=8, color=INK)
    axes.margins(x=0.14)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.25)
    return figure


def lines(series: Mapping[str, Sequence[tuple[Any, float]]], label: str, *, x_label: str = "") -> Figure:
    """Draw values over time (or any other measure), one line for each name; the largest few."""
    largest = sorted(series, key=lambda name: -sum(value for _, value in series[name]))[:LINES_MAX]
    figure, axes = _figure(4.0)
    for number, (name, colour) in enumerate(zip(largest, COLOURS, strict=False)):
        points = sorted(series[name])
        marker = "o" if len(points) < 40 else ""
        # The first is the widest: one that lies upon another leaves its edges to be seen.
        width = 1.4 + 2.2 * (1 - number / max(len(largest) - 1, 1)) if len(largest) > 1 else 1.6
        axes.plot(
            [x for x, _ in points], [y for _, y in points], marker=marker, markersize=2 * width, color=colour,
            label=_short(name), linewidth=width,
        )  # fmt: skip
    axes.set_ylabel(label)
    axes.set_xlabel(x_label)
    axes.set_ylim(0, 1.08 * max((y for points in series.values() for _, y in points), default=0.0) or 1.0)
    axes.grid(alpha=0.25)
    times = {x for points in series.values() for x, _ in points if isinstance(x, datetime)}
    if times:
        _time_axis(axes)
    if len(times) == 1:  # alone, a point would be shown in the middle of years
        (time,) = times
        axes.set_xlim(time - ALONE, time + ALONE)  # type: ignore[arg-type]
    if largest:
        axes.legend(frameon=False, fontsize=8)
    return figure


def with_zeros(points: Sequence[tuple[datetime, float]], step: timedelta) -> list[tuple[datetime, float]]:
    """Return points with zeros where a step has none, so that a line does not bridge what was not there.

    Only points beside others get zeros next to them: a year of silence is two zeros.
    """
    found = dict(points)
    for time, _ in points:
        for beside in (time - step, time + step):
            if min(points)[0] < beside < max(points)[0]:
                found.setdefault(beside, 0.0)
    return sorted(found.items())


def stacks(rows: Mapping[str, Mapping[str, float]], label: str) -> Figure:
    """Draw a bar for each name, made of parts with the same colour everywhere."""
    largest = sorted(rows, key=lambda name: -sum(rows[name].values()))[:BARS_MAX]
    parts = list(dict.fromkeys(part for name in rows for part in rows[name]))
    figure, axes = _figure(1.8 + 0.36 * max(len(largest), 1))
    at = [0.0] * len(largest)
    for part, colour in zip(parts, COLOURS, strict=False):
        widths = [rows[name].get(part, 0.0) for name in largest]
        axes.barh(range(len(largest)), widths, left=at, color=colour, label=_short(part), height=0.7)
        at = [begin + width for begin, width in zip(at, widths, strict=True)]
    axes.set_yticks(range(len(largest)), [_short(name) for name in largest])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.25)
    if parts:  # beside the bars: within, it would lie upon one of its own colour
        figure.legend(loc="outside upper left", ncols=len(parts), frameon=False, fontsize=8)
    return figure


def _figure(height: float) -> tuple[Figure, Axes]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise Refused("matplotlib is missing, and draws the plots: pip install 'roquet[spark]'") from None
    figure = Figure(figsize=(9.0, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=INK)
    return figure, axes


def _time_axis(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]


def _short(name: str) -> str:
    # "$" would begin a formula, "_" hides a name from the legend.
    text = shown(name or "(none)").replace("$", r"\$")
    text = f" {text}" if text.startswith("_") else text
    return text if len(text) <= LABEL_CHARS_MAX else f"{text[: LABEL_CHARS_MAX - 1]}…"


def _cell(value: object) -> str:
    kind = ' class="n"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return f"<td{kind}>{html.escape(shown(value))}</td>"
