"""A store as a crash leaves it: one full log file of small records, its queues and its index.

The log is written directly, record by record from one template, since sending three million messages would
take minutes; Roquet then builds queues and index from it and is killed. The result is kept under
`.cache/bench`, and each measurement gets a copy: Apache's broker and ours open the same files. The records
are what Apache's benchmark producer leaves: topic BenchmarkTest, spread over its 1024 queues, 128 bytes of
body, a unique key. Layout: `roquet.store.format.record`.
"""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench import probe, servers
from bench.clients import CONSUMER_GROUP
from bench.kinds import BODY_BYTES
from bench.servers import LOG_FILE_SIZE_BYTES, Target
from roquet.model.message import Draft, Host
from roquet.store.format.record import BLANK_SIZE_BYTES_MIN, blank, encode
from tests.peers.jars import ROOT

CACHE = ROOT / ".cache" / "bench"
RECIPE = 1
"""Goes up when the store is made in another way, so that an old one is not taken."""
QUEUES = 1024
CHUNK_RECORDS = 16_384
RECORDS_PER_MS = 50
REBUILD_TIMEOUT_S = 600.0
CHECKPOINT_TIMEOUT_S = 90.0

_QUEUE_ID_AT = 12
_QUEUE_ID_TO_LOG_OFFSET = struct.Struct(">iiqq")  # queue, flag, queue offset, log offset
_STORE_MS_AT = 56
_LOOPBACK = Host(bytes((127, 0, 0, 1)), 10911)
_NUMBER = "0" * 16


class OldStore(NamedTuple):
    """Where it lies, and how many records its log has."""

    folder: Path
    records: int

    def in_queue(self, queue_id: int) -> int:
        """Return how many records a queue has: they were dealt out in turn."""
        return (self.records - queue_id + QUEUES - 1) // QUEUES


def prepared() -> OldStore:
    """Return the store, making it when there is none of this recipe."""
    folder = CACHE / f"store-{RECIPE}"
    note = folder / "bench.json"
    if not note.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob("store-*"):
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(dir=CACHE) as place:
            store = _make(Path(place))
            store.folder.rename(folder)
    return OldStore(folder, int(json.loads(note.read_text())["records"]))


def copy_whole(store: OldStore, target: Path) -> None:
    """Copy the store and put the copy on the disk, so that nobody is measured while it is written back."""
    # copytree would write the holes of sparse files; cp is quick where the file system can share blocks.
    argv = ["cp", "-r", "--reflink=auto", "--sparse=always", str(store.folder), str(target)]
    subprocess.run(argv, check=True, timeout=600)
    for file in target.rglob("*"):
        if file.is_file() and file.stat().st_blocks:
            _sync(file)


def copy_log(store: OldStore, target: Path) -> None:
    """Copy the store without its queues and its index."""
    copy_whole(store, target)
    shutil.rmtree(target / "consumequeue")
    shutil.rmtree(target / "index")


def write_log(file: Path, size_bytes: int) -> int:
    """Write one full log file that begins at 0 and return how many records it has."""
    template, key_at = _template()
    size = len(template)
    count = (size_bytes - BLANK_SIZE_BYTES_MIN) // size
    store_ms = time.time_ns() // 1_000_000 - count // RECORDS_PER_MS - 1_000
    chunk = bytearray(template * CHUNK_RECORDS)
    with file.open("wb") as log:
        for first in range(0, count, CHUNK_RECORDS):
            records = min(CHUNK_RECORDS, count - first)
            for number in range(first, first + records):
                at = (number - first) * size
                place = (number % QUEUES, 0, number // QUEUES, number * size)
                _QUEUE_ID_TO_LOG_OFFSET.pack_into(chunk, at + _QUEUE_ID_AT, *place)
                struct.pack_into(">q", chunk, at + _STORE_MS_AT, store_ms + number // RECORDS_PER_MS)
                chunk[at + key_at : at + key_at + len(_NUMBER)] = b"%016X" % number
            log.write(memoryview(chunk)[: records * size])
        log.write(blank(size_bytes - count * size))
        log.truncate(size_bytes)
    return count


def _template() -> tuple[bytes, int]:
    """Return the bytes of a record, and where in them the number in its unique key stands."""
    properties = (
        "MSG_REGION\x01DefaultRegion\x02UNIQ_KEY\x017F00000100002A13" + _NUMBER + "\x02"
        "WAIT\x01true\x02TRACE_ON\x01true\x02"
    )
    draft = Draft(
        topic=probe.TOPIC,
        queue_id=0,
        body=b"x" * BODY_BYTES,
        properties=properties.encode(),
        flag=0,
        sys_flag=0,
        born_ms=time.time_ns() // 1_000_000,
        born_host=_LOOPBACK,
    )
    record = encode(draft, 0, 0, 0, _LOOPBACK)
    return record, record.index(_NUMBER.encode(), len(record) - len(properties))


def _make(place: Path) -> OldStore:
    """Write the log, let Roquet build the rest, and kill it."""
    store = place / "store"
    (store / "commitlog").mkdir(parents=True)
    (store / "config").mkdir()
    records = write_log(store / "commitlog" / f"{0:020}", LOG_FILE_SIZE_BYTES)
    made = OldStore(store, records)
    (store / "abort").write_text("1")
    # Without offsets a group begins where the broker thinks fit, which depends on the machine's memory.
    offsets = {f"{probe.TOPIC}@{CONSUMER_GROUP}": dict.fromkeys(map(str, range(QUEUES)), 0)}
    (store / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    names = servers.start_names(Target.ROQUET, place / "names")
    try:
        broker = servers.launch_broker(Target.ROQUET, place / "broker", store, names.address)
        try:
            last = QUEUES - 1
            probe.wait_for_queue(
                broker.process, broker.address, last, made.in_queue(last) - 1, REBUILD_TIMEOUT_S
            )
            checkpoint = store / "checkpoint"
            broker.process.wait_until(checkpoint.exists, "a checkpoint", CHECKPOINT_TIMEOUT_S)
        finally:
            broker.process.kill()
    finally:
        names.process.kill()
    (store / "bench.json").write_text(json.dumps({"records": records}))
    return made


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
