"""Orders as a declarative pipeline: a topic in, a table, a view over it, and another topic out.

    topic orders ─▶ table orders (a stream: only what is new) ─▶ view revenue (made anew)
                                                              └▶ topic large-orders

Spark finds the format by itself, works out the order, keeps checkpoints under `storage`, and ends when it has
done what was there. Bodies are JSON: {"country": "DE", "amount": 12.5, "time": "2026-11-15T12:00:03Z"}.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

NAMESRV = os.environ.get("ROQUET_NAMESRV", "127.0.0.1:9876")
ORDER = "country string, amount double, time timestamp"
LARGE = 100

spark = SparkSession.active()
dp.create_sink("large_orders", "roquet", {"namesrv": NAMESRV, "topic": "large-orders"})


@dp.table
def orders() -> DataFrame:
    """Return the orders that have come since the last run."""
    topic = {"namesrv": NAMESRV, "subscribe": "orders", "startingOffsets": "earliest"}
    value = {"format": "json", "valueSchema": ORDER, "badValues": "column"}
    messages = spark.readStream.format("roquet").options(**topic, **value).load()
    return messages.where("value IS NOT NULL").select("message_id", "store_time", "value.*")


@dp.materialized_view
def revenue() -> DataFrame:
    """Return count and sum of all orders by country."""
    return (
        spark.read.table("orders")
        .groupBy("country")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    )


@dp.append_flow(target="large_orders")
def announce() -> DataFrame:
    """Return the large ones as messages."""
    large = spark.readStream.table("orders").where(f.col("amount") >= LARGE)
    return large.select(f.to_json(f.struct("country", "amount")).alias("body"), f.lit("large").alias("tag"))
