"""A real broker with its store, Apache's or ours: it runs, is killed, is started again, is stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peers import apache, roquet
from tests.spark.shop import wait_for

FILE_BYTES = 1 << 20
SETTINGS = {"mappedFileSizeCommitLog": str(FILE_BYTES), "brokerName": "broker-a"}


class RealStore:
    """One name server and one broker; `path` is the folder of its store."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._folder = folder
        self.path = folder / "broker" / "store" if kind == "apache" else folder / "store"
        self._names = self._start_names()
        self._broker = self._start_broker()

    @property
    def namesrv(self) -> str:
        names = self._names
        return names.address if isinstance(names, apache.ApacheNode) else names.namesrv

    def _start_names(self) -> apache.ApacheNode | roquet.RoquetNode:
        if self.kind == "apache":
            return apache.start_namesrv(self._folder / "namesrv")
        return roquet.start_namesrv(self._folder / "namesrv")

    def _start_broker(self) -> apache.ApacheNode | roquet.RoquetNode:
        if self.kind == "apache":
            return apache.start_broker(self._folder / "broker", self.namesrv, settings=SETTINGS)
        return roquet.start_broker(self.path, self.namesrv, settings=SETTINGS)

    def kill(self) -> None:
        """Kill the broker, as a crash does."""
        self._broker.kill()

    def start(self) -> None:
        """Start the broker again, on the same store."""
        self._broker = self._start_broker()

    def stop(self) -> None:
        """Stop the broker in order."""
        if isinstance(self._broker, roquet.RoquetNode):
            self._broker.stop()
            return
        # Apache's takes 20 s to leave, but its store is closed long before: then the file `abort` goes.
        self._broker.process.send(signal.SIGTERM)
        wait_for(lambda: not (self.path / "abort").exists(), "Apache's store is closed")
        self._broker.kill()

    def close(self) -> None:
        self._broker.kill()
        self._names.kill()


@contextmanager
def real_store(kind: str, folder: Path) -> Iterator[RealStore]:
    """Run a broker with its files in `folder` for as long as the block lasts."""
    store = RealStore(kind, folder)
    try:
        yield store
    finally:
        store.close()
