"""Reports: pages that escape what messages say, plots that are pictures, folders that cannot be written."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from roquet.spark.pipelines.report import BARS_MAX, Page, bars, lines, stacks, with_zeros
from roquet.spark.pipelines.summary import Refused

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
EVIL = "<script>alert('$x_$')</script>"


def test_a_page_holds_its_plots_and_escapes_words(tmp_path: Path) -> None:
    page = Page("Title & more", "127.0.0.1:9876")
    page.say(f"said {EVIL}")
    page.table("Rows", [{"name": EVIL, "count": 12345}])
    page.table("Nothing", [])
    page.plot("By Group!", bars({EVIL: 3.0, "_hidden": 1.0, "": 2.0}, "letters"))
    paths = page.save(str(tmp_path / "new" / "report"))
    assert [Path(path).name for path in paths] == ["index.html", "by-group.png"]
    text = Path(paths[0]).read_text()
    assert "<script" not in text and "12,345" in text and "Title &amp; more" in text
    (inside,) = re.findall('base64,([^"]+)', text)
    assert base64.b64decode(inside) == Path(paths[1]).read_bytes()


@pytest.mark.parametrize(
    "figure",
    [
        bars({}, "nothing"),
        bars({f"n{number}": float(number) for number in range(100)}, "many"),
        bars({"a": 1.0, "b": 1000.0}, "log", log=True),
        lines({}, "nothing"),
        lines({"a": [(NOON, 1.0)]}, "alone"),
        lines({"a": [(NOON + timedelta(minutes=n), float(n)) for n in range(60)]}, "per minute"),
        lines({EVIL: [("p50", 1.0), ("p99", 2.0)]}, "ms"),
        stacks({}, "nothing"),
        stacks({"g1": {"new": 1.0, "old": 2.0}, "g2": {"new": 3.0}}, "letters"),
    ],
)
def test_every_kind_of_plot_is_drawn(figure: object, tmp_path: Path) -> None:
    page = Page("p", "w")
    page.plot("plot", figure)  # type: ignore[arg-type]
    _, path = page.save(str(tmp_path))
    assert Path(path).read_bytes().startswith(b"\x89PNG")


def test_bars_show_the_largest_with_the_largest_on_top() -> None:
    figure = bars({f"n{number}": float(number) for number in range(100)}, "many")
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == [f"n{number}" for number in range(99, 99 - BARS_MAX, -1)]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="the report cannot be written"):
        Page("p", "w").save(str(tmp_path / "file" / "report"))


def test_silence_is_drawn_as_nothing_and_not_as_a_bridge() -> None:
    hour = timedelta(hours=1)
    points = [(NOON, 3.0), (NOON + hour, 4.0), (NOON + 1000 * hour, 5.0)]
    assert with_zeros(points, hour) == [
        (NOON, 3.0),
        (NOON + hour, 4.0),
        (NOON + 2 * hour, 0.0),
        (NOON + 999 * hour, 0.0),
        (NOON + 1000 * hour, 5.0),
    ]
    assert with_zeros([], hour) == []


def test_a_point_that_is_alone_is_shown_among_minutes() -> None:
    left, right = lines({"a": [(NOON, 1.0)]}, "alone").axes[0].get_xlim()
    assert (right - left) * 24 * 60 == pytest.approx(20)  # matplotlib counts in days
