"""Messages of Apache's Java producer, of every kind and compression: rows with equal bytes.

What the rows must say is what a Java consumer of the same topic says. `ROQUET_TEST_TARGET=apache` runs it
against Apache's broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.cluster import Cluster, running_cluster
from tests.peers.jars import CLIENT_VERSIONS
from tests.peers.java import JavaClient, fresh_name
from tests.spark.shop import Shop, as_java, wait_for

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("kinds")) as running:
        yield running


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_kinds_arrive_with_equal_bytes(cluster: Cluster, version: str, tmp_path: Path) -> None:
    name = fresh_name(f"kinds-{version}")
    topic, group = f"T-{name}", f"G-{name}"
    with JavaClient(version, tmp_path / "client") as client, Shop(cluster.namesrv) as shop:

        def java(step: str, **arguments: int) -> dict[str, Any]:
            return client.run(f"mix-{step}", cluster.namesrv, topic=topic, group=group, **arguments)

        java("open", queues=4)
        try:
            marks = set(java("kinds")["marks"])
            java("join")
            wait_for(lambda: set(java("state")["seen"]) == marks, "the Java consumer has them all")
            seen = java("state")["seen"]
        finally:
            java("close")
        rows = shop.read(subscribe=topic).to_pylist()
    assert len(rows) == len(marks)
    assert as_java(rows) == seen
