"""Streams in a real Spark session, with both kinds of triggers, on a broker of ours and on Apache's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import roquet.spark
from tests.spark.shop import BROKER, Shop, queue, wait_for
from tests.spark.test_session import load, places_of, run_stream, start_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.process


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """Two runs, with new messages and a new queue between them: every message once."""
    orders = shop.fresh("orders", 2)
    group = f"spark-{orders}"
    shop.send(orders, 30, 0)
    shop.send(orders, 10, 1)
    table = load(spark, shop, subscribe=orders)
    assert places_of(table) == sorted(shop.sent)
    given = {"subscribe": orders, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "25", "group": group}
    first = run_stream(spark, shop, tmp_path, **given)
    assert sum(progress["numInputRows"] for progress in first.recentProgress) == 40
    assert len([each for each in first.recentProgress if each["numInputRows"]]) == 2
    assert roquet.spark.lag(first) == (0, 0, {})
    shop.topic(orders, 3)
    shop.send(orders, 5, 0)
    shop.send(orders, 8, 2)
    second = run_stream(spark, shop, tmp_path, **given)
    assert sum(progress["numInputRows"] for progress in second.recentProgress) == 13
    assert places_of(spark.read.parquet(str(tmp_path / "rows"))) == sorted(shop.sent)
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    stored = json.loads(offsets[-1].read_text().splitlines()[-1])
    assert stored == {"version": 1, "topics": {orders: {BROKER: {"0": 35, "1": 10, "2": 8}}}}
    committed = shop.admin.offsets.progress(group, orders)
    assert {each.queue: each.consumer_offset for each in committed.queues}[queue(orders)] == 30


def test_a_stream_that_keeps_running(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """Messages, queues and topics that come while it runs; then it is stopped, and goes on."""
    orders = shop.fresh("orders")
    shop.send(orders, 5)
    trigger = {"processingTime": "50 milliseconds"}
    given = {
        "subscribePattern": f"{orders}.*",
        "startingOffsets": "earliest",
        "queueDiscoveryInterval": "50ms",
    }

    def run(before: int, *steps: Callable[[], None]) -> None:
        """Let a query read what was sent after the first `before` messages, and again after each step."""
        query = start_stream(spark, shop, tmp_path, trigger, **given)

        def has_read_all() -> bool:
            read: int = sum(each["numInputRows"] for each in query.recentProgress)
            return before + read == len(shop.sent)

        try:
            wait_for(has_read_all, "the stream has read what was sent")
            for step in steps:
                step()
                wait_for(has_read_all, f"the stream has read what was sent by {step.__name__}")
        finally:
            query.stop()

    def grow() -> None:
        shop.topic(orders, 2)
        shop.send(orders, 4, 1)

    def appear() -> None:
        shop.topic(f"{orders}-later")
        shop.send(f"{orders}-later", 3)

    run(0, grow, appear)
    done = len(shop.sent)
    shop.send(orders, 2)
    run(done)
    assert places_of(spark.read.parquet(str(tmp_path / "rows"))) == sorted(shop.sent)
