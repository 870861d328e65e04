"""Makes small stores with extension files of the queues by Apache's broker.

    python -m tests.golden.capture.extensions --home DIR [--into tests/golden]
Two groups select by properties, and the broker notes for each message whose selector it matches.
`extension/stopped.tar.xz` is its store after a SIGTERM; then it is started on it again, gets more messages
and is killed (-9): `extension/killed.tar.xz`. Beside each lies what the broker answered to pulls of the
groups and to QUERY_CONSUME_QUEUE. Extension files of 1,000 bytes hold about 25 units: they roll over.
"""

import argparse
import hashlib
import json
import shutil
import tarfile
import time
from pathlib import Path
from typing import Any

from tests.golden.capture.album import RELEASE, write_manifest
from tests.golden.capture.broker_cases import CLIENT, PRODUCERS, now_ms, properties, until
from tests.golden.capture.raw import Wire
from tests.golden.capture.records import split
from tests.golden.capture.servers import SMALL_FILES, start_broker, start_names
from tests.golden.capture.stores import BROKER_PORT, NAMES_PORT

SETTINGS = {
    **SMALL_FILES,
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": "1000",
}
TOPIC, PLAIN = "Selected", "Plain"
SELECTORS = {"golden_red": "color = 'red'", "golden_many": "count BETWEEN 20 AND 60 OR tail IS NOT NULL"}
COLORS = ("red", "green", "blue")
VERSION = 1_700_000_000_000
LEFT_OUT = ("rocksdbstore", "lock", "index", "timerwheel", "timerlog")
SETTLE_S = 12.0
"""Long enough for consumerFilter.json to be written, which is done every ten seconds."""


def send(wire: Wire, topic: str, number: int) -> None:
    """Send a message with a colour and a number."""
    more = {"color": COLORS[number % 3], "count": str(number)}
    fields = {"a": PRODUCERS, "b": topic, "c": "TBW102", "d": 4, "e": number % 2, "f": 0, "g": now_ms()}
    fields |= {
        "h": number,
        "i": properties(number, f"Tag{number % 4}", **more),
        "j": 0,
        "k": False,
        "m": False,
    }
    header = wire.ask(310, fields, b"body %d" % number).header
    if header.code != 0:
        raise RuntimeError(f"the broker refused message {number}: {header}")


def join(wire: Wire) -> None:
    """Join the two groups."""
    groups = [
        {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": group,
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [
                {
                    "classFilterMode": False,
                    "codeSet": [],
                    "expressionType": "SQL92",
                    "subString": selector,
                    "subVersion": VERSION,
                    "tagsSet": [],
                    "topic": TOPIC,
                }
            ],
            "unitMode": False,
        }
        for group, selector in SELECTORS.items()
    ]
    beat = {"clientID": CLIENT, "consumerDataSet": groups, "heartbeatFingerprint": 0}
    beat |= {"producerDataSet": [], "withoutSub": False}
    if wire.ask(34, {}, json.dumps(beat).encode()).header.code != 0:
        raise RuntimeError("the broker refused the groups")


def fill(wire: Wire, first: int) -> None:
    """Send before the groups are there and after."""
    for number in range(first, first + 10):
        send(wire, TOPIC, number)
    join(wire)
    time.sleep(0.1)
    for number in range(first + 10, first + 80):
        send(wire, TOPIC, number)
        if number % 10 == 0:
            send(wire, PLAIN, number)


def look(wire: Wire, count: int) -> dict[str, Any]:
    """Return what the broker gives the groups, and how it shows the queue to each."""
    queue = {"topic": TOPIC, "queueId": 0}
    until(lambda: wire.ask(30, queue), lambda taken: int(taken.header.fields["offset"]) == count // 2)
    pulled: dict[str, list[int]] = {}
    shown: dict[str, Any] = {}
    for group in SELECTORS:
        pulled[group] = []
        at, end = 0, count // 2
        while at < end:
            ask = {"consumerGroup": group, **queue, "queueOffset": at, "maxMsgNums": 32, "sysFlag": 0}
            ask |= {
                "commitOffset": 0,
                "suspendTimeoutMillis": 0,
                "subVersion": VERSION,
                "expressionType": "SQL92",
            }
            taken = wire.ask(11, ask)
            pulled[group] += (
                [one["queue_offset"] for one in split(taken.body)] if taken.header.code == 0 else []
            )
            at = int(taken.header.fields["nextBeginOffset"])
        show = wire.ask(321, {**queue, "index": 0, "count": 100, "consumerGroup": group})
        shown[group] = json.loads(show.body)
    return {"pulled": pulled, "shown": shown}


def pack(name: str, store: Path, expected: dict[str, Any], into: Path) -> dict[str, Any]:
    """Write an archive and its expectation; return the manifest's row."""
    into.mkdir(parents=True, exist_ok=True)
    archive, listing = into / f"{name}.tar.xz", into / f"{name}.expected.json"
    kept = sorted(path for path in store.rglob("*") if path.relative_to(store).parts[0] not in LEFT_OUT)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in kept:
            tar.add(path, f"{name}/{path.relative_to(store)}", recursive=False, filter=_anonymous)
    expected = {"release": RELEASE, "settings": SETTINGS, "selectors": SELECTORS, **expected}
    listing.write_text(json.dumps(expected, indent=1) + "\n")
    return {
        "name": name,
        "files": {str(path.relative_to(store)): path.stat().st_size for path in kept if path.is_file()},
        "left_out": [part for part in LEFT_OUT if (store / part).exists()],
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
    names = start_names(options.home / "namesrv", NAMES_PORT)
    rows: list[dict[str, Any]] = []
    try:
        for name, first in (("stopped", 0), ("killed", 80)):
            broker = start_broker(options.home, f"127.0.0.1:{NAMES_PORT}", BROKER_PORT, SETTINGS)
            try:
                wire = Wire(f"127.0.0.1:{BROKER_PORT}")
                fill(wire, first)
                expected = look(wire, first + 80)
                time.sleep(SETTLE_S)
                if name == "stopped":
                    broker.stop(60.0)
            finally:
                broker.kill()
            rows.append(pack(name, options.home / "store", expected, options.into / "extension"))
    finally:
        names.kill()
    write_manifest(options.into / "manifest.json", "extensions", rows)
    print([(row["name"], len(row["files"])) for row in rows])


if __name__ == "__main__":
    main()
