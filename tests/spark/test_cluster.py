"""Beyond one machine: a standalone master, two workers, a submitted pipeline, a worker that dies.

    broker (here) ◀── executors of worker 1, worker 2 ◀── driver (spark-submit) ◀── master   on loopback

The file of the pipeline is submitted as a user would submit it, with the Python of this environment.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

import roquet.spark.pipelines.archive
from roquet.spark.pipelines.archive_files import ParquetShelf
from roquet.spark.pipelines.archive_write import read_files
from tests.peers.child import Child
from tests.peers.ports import accepts, free_port
from tests.spark.shop import Shop

pytestmark = pytest.mark.process

MESSAGES = 12_000
ROWS_PER_BATCH = 1_500
START_SECONDS = 120
RUN_SECONDS = 400
HOME = Path(pyspark.__file__).parent
CLASS = HOME / "bin" / "spark-class"
ENVIRONMENT = {
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}


class Standalone:
    """A master and its workers; ends all that it started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._exits = ExitStack()
        self.url = f"spark://127.0.0.1:{free_port()}"
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        address = self.url.removeprefix("spark://")
        host, port = address.split(":")
        words = [str(CLASS), "org.apache.spark.deploy.master.Master", "--host", host, "--port", port]
        log = self._folder / "master.log"
        master = Child("master", [*words, "--webui-port", "0"], log, ENVIRONMENT)
        self._exits.callback(master.kill)
        master.wait_until(lambda: accepts(address), "to accept workers", START_SECONDS)
        for number in range(workers):
            self.workers.append(self._worker(number))

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        words = [
            str(CLASS),
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
        ]
        words += ["-c", "1", "-m", "1g", "-d", str(self._folder / f"worker-{number}"), self.url]
        output = self._exits.enter_context((self._folder / f"worker-{number}.log").open("wb"))
        # A process group of its own: its executors and their Python workers die with it.
        worker = subprocess.Popen(
            words, stdout=output, stderr=output, env={**os.environ, **ENVIRONMENT}, start_new_session=True
        )
        self._exits.callback(kill, worker)
        return worker

    def close(self) -> None:
        self._exits.close()


def kill(worker: subprocess.Popen[bytes]) -> None:
    """End a worker with all that it started, as a machine that loses its power."""
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(10)


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path)
    try:
        cluster.start(workers=2)
        yield cluster
    finally:
        cluster.close()


def test_an_archive_is_complete_although_a_worker_dies(
    standalone: Standalone, shop: Shop, tmp_path: Path
) -> None:
    shop.topic("orders", queues=4)
    shop.fill("orders", MESSAGES)
    to = tmp_path / "archive"
    words = [
        *(str(HOME / "bin" / "spark-submit"), "--master", standalone.url),
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"),
        roquet.spark.pipelines.archive.__file__,
        *("--namesrv", shop.namesrv, "--topics", "orders", "--to", str(to), "--json"),
        *("--rows-per-batch", str(ROWS_PER_BATCH), "--partitions", "4"),
    ]

    def commits() -> int:
        return len(list(to.glob("_manifest/*.jsonl")))

    with Child("driver", words, tmp_path / "driver.log", ENVIRONMENT) as driver:
        driver.wait_until(lambda: commits() >= 1, "the first commit", RUN_SECONDS)
        kill(standalone.workers[0])
        killed_at = commits()
        assert killed_at < MESSAGES // ROWS_PER_BATCH, "the worker died too late to matter"
        driver.wait_until(lambda: '{"pipeline"' in driver.text(), "the summary", RUN_SECONDS)

    assert "Lost executor" in driver.text()
    summary = json.loads(next(line for line in driver.text().splitlines() if line.startswith('{"pipeline"')))
    assert (summary["rows"], summary["skipped"]) == (MESSAGES, {})
    shelf = ParquetShelf(str(to))
    found = Counter(
        int(row["body"])
        for batch in read_files(shelf.live(), shelf.place, ("body",))
        for row in batch.to_pylist()
    )
    assert found == Counter(range(MESSAGES))
