"""kill -9 under sixteen writers, again and again on one store: what was acknowledged is there afterwards.

A killed process leaves the page cache to the system, so this proves recovery and not flushing, in both flush
modes; flushing has test_sync_trace and tests/broker/test_proof. The files are small, so that a few rounds go
through many of them: log files of 1 MiB, queue files of 100 entries, index files of 1,000.
"""

import asyncio
import hashlib
import random
from pathlib import Path
from typing import NamedTuple

import pytest

from roquet.client import Plain, connect
from tests.peers import roquet
from tests.peers.ports import free_broker_port, free_port

pytestmark = pytest.mark.process

ROUNDS = 20
WRITING_S = 120.0
WRITERS = 16
CONNECTIONS = 4
QUEUES = 4
TOPIC = "killed"
SMALL_FILES = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": str(100 * 20),
    "maxHashSlotNum": "100",
    "maxIndexNum": "1000",
}


class Place(NamedTuple):
    queue_id: int
    queue_offset: int


class Stored(NamedTuple):
    """What the broker said of a message, and what a read must show again."""

    msg_id: str
    body_sha256: bytes


class Ledger:
    """What was sent and what was acknowledged, over all rounds."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tried: set[bytes] = set()
        self.acknowledged: dict[Place, Stored] = {}

    def new_body(self) -> bytes:
        """Return a body that no other message has, and remember that it is under way."""
        body = b"%d " % len(self.tried) + self.rng.randbytes(self.rng.choice((10, 100, 1_000, 10_000)))
        self.tried.add(hashlib.sha256(body).digest())
        return body


async def write(client: Plain, ledger: Ledger, queue_id: int, enough: int, reached: asyncio.Event) -> None:
    """Send until the broker is gone; `reached` is set when `enough` messages are acknowledged."""
    while True:
        body = ledger.new_body()
        try:
            sent = await client.send(TOPIC, body, queue_id=queue_id, keys=f"k{len(ledger.tried) % 50}")
        except OSError:
            return
        place = Place(sent.queue_id, sent.queue_offset)
        assert place not in ledger.acknowledged, f"{place} was given out twice"
        ledger.acknowledged[place] = Stored(sent.msg_id, hashlib.sha256(body).digest())
        if len(ledger.acknowledged) >= enough:
            reached.set()


async def write_until_killed(node: roquet.RoquetNode, ledger: Ledger) -> None:
    """Let sixteen writers work and kill the broker in their midst."""
    reached = asyncio.Event()
    enough = len(ledger.acknowledged) + ledger.rng.randrange(50, 400)
    clients = [connect(node.namesrv) for _ in range(CONNECTIONS)]
    writers = [
        asyncio.create_task(write(clients[number % CONNECTIONS], ledger, number % QUEUES, enough, reached))
        for number in range(WRITERS)
    ]
    watch = asyncio.create_task(reached.wait())
    await asyncio.wait([watch, *writers], timeout=WRITING_S, return_when=asyncio.FIRST_COMPLETED)
    assert reached.is_set(), f"the writers stopped early\n{node.process.tail()}"
    node.kill()
    await asyncio.gather(*writers)
    for client in clients:
        client.close()


async def check(namesrv: str, ledger: Ledger) -> int:
    """Read everything and compare it with the ledger; return how many messages there are."""
    found: dict[Place, Stored] = {}
    async with connect(namesrv) as client:
        for queue_id in range(QUEUES):
            next_offset = 0
            while messages := await client.read(TOPIC, queue_id, next_offset):
                for message in messages:
                    assert (message.queue_id, message.queue_offset) == (queue_id, next_offset), "not dense"
                    stored = Stored(f"{message.log_offset:016X}", hashlib.sha256(message.body).digest())
                    found[Place(queue_id, next_offset)] = stored
                    next_offset += 1
    for place, (msg_id, body_sha256) in ledger.acknowledged.items():
        assert place in found, f"{place} was acknowledged and is gone"
        assert msg_id.endswith(found[place].msg_id), f"{place} lies elsewhere now"
        assert found[place].body_sha256 == body_sha256, f"{place} has changed"
    bodies = [stored.body_sha256 for stored in found.values()]
    assert len(set(bodies)) == len(bodies), "a message was stored twice"
    assert set(bodies) <= ledger.tried, "a message has changed, or nobody sent it"
    return len(found)


@pytest.mark.parametrize("flush_mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_every_acknowledged_message_survives_a_kill(tmp_path: Path, flush_mode: str) -> None:
    ledger = Ledger(seed=20)
    names_port, broker_port = free_port(), free_broker_port()

    def start() -> roquet.RoquetNode:
        settings = {**SMALL_FILES, "flushDiskType": flush_mode}
        return roquet.start_up(tmp_path / "store", names_port, broker_port, settings)

    node = start()
    try:
        for _ in range(ROUNDS):
            asyncio.run(write_until_killed(node, ledger))
            node = start()
            assert "unclean stop" in node.process.text()
            count = asyncio.run(check(node.namesrv, ledger))
        node.stop()
        node = start()
        assert "clean stop" in node.process.text() and "unclean" not in node.process.text()
        assert asyncio.run(check(node.namesrv, ledger)) == count
    finally:
        node.kill()
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) > 5
    assert len(list((tmp_path / "store" / "consumequeue" / TOPIC / "0").iterdir())) > 5


def test_the_check_finds_what_is_missing(tmp_path: Path) -> None:
    ledger = Ledger(seed=1)
    node = roquet.start_up(tmp_path / "store")
    try:

        async def main() -> None:
            async with connect(node.namesrv) as client:
                body = ledger.new_body()
                sent = await client.send(TOPIC, body, queue_id=1)
                stored = Stored(sent.msg_id, hashlib.sha256(body).digest())
                ledger.acknowledged[Place(1, 0)] = stored
                await check(node.namesrv, ledger)
                for place, wrong in (
                    (Place(1, 1), stored),
                    (Place(1, 0), stored._replace(msg_id=sent.msg_id[:-1] + "F")),
                    (Place(1, 0), stored._replace(body_sha256=b"")),
                ):
                    with pytest.raises(AssertionError):
                        ledger.acknowledged = {place: wrong}
                        await check(node.namesrv, ledger)

        asyncio.run(main())
    finally:
        node.kill()
