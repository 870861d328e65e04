"""The source inside a real Spark session: tables, SQL, streams that stop and go on, wrong options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.shop import Shop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.process

STREAM_TIMEOUT_S = 240


def load(spark: SparkSession, shop: Shop, **given: str) -> DataFrame:
    return spark.read.format("roquet").options(**shop.options(**given)).load()


def places_of(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.select("topic", "queue_id", "queue_offset").collect())


def start_stream(
    spark: SparkSession, shop: Shop, folder: Path, trigger: dict[str, Any], **given: str
) -> StreamingQuery:
    """Start a stream into Parquet."""
    rows = spark.readStream.format("roquet").options(**shop.options(**given)).load()
    return (
        rows.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def run_stream(spark: SparkSession, shop: Shop, folder: Path, **given: str) -> StreamingQuery:
    """Run a stream to the end of what is there, into Parquet."""
    query = start_stream(spark, shop, folder, {"availableNow": True}, **given)
    assert query.awaitTermination(STREAM_TIMEOUT_S), "the stream did not end"
    return query


def test_a_table_and_sql(spark: SparkSession, shop: Shop) -> None:
    shop.topic("orders", 2)
    shop.send("orders", 5, 0, tag="A", keys=("k",), properties={"colour": "red"})
    shop.send("orders", 7, 1)
    rows = load(spark, shop, subscribe="orders", minPartitions="3")
    assert places_of(rows) == sorted(shop.sent)
    assert rows.schema.simpleString() == (
        "struct<topic:string,broker:string,queue_id:int,queue_offset:bigint,body:binary,tag:string,"
        "keys:array<string>,properties:map<string,string>,message_id:string,born_time:timestamp,"
        "store_time:timestamp,born_host:string,store_host:string,reconsume_times:int,sys_flag:int,flag:int,"
        "log_offset:bigint>"
    )
    first = rows.where("tag = 'A'").orderBy("queue_offset").first()
    assert first is not None
    assert (first.body, first["keys"], first.properties["colour"]) == (b"orders 0 0", ["k"], "red")
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING roquet "
        f"OPTIONS (namesrv '{shop.namesrv}', subscribe 'orders')"
    )
    found = spark.sql("SELECT queue_id, count(*) FROM orders GROUP BY queue_id ORDER BY queue_id").collect()
    assert [tuple(row) for row in found] == [(0, 5), (1, 7)]


def test_a_schema_is_a_projection(spark: SparkSession, shop: Shop) -> None:
    shop.topic("orders")
    shop.send("orders", 3)
    reader = spark.read.format("roquet").options(**shop.options(subscribe="orders"))
    rows = reader.schema("queue_offset bigint, body binary").load().orderBy("queue_offset").collect()
    assert [tuple(row) for row in rows] == [(number, b"orders 0 %d" % number) for number in range(3)]
    with pytest.raises(Exception, match="there is no column bodi: did you mean body"):
        reader.schema("bodi binary").load().collect()
    with pytest.raises(Exception, match="column queue_id is int, not bigint"):
        reader.schema("queue_id bigint").load().collect()


def test_push_down_reads_less(spark: SparkSession, shop: Shop) -> None:
    shop.topic("orders", 2)
    shop.send("orders", 5, 0)
    shop.send("orders", 7, 1)
    rows = load(spark, shop, subscribe="orders", pushdown="true", minPartitions="12")
    chosen = rows.where("queue_id = 1 and queue_offset >= 3")
    assert places_of(chosen) == [("orders", 1, number) for number in range(3, 7)]
    assert chosen.rdd.getNumPartitions() == 4, "one for each row that is read at all"


def test_values_of_json(spark: SparkSession, shop: Shop) -> None:
    shop.topic("orders")
    shop.send("orders", 1, body=b'{"id": 5, "name": "ink"}')
    shop.send("orders", 1, body=b"no json")
    given = {"subscribe": "orders", "format": "json", "valueSchema": "id bigint, name string"}
    rows = load(spark, shop, badValues="column", **given).orderBy("queue_offset").collect()
    assert (rows[0].value.id, rows[0].value.name, rows[0].value_error) == (5, "ink", None)
    assert rows[1].value is None
    assert "DecodeError" in rows[1].value_error
    with pytest.raises(Exception, match="a body is no json of the schema .*badValues=column"):
        load(spark, shop, **given).collect()


def test_a_stream_that_begins_at_the_end(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.topic("orders")
    shop.send("orders", 3)
    run_stream(spark, shop, tmp_path, subscribe="orders")
    shop.send("orders", 4)
    run_stream(spark, shop, tmp_path, subscribe="orders")
    assert places_of(spark.read.parquet(str(tmp_path / "rows"))) == shop.sent[3:]


def test_wrong_options_are_told_in_words(spark: SparkSession, shop: Shop) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        load(spark, shop, subscribe="orders", startingOffset="earliest")
    with pytest.raises(Exception, match="no route|does not exist|nobody"):
        load(spark, shop, subscribe="nothing").collect()
    with pytest.raises(Exception, match="no name server answers.*127.0.0.1:1"):
        spark.read.format("roquet").options(
            namesrv="127.0.0.1:1", subscribe="x", timeout="200ms"
        ).load().collect()
