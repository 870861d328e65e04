"""A store on a simulated disk, for the tests beside this file: small files, a seed, crashes on demand."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from roquet.model.message import Draft, Host, java_hash
from roquet.model.status import Appended, GetStatus, PutStatus
from roquet.sim.world import World
from roquet.store.format import record
from roquet.store.logscan import LogScan
from roquet.store.segments import Segments
from roquet.store.settings import StoreSettings
from roquet.store.store import Store

Result = TypeVar("Result")

ROOT = "/store"
BORN = Host(bytes([127, 0, 0, 1]), 50_000)
HERE = Host(bytes([127, 0, 0, 2]), 10_911)

SMALL = StoreSettings(
    ROOT,
    log_file_size_bytes=16 * 1024,
    queue_file_size_bytes=50 * 20,
    index_slot_count=101,
    index_entry_count=1_000,
    message_size_bytes_max=8 * 1024,
    transfer_count_in_memory_max=1_000,
    transfer_bytes_in_memory_max=1 << 20,
)


def draft(
    body: bytes = b"hello",
    topic: str = "orders",
    queue_id: int = 0,
    tag: str = "",
    key: str = "",
    extra: bytes = b"",
) -> Draft:
    """Return a draft whose tag code and keys follow from its properties."""
    properties = (
        (f"TAGS\x01{tag}\x02".encode() if tag else b"")
        + (f"UNIQ_KEY\x01{key}\x02".encode() if key else b"")
        + extra
    )
    return Draft(
        topic, queue_id, body, properties, 0, 0, 1_000, BORN,
        tag_code=java_hash(tag) if tag else 0, keys=(key,) if key else (),
    )  # fmt: skip


class StoreBench:
    """One simulated machine with one store on it, opened and broken as the test likes."""

    draft = staticmethod(draft)

    def __init__(self, seed: int = 0, settings: StoreSettings = SMALL) -> None:
        self.world = World(seed)
        self.disk = self.world.disk("broker")
        self.clock = self.world.clock("broker")
        self.settings = settings

    def change(self, **values: Any) -> None:
        """Change the settings of the next store that is opened."""
        self.settings = replace(self.settings, **values)

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        return self.world.run(main)

    def store(self) -> Store:
        """Return an open store, with the periodic work not yet started."""
        store = Store(self.disk, self.clock, self.settings, HERE, self.world.loop.call_soon, 4711)
        store.open()
        return store

    async def append(self, store: Store, *drafts: Draft) -> Appended:
        """Append one batch and wait for its answer."""
        answer = self.world.loop.create_future()
        store.append(drafts, answer.set_result)
        result: Appended = await answer
        return result

    async def fill(self, store: Store, count: int, **of_draft: Any) -> list[Appended]:
        """Append `count` messages with the bodies `0`, `1`, …, one after the other; all must be stored."""
        answers = [await self.append(store, draft(b"%d" % number, **of_draft)) for number in range(count)]
        assert {answer.status for answer in answers} <= {PutStatus.PUT_OK}
        return answers

    async def bodies(self, store: Store, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
        """Read a whole queue, check that offsets are dense, and return the bodies."""
        found: list[bytes] = []
        offset = store.min_offset(topic, queue_id)
        while True:
            got = await store.read(topic, queue_id, offset, 32, 1 << 20)
            if got.status is not GetStatus.FOUND:
                assert got.status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE), got
                return found
            for data in got.records:
                opened = record.decode(data)
                assert (opened.topic, opened.queue_id, opened.queue_offset) == (topic, queue_id, offset)
                found.append(opened.body)
                offset += 1
            assert offset == got.next_offset

    async def check_queues_equal_log(self, store: Store) -> None:
        """Compare every queue with what a reading of the whole log says it must hold."""
        segments = Segments(self.disk, self.settings.log_dir, self.settings.log_file_size_bytes)
        segments.load()
        wanted: dict[tuple[str, int], list[tuple[int, int, int, int]]] = {}
        scan = LogScan(segments, self.settings)
        for entries in scan.records(segments.min_offset, store.log_max_offset):
            for entry in entries:
                if not entry.sys_flag & 4:
                    wanted.setdefault((entry.topic, entry.queue_id), []).append(
                        (entry.queue_offset, entry.log_offset, entry.size_bytes, entry.tag_code)
                    )
        assert scan.end_offset == store.log_max_offset or segments.is_empty
        found: dict[tuple[str, int], list[tuple[int, int, int, int]]] = {}
        for topic in store.topics():
            for queue_id in store.queues_of(topic):
                low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
                entries_found = await store.queue_entries(topic, queue_id, low, high - low)
                assert len(entries_found) == high - low
                if entries_found:
                    found[topic, queue_id] = [
                        (low + number, *entry) for number, entry in enumerate(entries_found)
                    ]
        assert found == wanted


@pytest.fixture(scope="session")
def bench_type() -> type[StoreBench]:
    """The class itself: a test makes as many machines as it wants."""
    return StoreBench


@pytest.fixture
def bench() -> StoreBench:
    """One machine with seed 0."""
    return StoreBench()
