"""The pages about Spark do what they say: their code runs, from top to bottom, in the session of all tests.

Python and SQL run as they are; `roquet pipeline …` goes through the command line of this process. Changed
are only the address of the name servers and the folder of the store, as a reader would. One command of each
way of working is carried out; of the others the arguments are read and checked, since `pipelines/test_runs`
carries those out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from roquet.cli.main import app
from roquet.spark.pipelines import program
from tests.docs.pages import ADDRESS, ROOT, Block, blocks_of
from tests.spark.shop import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from roquet.spark.pipelines import Pipeline

pytestmark = pytest.mark.process

STORE = "/var/lib/roquet/store"
CARRIED_OUT = (
    "archive --topics orders,payments --to archive/",
    "replay --archive archive/ --topics orders",
    "lag --quick",
)
ORDERS = (
    b'{"country": "DE", "amount": 12.50, "time": "2026-11-15T12:00:03Z"}',
    b'{"country": "DE", "amount": 7, "time": "2026-11-15T12:00:40+00:00"}',
    b'{"country": "FR", "amount": 1, "time": "2026-11-15T13:00:00Z"}',
    b"not JSON",
)


@pytest.fixture
def page(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A folder to work in, and a broker with what the pages speak of."""
    for topic in ("orders", "payments", "orders-again", "order-totals"):
        shop.topic(topic)
    for number, body in enumerate(ORDERS):
        shop.send("orders", 1, body=body, tag="paid", keys=[f"o-{17 + number}"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROQUET_NAMESRV", shop.namesrv)
    yield shop


def adapted(block: Block, shop: Shop) -> str:
    """Return a block for this broker and this folder; Java does not know of the latter."""
    text = block.text.replace(ADDRESS, shop.namesrv).replace(STORE, str(Path.cwd() / "roquet"))
    return text.replace('"checkpoints/', f'"{Path.cwd()}/checkpoints/')


def test_the_page_about_the_formats(
    spark: SparkSession, page: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"spark": spark, "__name__": "page"}
    ran = blocks_of(ROOT / "docs" / "SPARK.md", "python", "sql")
    for block in ran:
        text = adapted(block, page)
        if block.language == "python":
            exec(compile(text, block.place, "exec"), names)
        else:
            for statement in text.rstrip().removesuffix(";").split(";\n"):
                names["answer"] = spark.sql(statement).collect()
    assert {block.language for block in ran} == {"python", "sql"}
    assert [tuple(row) for row in names["answer"]] == [(0, len(ORDERS) - 1)]
    told = capsys.readouterr().out
    assert "12.50" in told and "DecodeError: JSON" in told
    assert page.read(("body",), subscribe="order-totals")["body"].to_pylist() == [
        b'{"start":"2026-11-15T12:00:00.000Z","country":"DE","amount":19.50}'
    ]
    (again,) = page.read(subscribe="orders-again").to_pylist()
    assert (again["tag"], again["keys"], dict(again["properties"])["source"]) == ("created", ["o-1"], "shop")


def commands(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of the page: their place, and the words behind `roquet`."""
    for block in blocks_of(ROOT / "docs" / "PIPELINES.md", "bash"):
        for line in adapted(block, shop).replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:2] == ["roquet", "pipeline"]:
                yield f"{block.place}: {line}", words[1:]


def test_the_page_about_the_pipelines(
    spark: SparkSession,
    page: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(program, "open_session", lambda name: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)  # others go on with it
    execute, built = program.execute, []

    def check(pipeline: Pipeline, as_json: bool) -> int:
        built.append(pipeline)
        return 0

    def run(words: list[str]) -> int:
        try:
            app(words, standalone_mode=True)
        except SystemExit as end:
            assert isinstance(end.code, int)
            return end.code
        return 0

    for block in blocks_of(ROOT / "docs" / "PIPELINES.md", "python"):
        exec(compile(adapted(block, page), block.place, "exec"), {"spark": spark, "__name__": "page"})
    assert f"archive: {len(ORDERS)} messages" in capsys.readouterr().out
    for place, words in commands(page):
        is_carried_out = any(text in place for text in CARRIED_OUT)
        monkeypatch.setattr(program, "execute", execute if is_carried_out else check)
        assert run(words) == 0, (place, capsys.readouterr().err)
        if is_carried_out:
            assert f"{words[1]}: " in capsys.readouterr().out, place
    assert len(built) > len(CARRIED_OUT)
    assert list(Path("archive").glob("topic=orders/day=*/*.parquet"))
