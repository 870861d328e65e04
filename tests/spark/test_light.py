"""What importing costs: Spark gives the process that plans a stream ten seconds to start."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pyarrow", "pandas", "numpy", "deltalake", "fastavro", "google.protobuf", "typer")


@pytest.mark.parametrize(
    ("module", "heavy"), [("roquet.spark", (*HEAVY, "pyspark")), ("roquet.spark.source", HEAVY)]
)
def test_heavy_libraries_come_in_when_they_are_used(module: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_spark_finds_the_source_by_itself() -> None:
    import pyspark_roquet
    from roquet.spark.source import RoquetSource

    assert pyspark_roquet.DefaultSource is RoquetSource
    with pytest.raises(AttributeError, match="Other"):
        _ = pyspark_roquet.Other
