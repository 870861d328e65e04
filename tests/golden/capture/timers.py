"""Makes a small store with timed messages by Apache's broker and writes down what waits in it.

    python -m tests.golden.capture.timers --home DIR [--into tests/golden]
The broker is killed (-9) some seconds after the last message. `timer/killed.tar.xz` is its store with the
wheel, `timer/killed.expected.json` the messages that still wait, by what the send answers said, and those
that were delivered. Timer log files of 1,000 bytes hold 18 units: the chains run over several files.
"""

import argparse
import base64
import hashlib
import json
import shutil
import tarfile
import time
from pathlib import Path
from typing import Any

from tests.golden.capture.album import RELEASE, write_manifest
from tests.golden.capture.broker_cases import PRODUCERS, now_ms, properties
from tests.golden.capture.raw import Wire
from tests.golden.capture.servers import SMALL_FILES, start_broker, start_names
from tests.golden.capture.stores import BROKER_PORT, NAMES_PORT

SETTINGS = {**SMALL_FILES, "mappedFileSizeTimerLog": "1000", "recallMessageEnable": "true"}
TOPICS = ("Timed", "Other")
LEFT_OUT = ("rocksdbstore", "lock", "index")
DELIVERED, WAITING = 3, 40
HOUR_S, DAYS_S = 3_600, 216_000
SETTLE_S = 4.0


def send(wire: Wire, number: int, **time_property: str) -> dict[str, Any]:
    """Send one message; return what the answer says of it."""
    topic, body = TOPICS[number % 2], f"timed {number}"
    fields = {"a": PRODUCERS, "b": topic, "c": "TBW102", "d": 4, "e": number % 4, "f": 0, "g": now_ms()}
    fields |= {"h": number, "i": properties(number, **time_property), "j": 0, "k": False, "m": False}
    header = wire.ask(310, fields, body.encode()).header
    if header.code != 0:
        raise RuntimeError(f"the broker refused message {number}: {header}")
    handle = header.fields["recallHandle"]
    words = base64.urlsafe_b64decode(handle).decode().split()
    assert words[:3] == ["v1", topic, "broker-a"]
    return {
        "topic": topic,
        "queue_id": number % 4,
        "out_ms": int(words[3]) - 1,
        "unique_key": words[4],
        "body": body,
        "recall_handle": handle,
    }


def fill(wire: Wire) -> dict[str, Any]:
    """Let the broker deliver some, keep some for an hour and one for days, and take one back."""
    delivered = [send(wire, number, TIMER_DELAY_MS="2000") for number in range(DELIVERED)]
    time.sleep(SETTLE_S)
    waiting = [send(wire, 100 + n, TIMER_DELAY_SEC=str(HOUR_S + n % 3)) for n in range(WAITING)]
    on_the_second = str((now_ms() // 1000 + HOUR_S) * 1000)
    waiting.append(send(wire, 200, TIMER_DELIVER_MS=on_the_second))
    waiting.append(send(wire, 201, TIMER_DELAY_SEC=str(DAYS_S)))
    recalled = send(wire, 202, TIMER_DELAY_SEC=str(HOUR_S))
    ask = {"producerGroup": PRODUCERS, "topic": recalled["topic"], "recallHandle": recalled["recall_handle"]}
    if wire.ask(370, ask).header.code != 0:
        raise RuntimeError("the broker refused to recall a message")
    time.sleep(SETTLE_S)
    return {"delivered": delivered, "waiting": waiting, "recalled": recalled, "killed_ms": now_ms()}


def pack(store: Path, expected: dict[str, Any], into: Path) -> dict[str, Any]:
    """Write the archive and its expectation; return the manifest's row."""
    into.mkdir(parents=True, exist_ok=True)
    archive, listing = into / "killed.tar.xz", into / "killed.expected.json"
    kept = sorted(path for path in store.rglob("*") if path.relative_to(store).parts[0] not in LEFT_OUT)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in kept:
            tar.add(path, f"killed/{path.relative_to(store)}", recursive=False, filter=_anonymous)
    expected = {"release": RELEASE, "settings": SETTINGS, **expected}
    listing.write_text(json.dumps(expected, indent=1) + "\n")
    return {
        "name": "killed",
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
    try:
        broker = start_broker(options.home, f"127.0.0.1:{NAMES_PORT}", BROKER_PORT, SETTINGS)
        try:
            wire = Wire(f"127.0.0.1:{BROKER_PORT}")
            expected = fill(wire)
            wire.close()
        finally:
            broker.kill()
    finally:
        names.kill()
    row = pack(options.home / "store", expected, options.into / "timer")
    write_manifest(options.into / "manifest.json", "timers", [row])
    print(row["name"], len(expected["waiting"]), len(row["files"]))


if __name__ == "__main__":
    main()
