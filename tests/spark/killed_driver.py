"""A driver that is killed: files of numbers ─▶ a topic, exactly once; run by test_sink_killed.py.

    killed_driver.py <name servers> <folder> <topic> <never | before | between>

`before` hangs when all tasks have written and the commit is to begin, `between` when the commit point is
passed and a part of the rows is visible; both say so by a file, and wait to be killed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

import roquet.spark
from roquet.spark.source import RoquetSource

HANG_S = 600


def hang(reached: str) -> None:
    Path(reached).touch()
    time.sleep(HANG_S)


class MortalSource(RoquetSource):
    """The sink whose driver does not survive its commit."""

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        options = dict(self.options)
        where, reached = options.pop("where"), options.pop("reached")
        self.options = options
        writer: Any = super().streamWriter(schema, overwrite)
        whole = writer.commit

        def commit(messages: Any, batch_id: int) -> None:
            if where == "before":
                hang(reached)
            from roquet.client.producer.staging import Staging

            end = Staging.end

            async def part(self: Any, broker: str, topic: str, places: Any, outcome: Any) -> None:
                await end(self, broker, topic, places[: len(places) // 2], outcome)
                hang(reached)

            Staging.end = part  # type: ignore[method-assign]
            whole(messages, batch_id)

        writer.commit = commit
        return writer  # type: ignore[no-any-return]


def main(namesrv: str, folder: str, topic: str, where: str) -> None:
    os.setsid()  # so that whoever kills it finds its JVM and its Python workers
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    roquet.spark.register(spark)
    spark.dataSource.register(MortalSource)
    lines = spark.readStream.text(f"{folder}/in").selectExpr("value AS body", "value AS keys")
    stream = lines.writeStream.format("roquet" if where == "never" else "mortal").option("namesrv", namesrv)
    if where != "never":
        stream = stream.option("where", where).option("reached", f"{folder}/{where}")
    query = (
        stream.option("topic", topic)
        .option("delivery", "exactly-once")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    Path(folder, "done").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
