"""A pipeline as a file for spark-submit: notes while it works, one JSON object at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import roquet.spark.pipelines.audit
from tests.store_reader.test_store_reader import Written

pytestmark = pytest.mark.process

PATIENCE_SECONDS = 300
HOME = Path(pyspark.__file__).parent
SUBMIT = HOME / "bin" / "spark-submit"
ENVIRONMENT = {
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}


def test_the_program_prints_its_summary_and_writes_its_report(tmp_path: Path) -> None:
    written = Written(tmp_path / "store")
    for number in range(20):
        written.add(queue_id=number % 2, hours=number)
    written.save()
    words = ["--store", str(written.root), "--window", "1h", "--json", "--report", str(tmp_path / "report")]
    ran = subprocess.run(
        [str(SUBMIT), "--master", "local[1]", roquet.spark.pipelines.audit.__file__, *words],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    *_, line = ran.stdout.splitlines()  # spark-submit makes one stream of stdout and stderr
    found = json.loads(line)
    assert (found["pipeline"], found["rows"], found["skipped"]) == ("audit", 20, {})
    assert found["seconds"] > 0
    (topic,) = found["topics"]
    assert (topic["topic"], topic["messages"], topic["keys_that_repeat"]) == ("orders", 20, 2)
    assert topic["last"] == "1970-01-01T19:00:00+00:00"
    assert all(Path(path).exists() for path in found["files"])
    assert "Traceback" not in ran.stdout + ran.stderr
