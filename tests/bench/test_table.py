"""The table: how numbers look, where it goes, and that a kept result draws the same one."""

from pathlib import Path

import pytest

from bench import results, table
from bench.figures import Measure
from bench.results import Result
from bench.servers import Target

MACHINE = {
    "cores": 2,
    "memory_gib": 24,
    "processor": "a processor",
    "kernel": "6.1",
    "python": "3.11",
    "java": "openjdk 17",
}
ABOUT = {
    "apache": "5.5.0",
    "commit": "abc1234",
    "date": "2026-11-15T09:00:00+00:00",
    "mode": "full",
    "broker_jvm": "-Xmx1g",
    "machine": MACHINE,
}


def a_result() -> Result:
    result = Result(ABOUT)
    for sends in (30_000.0, 40_000.0):
        result.add(Target.APACHE, {Measure.SENDS: sends, Measure.FAILURES: 0.0})
        result.add(Target.ROQUET, {Measure.SENDS: 1.5 * sends, Measure.FAILURES: 0.0})
    return result


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0123, "0.012"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (51_234.0, "51,234"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert table.number(value) == text


def test_a_row_says_medians_ratio_goal_and_verdict() -> None:
    lines = table.render(a_result()).splitlines()
    assert lines[2] == (
        "| sends per second (64 threads, 128 B) | 35,000 ±14 % | 52,500 ±14 % | 1.50× | ≥ 1× | reached |"
    )
    assert lines[3] == "| failed requests | 0 | 0 |  | 0 | reached |"
    assert "commit abc1234, full run of 2 rounds: 2 cores (a processor)" in lines[-1]


def test_the_table_replaces_the_last_one_and_nothing_else() -> None:
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    pasted = table.paste(page, "new")
    assert pasted == f"before\n{table.BEGIN}\nnew\n{table.END}\nafter\n"
    assert table.paste(pasted, "new") == pasted


@pytest.mark.parametrize("page", ["", table.BEGIN, table.END, f"{table.END} {table.BEGIN}"])
def test_a_page_without_a_place_is_left_alone(page: str) -> None:
    with pytest.raises(table.NoPlace):
        table.paste(page, "new")


def test_a_kept_result_draws_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    path = a_result().save("kept")
    assert table.render(results.load(path)) == table.render(a_result())
