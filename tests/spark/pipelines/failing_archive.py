"""An archive run in which much goes wrong; run by test_failures.py, and killed by it.

    failing_archive.py <name servers> <topic> <folder>

Tasks may fail twice. The first of each batch fails when it has written files with half of its rows; the
second when it has written all of them, as a speculative copy does whose twin was quicker (Spark makes none on
one host). The archive `delta` is finished in spite of that; of `parquet` all files are written when the
driver hangs before its commit, says so by the file `reached`, and waits to be killed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

import roquet.spark
from roquet.spark.pipelines import archive
from roquet.spark.pipelines.archive_files import ParquetShelf
from roquet.spark.pipelines.archive_write import FileWriter, write_batches
from roquet.spark.pipelines.summary import Live

HANG_S = 300.0


def troubled(batches: Iterator[Any], place: Any, folder: str) -> Iterator[Any]:
    """Do what a task of an archive does, with troubles; travels to the workers."""
    task = TaskContext.get()
    assert task is not None
    trouble = {0: "half", 1: "whole"}.get(task.partitionId())
    if task.attemptNumber() or trouble is None:
        yield from write_batches(batches, place, folder)
        return
    writer = FileWriter(place, folder)
    for batch in batches:
        writer.add(batch if trouble == "whole" else batch.slice(0, batch.num_rows // 2))
    writer.close()
    (Path(place.root).parent / f"{trouble}-{Path(place.root).name}").touch()
    raise RuntimeError("in the middle of a task")


def main(namesrv: str, topic: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.setsid()  # so that whoever kills it finds its JVMs and its Python workers
    builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # of failed tasks it would speak at length
    roquet.spark.register(spark)
    archive.write_batches = troubled  # type: ignore[assignment,attr-defined]
    asked: dict[str, Any] = {"topics": (topic,), "namesrv": namesrv, "partitions": 4, "compact_below": 0}
    archive.Archive(to=f"{folder}/delta", format="delta", **asked).run(spark, Live())

    def hang(*_: object) -> None:
        (Path(folder) / "reached").touch()
        time.sleep(HANG_S)

    ParquetShelf.commit = hang  # type: ignore[assignment,method-assign]
    archive.Archive(to=f"{folder}/parquet", **asked).run(spark, Live())


if __name__ == "__main__":
    main(*sys.argv[1:])
