"""The cluster that a whole test file is pointed at: Roquet, or Apache's own servers for comparison.

`ROQUET_TEST_TARGET=apache` runs the same tests against a real Apache RocketMQ 5.5.0: what passes there is
what Apache does, and that is how an expectation is found right or wrong.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.peers import apache, roquet

TARGETS = ("roquet", "apache")


class Cluster(NamedTuple):
    """One name server and one broker (cluster DefaultCluster, broker name broker-a)."""

    target: str
    namesrv: str
    broker: str


def chosen_target() -> str:
    """Return `roquet` or `apache`, from the environment."""
    target = os.environ.get("ROQUET_TEST_TARGET", "roquet")
    if target not in TARGETS:
        raise ValueError(f"ROQUET_TEST_TARGET={target}: it is one of {', '.join(TARGETS)}")
    return target


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run the chosen cluster with its files in `folder` for as long as the block lasts."""
    target = chosen_target()
    if target == "roquet":
        node = roquet.start_up(folder / "store", settings={"brokerName": "broker-a"})
        try:
            yield Cluster(target, node.namesrv, node.broker)
            node.stop()
        finally:
            node.kill()
        return
    names = apache.start_namesrv(folder / "namesrv")
    try:
        broker = apache.start_broker(folder / "broker", names.address)
        try:
            yield Cluster(target, names.address, broker.address)
        finally:
            broker.kill()  # Apache's orderly stop takes about 20 s
    finally:
        names.kill()
