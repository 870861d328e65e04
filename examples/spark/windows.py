"""Orders and revenue by minute and country, although some orders come late.

    python examples/spark/windows.py 127.0.0.1:9876 orders

Bodies are JSON such as {"country": "DE", "amount": 12.5, "time": "2026-11-15T12:00:03Z"}. Time is the order's
own, not that of storing: a window stays open for ten minutes of it, what comes later than that is dropped.
The totals go back into the topic `order-totals`, keyed by country, each once its window is closed.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import roquet.spark

LATE = "10 minutes"
ORDER = "country string, amount double, time timestamp"


def orders(spark: SparkSession, namesrv: str, topic: str) -> DataFrame:
    """Return the orders of a topic as a stream."""
    options = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    options |= {"format": "json", "valueSchema": ORDER, "badValues": "column"}
    return spark.readStream.format("roquet").options(**options).load().select("value.*")


def totals(orders: DataFrame) -> DataFrame:
    """Return count and sum for each minute and country."""
    known = orders.where("time IS NOT NULL").withWatermark("time", LATE)
    return known.groupBy(f.window("time", "1 minute"), "country").agg(
        f.count("*").alias("orders"), f.round(f.sum("amount"), 2).alias("amount")
    )


def messages(totals: DataFrame) -> DataFrame:
    """Return totals as messages."""
    row = f.struct(f.col("window.start").alias("minute"), "country", "orders", "amount")
    return totals.select(f.to_json(row).alias("body"), f.array("country").alias("keys"))


def start(spark: SparkSession, namesrv: str, topic: str, checkpoint: str) -> StreamingQuery:
    """Start the query; it works on what is there and ends."""
    sink = messages(totals(orders(spark, namesrv, topic))).writeStream.format("roquet")
    sink = sink.options(namesrv=namesrv, topic="order-totals", checkpointLocation=checkpoint)
    return sink.outputMode("append").trigger(availableNow=True).start()


if __name__ == "__main__":
    session = SparkSession.builder.appName("windows").getOrCreate()
    roquet.spark.register(session)
    start(session, sys.argv[1], sys.argv[2], "checkpoints/windows").awaitTermination()
