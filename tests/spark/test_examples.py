"""The examples for Spark do what they say, on a broker and in the session that all tests share."""

from __future__ import annotations

import importlib.util
import json
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.shop import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
DONE_SECONDS = 300


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def order(time: str, amount: float = 1.0) -> bytes:
    return json.dumps({"country": "DE", "amount": amount, "time": f"2026-11-15T{time}Z"}).encode()


def test_late_orders_are_counted_until_their_window_is_closed(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    example = load("windows")
    for topic in ("orders", "order-totals"):
        shop.topic(topic)

    def totals(*bodies: bytes) -> dict[str, Any]:
        before = shop.read(subscribe="order-totals").num_rows
        for body in bodies:
            shop.send("orders", 1, body=body)
        query = example.start(spark, shop.namesrv, "orders", str(tmp_path))
        assert query.awaitTermination(DONE_SECONDS)
        rows = shop.read(subscribe="order-totals").to_pylist()[before:]
        found = [json.loads(row["body"]) for row in rows]
        assert all(row["keys"] == ["DE"] for row in rows)
        return {row["minute"][11:16]: (row["orders"], row["amount"]) for row in found}

    # Out of order, but within ten minutes; a body that is no JSON is left out.
    first = totals(order("12:01:30"), order("12:05:00"), order("12:01:10", 2.5), b"{", order("12:30:00"))
    assert first == {"12:01": (2, 3.5), "12:05": (1, 1.0)}
    # The window of 12:01 is closed, that of 12:25 is not.
    assert totals(order("12:01:50"), order("12:25:00"), order("13:00:00")) == {
        "12:25": (1, 1.0),
        "12:30": (1, 1.0),
    }


def test_an_order_that_is_not_paid_in_time_is_told(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    example = load("sessions")
    for topic in ("orders", "payments"):
        shop.topic(topic)
    shop.send("orders", 1, keys=["paid"])
    shop.send("orders", 1, keys=["unpaid"])
    shop.broker.advance(timedelta(minutes=5))
    shop.send("payments", 1, keys=["paid"])
    shop.send("payments", 1, keys=["strange"])
    shop.broker.advance(timedelta(hours=1))
    shop.send("orders", 1, keys=["later"])  # event time moves with what comes
    before = spark.conf.get(PROVIDER, None)
    spark.conf.set(PROVIDER, ROCKSDB)
    try:
        found = example.unpaid(example.messages(spark, shop.namesrv, "orders,payments"))
        query = found.writeStream.format("memory").queryName("unpaid").outputMode("append")
        query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(DONE_SECONDS)
    finally:
        spark.conf.unset(PROVIDER) if before is None else spark.conf.set(PROVIDER, before)
    rows = {(row.key, row.what) for row in spark.table("unpaid").collect()}
    assert rows == {("unpaid", "not paid"), ("strange", "paid without an order")}
