"""Equal-size files as one address space: loading rules, growth, sync, removal."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.sim.disk import SimDisk
from roquet.store.segments import FILES_PER_ENSURE_MAX, OpenFiles, Segments, StoreDamaged

SIZE = 1000
FOLDER = "/store/log"


def empty(seed: int = 1) -> tuple[SimDisk, Segments]:
    disk = SimDisk(random.Random(seed))
    disk.make_dirs("/store")
    return disk, Segments(disk, FOLDER, SIZE)


def name(start: int) -> str:
    return f"{FOLDER}/{start:020d}"


def test_an_absent_folder_is_empty() -> None:
    disk, log = empty()
    log.load()
    assert log.is_empty and log.starts == [] and log.min_offset == log.end_capacity == 0
    assert log.try_read(0, 10) == b"" and log.read_now(5, 1) == b""
    assert not disk.exists(FOLDER)


def test_the_first_file_begins_where_it_is_needed_and_the_rest_follows_without_gaps() -> None:
    disk, log = empty()
    log.ensure(5_432)
    assert log.starts == [5_000]
    log.ensure(8_000)
    assert log.starts == [5_000, 6_000, 7_000, 8_000]
    assert (log.min_offset, log.end_capacity) == (5_000, 9_000)
    assert [entry.size_bytes for entry in disk.list_dir(FOLDER)] == [SIZE] * 4
    again = Segments(disk, FOLDER, SIZE)
    again.load()
    assert again.starts == log.starts
    with pytest.raises(AssertionError, match="removed"):
        log.ensure(4_999)


def test_a_wild_offset_does_not_fill_the_disk() -> None:
    disk, log = empty()
    log.ensure(0)
    with pytest.raises(StoreDamaged, match="behind the end"):
        log.ensure((FILES_PER_ENSURE_MAX + 2) * SIZE)
    assert log.starts == [0] and len(disk.list_dir(FOLDER)) == 1


def test_reads_end_at_the_file_and_writes_must_not_cross_it() -> None:
    _, log = empty()
    log.ensure(1_500)
    log.write(1_990, b"0123456789")
    assert log.read_now(1_995, 100) == b"56789"
    assert log.try_read(1_995, 100) == b"56789"
    assert asyncio.run(log.read(1_995, 100)) == b"56789"
    assert log.read_now(2_000, 1) == b""
    with pytest.raises(AssertionError, match="crosses"):
        log.write(1_995, b"0123456789")
    with pytest.raises(AssertionError, match="no file"):
        log.write(2_000, b"0")


def test_a_cold_read_goes_the_slow_way() -> None:
    disk, log = empty()
    log.ensure(0)
    log.write(10, b"hello")
    disk.cold_probability = 1.0
    assert log.try_read(10, 5) is None
    assert asyncio.run(log.read(10, 5)) == b"hello"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({0: 1000, 1000: 999, 2000: 1000}, "999 bytes instead of 1000"),
        ({0: 1000, 1000: 0, 2000: 1000}, "0 bytes instead of 1000"),
        ({0: 1000, 2000: 1000}, "starts at 2000"),
        ({7: 1000}, "starts at 7"),
    ],
)
def test_files_that_do_not_fit_are_named(files: dict[int, int], message: str) -> None:
    disk, log = empty()
    disk.make_dirs(FOLDER)
    for start, size in files.items():
        disk.open(name(start), size)
    with pytest.raises(StoreDamaged, match=message) as raised:
        log.load()
    assert raised.value.path.startswith(FOLDER) and raised.value.advice


@pytest.mark.parametrize("stranger", ["notes.txt", "0000000000000000100x", "1000", "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠"])
def test_a_name_that_is_no_offset_is_refused(stranger: str) -> None:
    disk, log = empty()
    log.ensure(0)
    disk.open(f"{FOLDER}/{stranger}", SIZE)
    with pytest.raises(StoreDamaged, match="name"):
        log.load()


def test_folders_inside_are_skipped() -> None:
    disk, log = empty()
    log.ensure(0)
    disk.make_dirs(f"{FOLDER}/sub")
    log.load()
    assert log.starts == [0]


def test_empty_files_at_the_end_are_deleted() -> None:
    disk, log = empty()
    log.ensure(0)
    disk.open(name(1000), 0)
    disk.open(name(2000), 0)
    log.load()
    assert log.starts == [0]
    assert [entry.name for entry in disk.list_dir(FOLDER)] == [f"{0:020d}"]


def test_nothing_but_empty_files_is_an_empty_folder() -> None:
    disk, log = empty()
    disk.make_dirs(FOLDER)
    disk.open(name(5000), 0)
    log.load()
    assert log.is_empty and log.min_offset == 0


@pytest.mark.parametrize(
    ("offset", "left"),
    [(0, []), (1000, []), (1001, [1000]), (2000, [1000]), (2001, [1000, 2000]), (9999, [1000, 2000, 3000])],
)
def test_truncation_keeps_the_files_that_hold_bytes_before_it(offset: int, left: list[int]) -> None:
    disk, log = empty()
    log.ensure(1_000)
    log.ensure(3_000)
    log.write(3_000, b"x")
    log.truncate_files_after(offset)
    assert log.starts == left
    assert [entry.name for entry in disk.list_dir(FOLDER)] == [f"{start:020d}" for start in left]
    asyncio.run(log.sync())
    log.ensure(7_000 if not left else 3_000)
    assert log.end_capacity in (8_000, 4_000)


def test_removing_the_first_file_moves_the_beginning() -> None:
    disk, log = empty()
    log.ensure(0)
    log.ensure(1_000)
    log.write(0, b"x")
    log.remove_first()
    assert log.min_offset == 1_000 and not disk.exists(name(0))
    log.sync_now()
    assert log.is_synced


def test_destroy_leaves_nothing() -> None:
    disk, log = empty()
    log.ensure(3_000)
    log.write(3_000, b"x")
    log.destroy()
    assert log.is_empty and not disk.exists(FOLDER) and log.is_synced


def test_after_a_sync_neither_bytes_nor_names_are_lost() -> None:
    for seed in range(30):
        disk = SimDisk(random.Random(seed))
        disk.make_dirs("/store")
        queue = Segments(disk, "/store/consumequeue/topic/3", SIZE)
        queue.ensure(0)
        queue.write(0, b"kept")
        asyncio.run(queue.sync())
        queue.ensure(1_000)
        queue.write(1_000, b"kept too")
        queue.sync_now()
        disk.crash()
        again = Segments(disk, queue.folder, SIZE)
        again.load()
        assert again.read_now(0, 4) == b"kept" and again.read_now(1_000, 8) == b"kept too"


def test_a_failed_sync_is_tried_again() -> None:
    disk, log = empty()
    log.ensure(1_000)
    log.write(1_000, b"x")
    disk.fail("sync", "1000", times=1)
    with pytest.raises(OSError):
        asyncio.run(log.sync())
    assert not log.is_synced
    asyncio.run(log.sync())
    assert log.is_synced


def test_a_write_during_a_sync_is_not_taken_for_synced() -> None:
    disk, log = empty()
    log.ensure(0)

    class Gate:
        def now_ms(self) -> int:
            return 0

        def monotonic(self) -> float:
            return 0.0

        async def sleep_until(self, when: float) -> None:
            log.write(5, b"late")

    disk._clock = Gate()  # type: ignore[assignment]
    disk.sync_delay_s = 1.0
    log.write(0, b"early")
    asyncio.run(log.sync())
    assert not log.is_synced


def test_reserve_covers_only_existing_files() -> None:
    disk, log = empty()
    log.ensure(1_000)
    used = disk.usage("/").used_bytes
    asyncio.run(log.reserve(500, 2_000))
    assert disk.usage("/").used_bytes == used + 4096


def test_open_files_are_bounded_and_come_back() -> None:
    disk = SimDisk(random.Random(1))
    disk.make_dirs("/store")
    shared = OpenFiles(disk, 3)
    queues = [Segments(disk, f"/store/q{n}", SIZE, shared) for n in range(10)]
    for n, queue in enumerate(queues):
        queue.ensure(0)
        queue.write(0, bytes([n]))
    assert len(shared) == 3
    assert [queue.read_now(0, 1)[0] for queue in queues] == list(range(10))
    for queue in queues:
        asyncio.run(queue.sync())
    assert all(queue.is_synced for queue in queues) and len(shared) == 3
    queues[-1].close()
    assert len(shared) == 2
    shared.close()
    assert len(shared) == 0 and queues[4].read_now(0, 1) == b"\x04"


Step = tuple[str, int, bytes]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "append", "append", "remove", "truncate", "sync", "reload", "crash"]),
            st.integers(0, 999),
            st.binary(min_size=1, max_size=300),
        ),
        max_size=40,
    ),
    st.integers(0, 1000),
)
def test_agrees_with_a_dict_of_bytes(steps: list[Step], seed: int) -> None:
    disk, log = empty(seed)
    twin: dict[int, bytes] = {}
    end = durable_end = 0
    for action, number, data in steps:
        if action == "append":
            if end % SIZE + len(data) > SIZE:
                end += SIZE - end % SIZE
            log.ensure(end)
            log.write(end, data)
            twin[end] = data
            end += len(data)
        elif action == "remove" and len(log.starts) > 1:
            log.remove_first()
        elif action == "truncate" and not log.is_empty:
            end = max(log.min_offset, end - number)
            log.truncate_files_after(end)
            durable_end = min(durable_end, end)
        elif action == "sync":
            asyncio.run(log.sync())
            durable_end = end
        elif action in ("reload", "crash"):
            asyncio.run(log.sync()) if action == "reload" else disk.crash()
            end = min(end, durable_end) if action == "crash" else end
            log = Segments(disk, FOLDER, SIZE)
            log.load()
            end = max(end, log.min_offset) if not log.is_empty else 0
            durable_end = min(end, durable_end) if action == "crash" else end
            log.truncate_files_after(end)
        twin = {at: kept for at, kept in twin.items() if log.min_offset <= at and at + len(kept) <= end}
        for at, kept in twin.items():
            assert log.read_now(at, len(kept)) == kept
