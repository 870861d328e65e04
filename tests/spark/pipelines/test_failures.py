"""Archives although tasks fail, drivers die, and who follows is told to stop: each message once."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from roquet.spark.pipelines import sources
from roquet.spark.pipelines.archive import Archive
from roquet.spark.pipelines.archive_delta import DeltaShelf
from roquet.spark.pipelines.archive_files import ParquetShelf
from roquet.spark.pipelines.summary import Live, Summary
from tests.peers.child import Child
from tests.spark.pipelines import failing_archive
from tests.spark.shop import Shop
from tests.spark.test_sink_killed import end_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.process

MESSAGES = 4_000
PATIENCE_S = 300


def run(pipeline: Any, spark: SparkSession) -> Summary:
    found: Summary = pipeline.run(spark, Live(io.StringIO()))
    return found


def numbers(spark: SparkSession, to: object) -> Counter[int]:
    rows = sources.messages(spark, sources.From(archive=str(to)), ("body",)).collect()
    return Counter(int(row.body) for row in rows)


def test_tasks_that_fail_and_a_driver_that_is_killed(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("troubled", queues=4)
    shop.fill("troubled", MESSAGES)
    words = [sys.executable, failing_archive.__file__, shop.namesrv, "troubled", str(tmp_path)]
    driver = Child("driver", words, tmp_path / "driver.log", {"SPARK_LOCAL_IP": "127.0.0.1"})
    try:
        driver.wait_until((tmp_path / "reached").exists, "the files, and not yet the commit", PATIENCE_S)
    finally:
        end_session(driver)

    troubles = sorted(path.name for path in tmp_path.glob("*-*") if path.is_file())
    assert troubles == ["half-delta", "half-parquet", "whole-delta", "whole-parquet"]
    once = Counter(range(MESSAGES))
    assert numbers(spark, tmp_path / "delta") == once
    assert sum(1 for _ in (tmp_path / "parquet").rglob("*.parquet")) > 4  # those of failed attempts too
    assert ParquetShelf(str(tmp_path / "parquet")).live() == []
    asked: dict[str, Any] = {"topics": ("troubled",), "namesrv": shop.namesrv}
    assert run(Archive(to=str(tmp_path / "parquet"), **asked), spark).rows == MESSAGES
    assert numbers(spark, tmp_path / "parquet") == once
    assert spark.read.parquet(str(tmp_path / "parquet")).count() == MESSAGES


def test_who_follows_is_told_to_stop_and_goes_on_later(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    shop.topic("followed", queues=2)
    to = tmp_path / "archive"
    words = [
        *(sys.executable, "-m", "roquet.cli.main", "pipeline", "archive", "--namesrv", shop.namesrv),
        *("--topics", "followed", "--to", str(to), "--follow", "--every", "100ms", "--json"),
    ]
    shop.send("followed", 5, body=b"0")
    env = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_MASTER": "local[1]"}
    archiver = Child("archiver", words, tmp_path / "archiver.log", env)
    try:
        for queue_id in (0, 1):
            commits = len(list(to.glob("_manifest/*.jsonl")))
            shop.send("followed", 5, queue_id, body=b"0")
            archiver.wait_until(
                lambda known=commits: len(list(to.glob("_manifest/*.jsonl"))) > known,  # type: ignore[misc]
                "what came is archived",
                PATIENCE_S,
            )
        shop.send("followed", 50, 1, body=b"0")
        assert archiver.stop() == 0, archiver.tail()  # SIGTERM, as a supervisor of services sends it
    finally:
        archiver.kill()
    assert "Traceback" not in archiver.text()
    summary = json.loads(archiver.text().splitlines()[-1])
    assert 10 <= summary["rows"] <= 65 and summary["skipped"] == {}
    rest = run(Archive(to=str(to), topics=("followed",), namesrv=shop.namesrv), spark)
    assert summary["rows"] + rest.rows == 65
    assert numbers(spark, to) == {0: 65}


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_commit_that_fails_is_done_by_the_next_run(
    spark: SparkSession, shop: Shop, tmp_path: Path, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.topic("refused")
    shop.send("refused", 20, body=b"1")
    wanted = Archive(to=str(tmp_path / form), topics=("refused",), namesrv=shop.namesrv, format=form)

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(DeltaShelf, "commit_batch", full)
    monkeypatch.setattr(ParquetShelf, "commit", full)
    with pytest.raises(Exception, match="no space left"):
        run(wanted, spark)
    monkeypatch.undo()
    assert run(wanted, spark).rows == 20
    assert numbers(spark, tmp_path / form) == {1: 20}
