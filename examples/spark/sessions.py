"""Payments that do not come: one timer and a little state for each order, with transformWithState.

    python examples/spark/sessions.py 127.0.0.1:9876 orders,payments

A message of `orders` opens an order, one of `payments` with the same key closes it. An order that is open for
longer than its patience gives a row; so does a payment without an order. State lives in RocksDB and in the
checkpoint, so a query that is stopped goes on where it was.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import roquet.spark

PATIENCE_MS = 15 * 60 * 1000
FOUND = "key string, what string, since timestamp"


class Unpaid(StatefulProcessor):
    """Watches one order."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._opened = handle.getValueState("opened", "at timestamp")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in sorted(rows, key=lambda each: each.store_time):
            if row.topic == "orders":
                self._opened.update((row.store_time,))
                self._handle.registerTimer(int(row.store_time.timestamp() * 1000) + PATIENCE_MS)
            elif self._opened.exists():
                self._opened.clear()
            else:
                yield Row(key=key[0], what="paid without an order", since=row.store_time)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        opened = self._opened.get()
        if opened is not None:
            yield Row(key=key[0], what="not paid", since=opened[0])
            self._opened.clear()

    def close(self) -> None:
        pass


def unpaid(messages: DataFrame) -> DataFrame:
    """Return what is wrong with orders and their payments."""
    keyed = messages.withColumn("key", f.element_at("keys", 1)).where("key IS NOT NULL")
    watched = keyed.select("key", "topic", "store_time").withWatermark("store_time", "1 minute")
    return watched.groupBy("key").transformWithState(
        statefulProcessor=Unpaid(), outputStructType=FOUND, outputMode="Append", timeMode="EventTime"
    )


def messages(spark: SparkSession, namesrv: str, topics: str) -> DataFrame:
    """Return the messages of both topics as a stream."""
    options = {"namesrv": namesrv, "subscribe": topics, "startingOffsets": "earliest"}
    return spark.readStream.format("roquet").options(**options).load()


if __name__ == "__main__":
    session = (
        SparkSession.builder.appName("sessions")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    roquet.spark.register(session)
    found = unpaid(messages(session, sys.argv[1], sys.argv[2]))
    sink = found.writeStream.format("console").option("checkpointLocation", "checkpoints/sessions")
    sink.trigger(processingTime="10 seconds").start().awaitTermination()
