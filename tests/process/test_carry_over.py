"""A store goes from Apache's broker to Roquet and back, with new messages at each stop: nothing is missing.

One way around after kill -9, the other after clean stops; the files are so small that there are several of
each kind. Also the captured stores of tests/golden: a real process opens them and gives everything out.
"""

import asyncio
import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from roquet.client import Plain, connect
from roquet.store.format import record
from roquet.wire.requests.query import ViewMessage
from tests.peers import apache, roquet
from tests.peers.jars import ROOT
from tests.peers.ports import free_broker_port
from tests.process.carried import Carried

STORES = ROOT / "tests" / "golden" / "store"
GOLDEN = sorted(path.name.removesuffix(".expected.json") for path in STORES.glob("*.expected.json"))

SMALL_FILES = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "brokerName": "broker-a",
    "diskSpaceCleanForciblyRatio": "99",
    "diskSpaceWarningLevelRatio": "99",
    # After a crash Apache deletes the index files that its checkpoint does not vouch for and files their keys
    # again from the log; without these two only from its last 10 log files on, which is 640 KiB here: a store
    # that it alone has written and reopens after kill -9 then lacks its older keys, too.
    "messageIndexSafe": "true",
    "commitLogRecoverMaxNum": "1000",
}

Node = apache.ApacheNode | roquet.RoquetNode


class Road:
    """One store, one name server, and the brokers that take turns."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self._folder = folder
        self._port = free_broker_port()
        self.names = roquet.start_namesrv(folder)
        self.carried = Carried()
        self._stops = 0

    def stop_at(self, broker: str, end: Callable[[Node], None], is_clean: bool) -> None:
        """Open the store with a broker, check all that it held before, add to it, and end the broker."""
        self._stops += 1
        if broker == "apache":
            home = self._folder / f"apache-{self._stops}"
            node: Node = apache.start_broker(home, self.names.namesrv, self._port, self.store, SMALL_FILES)
        else:
            node = roquet.start_broker(self.store, self.names.namesrv, self._port, SMALL_FILES)
        address = f"127.0.0.1:{self._port}"

        async def visit(client: Plain) -> None:
            carried = self.carried
            if carried.messages:
                await carried.check_messages(client, address)
                if is_clean:  # a crash may cost the offsets of the last seconds, as it does with Apache alone
                    await carried.check_tables(client, address)
            else:
                await carried.set_up(client, address)
            await carried.add(client, address, f"{broker}-{self._stops}")
            await carried.check_messages(client, address)
            await carried.check_tables(client, address)

        async def main() -> None:
            async with connect(self.names.namesrv) as client:
                await visit(client)

        try:
            asyncio.run(main())
            end(node)
        finally:
            node.kill()

    def files(self, kind: str) -> int:
        return len([path for path in (self.store / kind).rglob("*") if path.is_file()])


def killed(node: Node) -> None:
    node.kill()


def stopped(node: Node) -> None:
    node.stop()


@pytest.mark.java
@pytest.mark.process
@pytest.mark.parametrize("end", [killed, stopped])
def test_a_store_goes_from_apache_to_roquet_and_back(tmp_path: Path, end: Callable[[Node], None]) -> None:
    road = Road(tmp_path)
    try:
        road.stop_at("apache", end, is_clean=True)
        road.stop_at("roquet", end, is_clean=end is stopped)
        road.stop_at("apache", killed, is_clean=end is stopped)
        road.stop_at("roquet", stopped, is_clean=False)
    finally:
        road.names.kill()
    assert road.files("commitlog") > 5
    assert road.files("consumequeue") > 10
    assert road.files("index") > 2


@pytest.mark.process
@pytest.mark.parametrize("name", GOLDEN)
def test_a_captured_store_is_served(tmp_path: Path, name: str) -> None:
    expected = json.loads((STORES / f"{name}.expected.json").read_text())
    with tarfile.open(STORES / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    names = roquet.start_namesrv(tmp_path)
    node = roquet.start_broker(tmp_path / name, names.namesrv, settings=expected["settings"])

    async def main() -> None:
        async with connect(names.namesrv) as client:
            for message in expected["acknowledged"]:
                answer = await client.ask(node.broker, ViewMessage(message["log_offset"]))
                opened = record.decode(answer.body)
                assert hashlib.sha256(opened.body).hexdigest() == message["body_sha256"]
            for message in expected["readable"]:
                topic, queue_id, offset = message["topic"], message["queue_id"], message["queue_offset"]
                read, *_ = await client.read(topic, queue_id, offset)
                assert (read.queue_offset, read.log_offset) == (offset, message["log_offset"])
                assert hashlib.sha256(read.body).hexdigest() == message["body_sha256"]

    try:
        asyncio.run(main())
        node.stop()
    finally:
        node.kill()
        names.kill()
