"""The cluster that a whole test file is pointed at: Roquet, or Apache's own servers for comparison.

`ROQUET_TEST_TARGET=apache` runs the same tests against a real Apache RocketMQ 5.5.0: what passes there is
what Apache does, and that is how an expectation is found right or wrong.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.peers import apache, roquet
from tests.peers.ports import free_broker_port

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


class KillableCluster:
    """A chosen cluster whose broker can be killed (-9) and started again, on its port and its store.

    `settings` are keys of broker.conf; the name server stays. Use as a context manager.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.target = chosen_target()
        self._folder = folder
        self._settings = {"brokerName": "broker-a", **settings}
        self._names = (
            apache.start_namesrv(folder / "namesrv")
            if self.target == "apache"
            else roquet.start_namesrv(folder / "namesrv")
        )
        self.namesrv = _address(self._names)
        self._port = free_broker_port()
        self.broker = f"127.0.0.1:{self._port}"
        self._node = self._start()

    def _start(self) -> apache.ApacheNode | roquet.RoquetNode:
        if self.target == "apache":
            home = self._folder / "broker"
            return apache.start_broker(home, self.namesrv, self._port, settings=self._settings)
        return roquet.start_broker(self._folder / "store", self.namesrv, self._port, self._settings)

    def crash(self) -> None:
        """Kill the broker and start it again."""
        self._node.kill()
        self._node = self._start()

    def __enter__(self) -> "KillableCluster":
        return self

    def __exit__(self, *_exception: object) -> None:
        self._node.kill()
        self._names.kill()


def _address(node: apache.ApacheNode | roquet.RoquetNode) -> str:
    return node.address if isinstance(node, apache.ApacheNode) else node.namesrv
