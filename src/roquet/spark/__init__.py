"""Topics in and out of Spark through PySpark, without a jar.

    import roquet.spark

    roquet.spark.register(spark)
    spark.read.format("roquet-store").load("data/store").show()

Light to import: Spark and Arrow come in when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the formats known to a session, and let it push conditions down to Python sources."""
    from roquet.spark.files import StoreSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(StoreSource)
