"""Makes small store directories with Apache's broker and writes down what they must hold.

    python -m tests.golden.capture.stores --home DIR [--into tests/golden]
`clean`    ended by SIGTERM: several log, queue and index files, all kinds of messages
`crashed`  the same messages, ended by SIGKILL: `abort` is there, checkpoint and config lag behind
`unusual`  three runs on one store: hosts in IPv4 and IPv6, and a topic long enough for the V2 record
Each is `store/<name>.tar.xz` with `store/<name>.expected.json`: `acknowledged` is what the send answers said,
`readable` every message that the broker itself gave back from every queue before it ended.
"""

import argparse
import hashlib
import json
import shutil
import tarfile
import zlib
from pathlib import Path
from struct import pack
from typing import Any

import lz4.frame
import zstandard

from tests.golden.capture.album import RELEASE, write_manifest
from tests.golden.capture.broker_cases import GROUP, PRODUCERS, now_ms, properties, until
from tests.golden.capture.names_cases import compact
from tests.golden.capture.raw import Exchange, Wire
from tests.golden.capture.records import split
from tests.golden.capture.servers import SMALL_FILES, STOP_TIMEOUT_S, start_broker, start_names

NAMES_PORT, BROKER_PORT = 19876, 20911
MANY = 230  # entries of one queue: two whole queue files and a part of a third
LEFT_OUT = ("timerwheel", "timerlog", "rocksdbstore", "lock")
# Apache writes the V2 record for topics above 127 characters; only a pop retry topic can be that long.
LONG_TOPIC, LONG_GROUP = "T" * 100, "g" * 100


class Writer:
    """Sends messages and remembers what was acknowledged."""

    def __init__(self, broker: str) -> None:
        self.wire = Wire(broker)
        self.acknowledged: list[dict[str, Any]] = []
        self._number = 0

    def send(
        self, topic: str, queue_id: int, body: bytes, sys_flag: int = 0, text: str | None = None
    ) -> Exchange:
        """Send one message; raise unless the broker acknowledges it."""
        self._number += 1
        fields = {"a": PRODUCERS, "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": sys_flag}
        fields |= {"g": now_ms(), "h": self._number, "i": properties(self._number) if text is None else text}
        fields |= {"j": 0, "k": False, "m": False}
        return self._acknowledge(self.wire.ask(310, fields, body), topic, [body])

    def send_batch(self, topic: str, queue_id: int, bodies: list[bytes]) -> None:
        """Send several messages in one request."""
        members = b""
        for body in bodies:
            self._number += 1
            text = properties(self._number).encode()
            rest = pack(">iiii", 0, 0, self._number, len(body)) + body + pack(">h", len(text)) + text
            members += pack(">i", 4 + len(rest)) + rest
        fields = {"a": PRODUCERS, "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": now_ms()}
        fields |= {"h": 0, "i": "WAIT\1true\2", "j": 0, "k": False, "m": True}
        self._acknowledge(self.wire.ask(320, fields, members), topic, bodies)

    def _acknowledge(self, taken: Exchange, topic: str, bodies: list[bytes]) -> Exchange:
        header = taken.header
        if header.code != 0:
            raise RuntimeError(f"the broker refused a message to {topic}: {header}")
        for step, (message_id, body) in enumerate(
            zip(header.fields["msgId"].split(","), bodies, strict=True)
        ):
            self.acknowledged.append(
                {
                    "topic": topic,
                    "queue_id": int(header.fields["queueId"]),
                    "queue_offset": int(header.fields["queueOffset"]) + step,
                    "msg_id": message_id,
                    "log_offset": int(message_id[-16:], 16),
                    "body_sha256": hashlib.sha256(body).hexdigest(),
                }
            )
        return taken


def write_everything(writer: Writer) -> None:
    """Send every kind of message, enough of them to roll log, queue and index files over."""
    for number in range(MANY):
        writer.send("Plain", 0, f"plain {number} ".encode() * (1 + number % 40))
    for number in range(20):
        tag = ("TagA", "TagB", "标签")[number % 3]
        text = properties(1000 + number, tag, colour="grün", 名="值", empty_looking=" ")
        writer.send("Tagged", number % 4, f"tagged {number}".encode(), text=text)
    writer.send("Tagged", 0, "body in UTF-8: grüße, 漢字, 🚀".encode())
    writer.send("Bare", 0, b"no properties at all", text="")
    writer.send("Bare", 0, b"\x00\xff" * 50, text="KEYS\1no-trailing-separator")
    plain = b"compress me " * 500
    packed = {0x001: zlib.compress(plain), 0x301: zlib.compress(plain), 0x101: lz4.frame.compress(plain)}
    packed[0x201] = zstandard.compress(plain)
    for sys_flag, body in packed.items():
        writer.send("Compressed", 1, body, sys_flag)
    for start in (0, 5):
        writer.send_batch("Batch", 2, [f"batch {number}".encode() for number in range(start, start + 5)])
    writer.send("Delayed", 0, b"parked for two hours", text=properties(2000, DELAY="18"))
    _transactions(writer)
    writer.send("Large", 3, bytes(range(256)) * 120)


def _transactions(writer: Writer) -> None:
    """Leave one half message open, commit one and roll one back."""
    for number, decision in ((3000, 0), (3001, 8), (3002, 12)):
        text = properties(number, TRAN_MSG="true", PGROUP=PRODUCERS)
        taken = writer.send("Transacted", 1, f"half, decision {decision}".encode(), 4, text)
        fields = taken.header.fields
        end: dict[str, Any] = {
            "producerGroup": PRODUCERS,
            "topic": "Transacted",
            "tranStateTableOffset": fields["queueOffset"],
        }
        end |= {"commitLogOffset": int(fields["msgId"][-16:], 16), "commitOrRollback": decision}
        end |= {"fromTransactionCheck": False, "msgId": fields["transactionId"]}
        if decision and writer.wire.ask(37, end).header.code != 0:
            raise RuntimeError("the broker refused to end a transaction")
    # The broker notes the ended halves in another topic, a few seconds later.
    ended = {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "queueId": 0}
    until(lambda: writer.wire.ask(30, ended), lambda one: one.header.fields["offset"] != "0")


def read_everything(wire: Wire) -> list[dict[str, Any]]:
    """Pull every queue of every topic to its end, once the dispatcher has caught up."""
    until(lambda: wire.ask(28), lambda taken: b'"dispatchBehindBytes":"0"' in taken.body)
    readable: list[dict[str, Any]] = []
    topics = json.loads(wire.ask(21).body)["topicConfigTable"]
    for topic in sorted(topics):
        for queue_id in range(topics[topic]["readQueueNums"]):
            readable += _read_queue(wire, topic, queue_id)
    return readable


def _read_queue(wire: Wire, topic: str, queue_id: int) -> list[dict[str, Any]]:
    queue = {"topic": topic, "queueId": queue_id}
    end = int(wire.ask(30, queue).header.fields["offset"])
    records: list[dict[str, Any]] = []
    while len(records) < end:
        pull = {"consumerGroup": "golden_reader", **queue, "queueOffset": len(records), "maxMsgNums": 32}
        pull |= {
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
        }
        taken = wire.ask(11, pull)
        if taken.header.code != 0:
            raise RuntimeError(f"{topic} {queue_id} ends at {len(records)} of {end}: {taken.header}")
        records += split(taken.body)
    return records


def _groups(wire: Wire) -> None:
    """Leave something in the tables of groups and offsets."""
    wire.ask(200, None, compact({"groupName": GROUP, "retryMaxTimes": 5, "consumeMessageOrderly": True}))
    for topic, queue_id, queue_offset in (("Plain", 0, 100), ("Tagged", 0, 3), ("Tagged", 3, 1)):
        where = {"consumerGroup": GROUP, "topic": topic, "queueId": queue_id}
        wire.ask(15, {**where, "commitOffset": queue_offset})


def make_main(home: Path, crash: bool) -> dict[str, Any]:
    """Write, read back and end; returns what the store must hold."""
    broker = start_broker(home, f"127.0.0.1:{NAMES_PORT}", BROKER_PORT, SMALL_FILES)
    try:
        writer = Writer(f"127.0.0.1:{BROKER_PORT}")
        write_everything(writer)
        _groups(writer.wire)
        readable = read_everything(writer.wire)
        writer.wire.close()
        if not crash:
            broker.stop(STOP_TIMEOUT_S)
    finally:
        broker.kill()
    return {"acknowledged": writer.acknowledged, "readable": readable}


def make_unusual(home: Path) -> dict[str, Any]:
    """Run three times with other addresses on the same store; the last run reads everything back."""
    acknowledged: list[dict[str, Any]] = []
    readable: list[dict[str, Any]] = []
    for host, advertised in (("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::1", "127.0.0.1")):
        settings = {**SMALL_FILES, "brokerIP1": advertised, "brokerIP2": advertised}
        broker = start_broker(home, f"127.0.0.1:{NAMES_PORT}", BROKER_PORT, settings, host)
        try:
            writer = Writer(f"{host}:{BROKER_PORT}")
            for number in range(3):
                writer.send("Hosts", 0, f"born on {host}, stored on {advertised}, {number}".encode())
            writer.send_batch("Hosts", 1, [f"batch on {host}".encode(), b"and another"])
            if not acknowledged:
                writer.send(LONG_TOPIC, 0, b"taken, never acknowledged")
                _let_pop_expire(writer.wire)
            acknowledged += writer.acknowledged
            readable = read_everything(writer.wire)
            writer.wire.close()
            broker.stop(STOP_TIMEOUT_S)
        finally:
            broker.kill()
    return {"acknowledged": acknowledged, "readable": readable}


def _let_pop_expire(wire: Wire) -> None:
    """Take a message for a second and leave it: the broker stores it again under a very long topic name."""
    retry = {"topic": f"%RETRY%{LONG_GROUP}_{LONG_TOPIC}", "queueId": 0}
    before = wire.ask(30, retry).header.fields["offset"]
    until(
        lambda: wire.ask(30, {"topic": LONG_TOPIC, "queueId": 0}),
        lambda one: one.header.fields["offset"] != "0",
    )
    pop = {"consumerGroup": LONG_GROUP, "topic": LONG_TOPIC, "queueId": 0, "maxMsgNums": 1, "pollTime": 0}
    pop |= {"invisibleTime": 1000, "bornTime": now_ms(), "initMode": 0, "order": False}
    taken = until(lambda: wire.ask(200050, pop), lambda one: one.header.code == 0)
    assert split(taken.body)
    until(lambda: wire.ask(30, retry), lambda one: one.header.fields["offset"] != before)


def pack_store(name: str, store: Path, expected: dict[str, Any], into: Path) -> dict[str, Any]:
    """Write the archive and its expectation; returns the manifest's row."""
    into.mkdir(parents=True, exist_ok=True)
    archive, listing = into / f"{name}.tar.xz", into / f"{name}.expected.json"
    kept = sorted(path for path in store.rglob("*") if path.relative_to(store).parts[0] not in LEFT_OUT)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in kept:
            tar.add(path, f"{name}/{path.relative_to(store)}", recursive=False, filter=_anonymous)
    expected = {"release": RELEASE, "settings": SMALL_FILES, **expected}
    listing.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    return {
        "name": name,
        "files": {str(path.relative_to(store)): path.stat().st_size for path in kept if path.is_file()},
        "left_out": [part for part in LEFT_OUT if (store / part).exists()],
        "messages_acknowledged": len(expected["acknowledged"]),
        "messages_readable": len(expected["readable"]),
        "archive_sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "expected_sha256": hashlib.sha256(listing.read_bytes()).hexdigest(),
    }


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, required=True, help="folder for the servers; emptied first")
    parser.add_argument("--into", type=Path, default=Path(__file__).resolve().parents[1])
    options = parser.parse_args()
    shutil.rmtree(options.home, ignore_errors=True)
    makers = {
        "clean": lambda home: make_main(home, crash=False),
        "crashed": lambda home: make_main(home, crash=True),
        "unusual": make_unusual,
    }
    names = start_names(options.home / "namesrv", NAMES_PORT)
    rows = []
    try:
        for name, make in makers.items():
            expected = make(options.home / name)
            rows.append(pack_store(name, options.home / name / "store", expected, options.into / "store"))
    finally:
        names.stop(STOP_TIMEOUT_S)
    write_manifest(options.into / "manifest.json", "stores", rows)
    for row in rows:
        print(row["name"], row["messages_acknowledged"], row["messages_readable"], len(row["files"]))


if __name__ == "__main__":
    main()
