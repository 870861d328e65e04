"""Stores that an Apache 5.5.0 broker wrote: they open here, and everything in them comes out."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from roquet.model.message import Draft, Host
from roquet.model.status import GetStatus, PutStatus
from roquet.store.format import record
from roquet.store.format.queue_entry import QueueEntry
from roquet.store.logscan import LogScan
from roquet.store.segments import Segments
from roquet.store.store import Store

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench

FOLDER = Path(__file__).parents[1] / "golden" / "store"
NAMES = sorted(path.name.removesuffix(".expected.json") for path in FOLDER.glob("*.expected.json"))

Entries = dict[tuple[str, int], list[QueueEntry]]


class Message(msgspec.Struct):
    """A message that Apache's broker acknowledged or gave out."""

    topic: str
    queue_id: int
    queue_offset: int
    msg_id: str
    log_offset: int
    body_sha256: str


class Expected(msgspec.Struct):
    """What the capture wrote down beside the files.

    A delayed message was acknowledged under its own topic and lies in the delay topic, so
    `acknowledged` is found by place and `readable`, what Apache's own client read, by queue.
    """

    settings: dict[str, str]
    acknowledged: list[Message]
    readable: list[Message]


def test_the_golden_stores_are_there() -> None:
    assert {"clean", "crashed"} <= set(NAMES)


def unpack(bench: StoreBench, name: str) -> Expected:
    """Put a captured store on the simulated disk, and choose the settings that it was written with."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        for member in archive:
            path = "/store/" + member.name.partition("/")[2]
            if member.isfile():
                bench.disk.make_dirs(path.rpartition("/")[0])
                content = archive.extractfile(member)
                assert content is not None
                bench.disk.write_file(path, content.read())
    expected = msgspec.json.decode((FOLDER / f"{name}.expected.json").read_bytes(), type=Expected)
    bench.change(
        log_file_size_bytes=int(expected.settings["mappedFileSizeCommitLog"]),
        queue_file_size_bytes=int(expected.settings["mappedFileSizeConsumeQueue"]),
        index_slot_count=int(expected.settings["maxHashSlotNum"]),
        index_entry_count=int(expected.settings["maxIndexNum"]),
    )
    return expected


async def all_entries(store: Store) -> Entries:
    found: Entries = {}
    for topic in store.topics():
        for queue_id in store.queues_of(topic):
            high = store.max_offset(topic, queue_id)
            found[topic, queue_id] = await store.queue_entries(topic, queue_id, 0, high)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_acknowledged_message_comes_out(bench: StoreBench, name: str) -> None:
    expected = unpack(bench, name)

    async def main() -> None:
        store = bench.store()
        for message in expected.acknowledged:
            data = await store.record_at(message.log_offset)
            assert data is not None, message
            assert hashlib.sha256(record.decode(data).body).hexdigest() == message.body_sha256
        for message in expected.readable:
            got = await store.read(message.topic, message.queue_id, message.queue_offset, 1, 1 << 20)
            assert got.status is GetStatus.FOUND, message
            opened = record.decode(got.records[0])
            assert opened.log_offset == message.log_offset
            assert hashlib.sha256(opened.body).hexdigest() == message.body_sha256
            host = opened.store_host
            place = host.ip + host.port.to_bytes(4, "big") + opened.log_offset.to_bytes(8, "big")
            assert place.hex().upper() == message.msg_id
            assert await store.record_at(message.log_offset) == got.records[0]
        await bench.check_queues_equal_log(store)
        answer = await bench.append(store, bench.draft(topic="New"))
        assert answer.status is PutStatus.PUT_OK
        await store.close()
        again = bench.store()
        assert again.max_offset("New", 0) == 1

    bench.run(main())


@pytest.mark.parametrize("name", NAMES)
def test_rebuilt_queues_are_byte_for_byte_what_apache_wrote(bench: StoreBench, name: str) -> None:
    unpack(bench, name)
    files = {
        f"{topic.name}/{queue.name}/{file.name}": bench.disk.read_file(
            f"/store/consumequeue/{topic.name}/{queue.name}/{file.name}"
        )
        for topic in bench.disk.list_dir("/store/consumequeue")
        for queue in bench.disk.list_dir(f"/store/consumequeue/{topic.name}")
        for file in bench.disk.list_dir(f"/store/consumequeue/{topic.name}/{queue.name}")
    }

    async def main() -> None:
        bench.disk.remove_tree("/store/consumequeue")
        store = bench.store()
        await store.close()

    bench.run(main())
    for path, wanted in files.items():
        assert bench.disk.read_file(f"/store/consumequeue/{path}") == wanted, path


@pytest.mark.parametrize("name", NAMES)
def test_every_record_encodes_to_the_same_bytes(bench: StoreBench, name: str) -> None:
    unpack(bench, name)
    segments = Segments(bench.disk, bench.settings.log_dir, bench.settings.log_file_size_bytes)
    segments.load()
    count = 0
    for entries in LogScan(segments, bench.settings).records(segments.min_offset):
        for entry in entries:
            data = segments.read_now(entry.log_offset, entry.size_bytes)
            opened = record.decode(data)
            draft = Draft(
                opened.topic, opened.queue_id, opened.body, opened.properties, opened.flag, opened.sys_flag,
                opened.born_ms, opened.born_host, opened.reconsume_times, opened.prepared_log_offset,
            )  # fmt: skip
            host = Host(*opened.store_host)
            assert record.encode(draft, opened.queue_offset, entry.log_offset, opened.store_ms, host) == data
            count += 1
    assert count > 10


@pytest.mark.parametrize("name", NAMES)
def test_the_index_of_apache_finds_its_keys(bench: StoreBench, name: str) -> None:
    unpack(bench, name)

    async def main() -> None:
        store = bench.store()
        segments = Segments(bench.disk, bench.settings.log_dir, bench.settings.log_file_size_bytes)
        segments.load()
        for entries in LogScan(segments, bench.settings).records(segments.min_offset, store.log_max_offset):
            for entry in entries:
                for key in entry.keys:
                    found = await store.query(entry.topic, key, 64, entry.store_ms - 1_000, entry.store_ms)
                    data = segments.read_now(entry.log_offset, entry.size_bytes)
                    is_found = data in found.records or len(found.records) == 64
                    assert is_found, (entry.topic, key, entry.log_offset)

    bench.run(main())
