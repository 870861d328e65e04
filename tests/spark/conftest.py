"""One Spark session for the whole run, and brokers to read from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from roquet.testing import ThreadedBroker
from tests.spark.shop import LOG_FILE_BYTES, Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores; workers run the Python of the tests."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    import roquet.spark

    builder = SparkSession.builder.master("local[2]").appName("roquet-tests")
    tables = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    for name, value in (SETTINGS | tables).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    roquet.spark.register(session)
    yield session
    session.stop()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Shop]:
    """A broker of the test's own in this process, on a clock that the test moves."""
    broker = ThreadedBroker(
        tmp_path / "roquet", {"mappedFileSizeCommitLog": LOG_FILE_BYTES, "fileReservedTime": 1}
    )
    try:
        with Shop(broker.namesrv) as shop:
            shop.broker, shop.is_ours = broker, True
            yield shop
    finally:
        broker.close()


@pytest.fixture
def shop(ours: Shop) -> Shop:
    """The same, where tests do not hold for any broker (see `any_broker`)."""
    return ours
