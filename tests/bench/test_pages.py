"""The tables of the clients and of Spark: what they show, and that a kept result draws the same ones."""

from pathlib import Path

import pytest

from bench import results, table
from bench.results import Tally
from bench.sdk import page as sdk_page
from bench.sdk.rounds import CLIENTS, WORKS
from bench.spark import page as spark_page
from tests.bench.test_table import ABOUT

CLIENT_NUMBERS = {
    "roquet.async.send.per_s": 30_000.0,
    "apache.async.send.per_s": 20_000.0,
    "apache.async.send.cpu": 20.0,
    "apache.sync.send.cpu": 60.0,
    "apache.pypi.send.cpu": 400.0,
    "apache.pypi.send.per_s": 900.0,
}


def a_tally(part: str, numbers: dict[str, float]) -> Tally:
    tally = Tally(part, ABOUT)
    tally.rounds.append(numbers)
    return tally


def test_every_client_has_a_column_and_every_work_its_words() -> None:
    assert set(sdk_page.HEADS) == set(CLIENTS)
    assert set(sdk_page.WORDS) == set(WORKS)


def test_the_clients_stand_beside_each_other() -> None:
    lines = sdk_page.render(a_tally("sdk", CLIENT_NUMBERS)).splitlines()
    words = "sends, each confirmed, 64 at once"
    assert f"| {words}: messages per second, Roquet's broker | 30,000 |  |  |  |" in lines
    assert f"| {words}: client CPU per million, s, Apache's broker | 20.0 | 60.0 |  | 400 |" in lines
    assert "| async sends per second | 30,000 |  |  | ≥ 25,000 | reached |" in lines
    assert (
        "| async client: CPU per million sends, Apache's broker, s | 20.0 | PyPI client 400 | 0.050× "
        "| ≤ 0.2× | reached |"
    ) in lines
    assert "commit abc1234" in lines[-1]


def test_a_client_that_could_not_be_run_is_told_with_the_reason() -> None:
    tally = a_tally("sdk", CLIENT_NUMBERS)
    tally.notes["pypi"] = "no such package"
    assert "- Not measured: pypi: no such package" in sdk_page.render(tally).splitlines()


def test_every_line_of_spark_has_a_ceiling_or_a_peer() -> None:
    measured = {line.key for line in spark_page.LINES} | {line.beside for line in spark_page.LINES}
    lines = spark_page.render(a_tally("spark", dict.fromkeys(measured, 2.0))).splitlines()
    assert len(lines) == 2 + len(spark_page.LINES) + 2
    assert all("1.00×" in line for line in lines[2 : 2 + len(spark_page.LINES)])


@pytest.mark.parametrize("place", [sdk_page.PLACE, spark_page.PLACE])
def test_each_table_has_a_place_of_its_own(place: table.Place) -> None:
    page = f"{table.BEGIN}\nbrokers\n{table.END}\n{place.begin}\nold\n{place.end}\n"
    assert (
        table.paste(page, "new", place)
        == f"{table.BEGIN}\nbrokers\n{table.END}\n{place.begin}\nnew\n{place.end}\n"
    )
    with pytest.raises(table.NoPlace, match=place.begin):
        table.paste(f"{table.BEGIN}{table.END}", "new", place)


def test_a_kept_tally_draws_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    tally = a_tally("sdk", CLIENT_NUMBERS)
    tally.notes["pypi receive"] = "it died"
    assert tally.save("kept").name == "kept-sdk.json"
    assert sdk_page.render(results.load_tally("kept", "sdk")) == sdk_page.render(tally)
