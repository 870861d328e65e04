"""Lets Spark find the format `roquet` by itself: it looks for a `DefaultSource` in modules named `pyspark_*`.

`spark.read.format("roquet")` then works without `roquet.spark.register(spark)`. The source's own module is
imported when Spark asks for it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from roquet.spark.source import RoquetSource

        return RoquetSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
