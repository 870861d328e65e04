"""Topics in and out of Spark through PySpark, without a jar.

    import roquet.spark

    roquet.spark.register(spark)
    orders = spark.read.format("roquet").options(namesrv="127.0.0.1:9876", subscribe="orders").load()
    stored = spark.read.format("roquet-store").load("data/store")

Light to import: Spark and Arrow come in when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from roquet.spark.behind import Lag

__all__ = ["lag", "register"]


def register(spark: SparkSession) -> None:
    """Make the formats known to a session, and let it push conditions down to Python sources."""
    from roquet.spark.files import StoreSource
    from roquet.spark.source import RoquetSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(RoquetSource)
    spark.dataSource.register(StoreSource)


def lag(query: StreamingQuery) -> Lag:
    """Return how far a streaming query is behind: messages, bytes (about), and messages by queue.

    Raises NoProgress as long as the query has not told of its offsets.
    """
    from roquet.spark.behind import lag_of_query

    return lag_of_query(query)
