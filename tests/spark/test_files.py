"""The source `roquet-store`: a store's files in a Spark session, and the reader as a plain class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan

from roquet.arrow import COLUMNS
from roquet.spark import files
from roquet.spark.files import OPTIONS, PushingStoreReader, StoreReader, StoreSource
from roquet.spark.options import OptionError
from roquet.spark.pushdown import OFFERING_MODULE
from tests.store_reader.test_store_reader import Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def store(tmp_path: Path) -> Written:
    written = Written(tmp_path / "store")
    for number in range(60):
        written.add("orders" if number % 3 else "payments", number % 2, b"body %d" % number, hours=number)
    written.save()
    return written


def reader(store: Written, names: tuple[str, ...] = COLUMNS, **given: str) -> StoreReader:
    return StoreReader(OPTIONS.parse({"path": str(store.root), **given}, ignore=()), names)


def rows(found: StoreReader) -> list[dict[str, Any]]:
    batches = [batch for part in found.partitions() for batch in found.read(part)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def test_all_rows_with_all_columns(store: Written) -> None:
    found = rows(reader(store, broker="broker-a", rangeBytes=str(1 << 20)))
    keys = ("topic", "queue_id", "queue_offset", "log_offset")
    assert [{key: row[key] for key in keys} for row in found] == store.rows
    assert {row["broker"] for row in found} == {"broker-a"}
    assert found[0]["tag"] == "red"


def test_options_choose_rows(store: Written) -> None:
    topics = rows(reader(store, ("topic",), topics="payments"))
    assert {row["topic"] for row in topics} == {"payments"}
    queues = rows(reader(store, ("queue_id",), queueIds="1"))
    assert {row["queue_id"] for row in queues} == {1}
    late = rows(reader(store, ("store_time",), since="1970-01-02T00:00:00", until="1970-01-02T06:00:00"))
    assert [row["store_time"].hour for row in late] == [0, 1, 2, 3, 4, 5]


def test_conditions_choose_rows(store: Written) -> None:
    given = OPTIONS.parse({"path": str(store.root), "topics": "orders"}, ignore=())
    pushing = PushingStoreReader(given, ("topic", "queue_id"))
    left = list(pushing.pushFilters([EqualTo(("queue_id",), 1), GreaterThan(("flag",), 0)]))
    assert left == [GreaterThan(("flag",), 0)]
    assert {tuple(row.values()) for row in rows(pushing)} == {("orders", 1)}
    assert list(pushing.pushFilters([EqualTo(("topic",), "payments")])) == []
    assert pushing.partitions() == []


def test_damage_is_an_error_a_gap_or_a_row(store: Written) -> None:
    log = next((store.root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[store.rows[5]["log_offset"] + 90] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(ValueError, match="damage|checksum|crc"):
        rows(reader(store))
    assert len(rows(reader(store, damaged="skip"))) == len(store.rows) - 1
    told = rows(reader(store, (*COLUMNS, "damage"), damaged="column"))
    assert len([row for row in told if row["damage"]]) == 1


def test_options_are_checked(store: Written) -> None:
    with pytest.raises(OptionError, match="path of roquet-store is missing"):
        StoreSource({})
    with pytest.raises(OptionError, match="did you mean topics"):
        StoreSource({"path": "x", "topic": "orders"})
    assert "damage string" in StoreSource({"path": "x", "damaged": "column"}).schema()
    assert "damage" not in StoreSource({"path": "x"}).schema()


def test_conditions_are_taken_only_where_spark_offers_them(
    store: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([StructField("queue_offset", LongType())])
    source = StoreSource({"path": str(store.root), "pushdown": "true"})
    assert type(source.reader(schema)) is StoreReader
    monkeypatch.setitem(__import__("sys").modules, OFFERING_MODULE, files)
    assert type(source.reader(schema)) is PushingStoreReader
    assert type(StoreSource({"path": str(store.root)}).reader(schema)) is StoreReader


@pytest.mark.process
def test_in_a_session(spark: SparkSession, store: Written) -> None:
    table = spark.read.format("roquet-store").load(str(store.root))
    assert table.count() == len(store.rows)
    assert table.where("topic = 'payments'").count() == 20
    narrow = (
        spark.read.format("roquet-store").schema("queue_offset bigint, body binary").load(str(store.root))
    )
    assert narrow.where("queue_offset = 0").count() == 4
    with pytest.raises(Exception, match="no store|is not|does not|commit log"):
        spark.read.format("roquet-store").load(str(store.root / "nowhere")).count()


@pytest.mark.process
def test_spark_still_keeps_the_plan_of_a_filtered_scan(spark: SparkSession, store: Written) -> None:
    """The defect for which `pushdown` is off by itself. When this fails, Spark is mended: turn it on."""
    table = spark.read.format("roquet-store").option("pushdown", "true").load(str(store.root))
    filtered = table.where("queue_id = 1").count()
    assert filtered == 30
    assert table.count() == filtered, "Spark is mended: let pushdown be on by default"
    assert spark.read.format("roquet-store").load(str(store.root)).count() == len(store.rows)
