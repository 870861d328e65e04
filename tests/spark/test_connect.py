"""Spark Connect and declarative pipelines: clients of a server, which is the session that all tests share.

    client (a process of its own) ──gRPC, loopback──▶ Connect's server in the session's JVM ──▶ broker (here)

The server is started in the running session, so that a second Spark is not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.peers.ports import free_port
from tests.spark import connect_client
from tests.spark.shop import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
DECLARATIVE = ROOT / "examples" / "declarative"
DATABASE = "declarative"
RUN_SECONDS = 400


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[str]:
    """The address of a Connect server."""
    port = free_port()
    java: Any = spark
    context = java._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.address", "127.0.0.1")
    context.conf().set("spark.connect.grpc.binding.port", str(port))
    plugin = java._jvm.org.apache.spark.sql.connect.SparkConnectPlugin().driverPlugin()
    plugin.init(context, None)
    yield f"sc://127.0.0.1:{port}"
    plugin.shutdown()


def run(words: Sequence[str], folder: Path, **environment: str) -> str:
    """Run a program of Python's in a folder, and return what it printed."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder, env={**mine, **environment}, capture_output=True, text=True, timeout=RUN_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_formats_over_connect(server: str, shop: Shop, tmp_path: Path) -> None:
    for topic in ("orders", "written", "copy"):
        shop.topic(topic)
    shop.send("orders", 3, tag="new")
    path = ROOT / "src"
    words = [connect_client.__file__, server, shop.namesrv, str(tmp_path)]
    found = json.loads(run(words, tmp_path, PYTHONPATH=str(path)).splitlines()[-1])
    assert found == {
        "session": "pyspark.sql.connect.session",
        "before": 3,
        "narrow": 2,
        "stored": 3,
        "lag": 0,
    }
    assert sorted(shop.read(subscribe="written")["body"].to_pylist()) == [b"one", b"two"]
    assert shop.read(subscribe="copy")["body"].to_pylist() == [b"orders 0 0", b"orders 0 1", b"orders 0 2"]


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The example in a folder of its own, with a database that goes when the test has ended."""
    project = tmp_path / "project"
    shutil.copytree(DECLARATIVE, project, ignore=shutil.ignore_patterns("__pycache__"))
    path = project / "spark-pipeline.yml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("storage:")]
    lines += [f"storage: file://{tmp_path}/storage", f"database: {DATABASE}"]
    path.write_text("\n".join(lines) + "\n")
    spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{tmp_path}/tables'")
    yield project
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


def order(country: str, amount: float) -> bytes:
    return json.dumps({"country": country, "amount": amount, "time": "2026-11-15T12:00:03Z"}).encode()


def test_the_declarative_example(spark: SparkSession, server: str, project: Path, shop: Shop) -> None:
    for topic in ("orders", "large-orders"):
        shop.topic(topic)
    for body in (order("DE", 1.0), order("DE", 120.0), b"not JSON", order("FR", 3.0)):
        shop.send("orders", 1, body=body)
    # What the command spark-pipelines starts, without the Java that it starts it with.
    words = ["-m", "pyspark.pipelines.cli", "run"]
    told = run(
        words,
        project,
        SPARK_REMOTE=server,
        SPARK_CONNECT_MODE_ENABLED="1",
        ROQUET_NAMESRV=shop.namesrv,
        PYTHONPATH=str(ROOT / "src"),
    )
    assert "Run is COMPLETED" in told
    revenue = {tuple(row) for row in spark.table(f"{DATABASE}.revenue").collect()}
    assert revenue == {("DE", 2, 121.0), ("FR", 1, 3.0)}
    assert spark.table(f"{DATABASE}.orders").schema["time"].dataType.simpleString() == "timestamp"
    (large,) = shop.read(subscribe="large-orders").to_pylist()
    assert (json.loads(large["body"]), large["tag"]) == ({"country": "DE", "amount": 120.0}, "large")
