"""A client of Spark Connect, for `test_connect`: a program, since a process has one kind of session.

`python connect_client.py ADDRESS NAMESRV FOLDER` prints one JSON object: what it found.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

import roquet.spark

DONE_SECONDS = 300


def copied(spark: Any, namesrv: str, folder: str) -> dict[str, Any]:
    """Read a topic in a batch and as a stream, by the options and by SQL; write to others."""
    cluster = {"namesrv": namesrv, "subscribe": "orders"}
    found: dict[str, Any] = {"session": type(spark).__module__}
    found["before"] = spark.read.format("roquet").options(**cluster).load().count()
    roquet.spark.register(spark)
    narrow = spark.read.format("roquet").options(**cluster, pushdown="true").load()
    found["narrow"] = narrow.where("queue_offset >= 1").count()
    found["stored"] = spark.read.format("roquet-store").load(f"{folder}/roquet").where("tag = 'new'").count()

    rows = spark.createDataFrame([("one",), ("two",)], "body string")
    rows.write.format("roquet").options(namesrv=namesrv, topic="written").mode("append").save()

    stream = spark.readStream.format("roquet").options(**cluster, startingOffsets="earliest").load()
    sink = stream.select("body").writeStream.queryName("copy").format("roquet")
    sink = sink.options(namesrv=namesrv, topic="copy", delivery="exactly-once")
    query = sink.option("checkpointLocation", f"{folder}/copy").trigger(availableNow=True).start()
    assert query.awaitTermination(DONE_SECONDS)
    found["lag"] = roquet.spark.lag(query).messages
    return found


if __name__ == "__main__":
    session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    try:
        print(json.dumps(copied(session, *sys.argv[2:])))
    finally:
        session.stop()
