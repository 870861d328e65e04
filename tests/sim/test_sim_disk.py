"""The simulated disk loses what a power cut may lose, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.sim.disk import PowerCut, SimDisk, SimFile, cut_short

SEEDS = range(40)


def disk_with_file(seed: int) -> SimDisk:
    disk = SimDisk(random.Random(seed))
    disk.make_dirs("/store")
    file = disk.open("/store/a", 40_000)
    file.write_at(0, b"A" * 40_000)
    file.sync_now()
    disk.sync_dir("/store")
    return disk


def test_what_was_synced_survives() -> None:
    for seed in SEEDS:
        disk = disk_with_file(seed)
        disk.crash()
        assert disk.read_file("/store/a") == b"A" * 40_000


def test_unsynced_pages_are_lost_kept_or_torn() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = disk_with_file(seed)
        disk.open("/store/a").write_at(0, b"B" * 8192)
        disk.crash()
        data = disk.read_file("/store/a")
        assert data[8192:] == b"A" * (40_000 - 8192)
        first, second = data[:4096], data[4096:8192]
        assert set(first) in ({65}, {66})
        outcomes.add("torn" if len(set(second)) == 2 else second[:1].decode())
    assert outcomes == {"A", "B", "torn"}


def test_killing_the_process_keeps_all_that_was_written() -> None:
    disk = disk_with_file(1)
    file = disk.open("/store/a")
    lock = disk.lock("/store/lock")
    file.write_at(0, b"B")
    disk.kill()
    with pytest.raises(ValueError, match="closed"):
        file.write_at(0, b"C")
    assert disk.read_file("/store/a")[:2] == b"BA"
    again = disk.lock("/store/lock")
    lock.release()
    with pytest.raises(BlockingIOError):
        disk.lock("/store/lock")
    again.release()


def test_unsynced_names_may_be_lost_last_first() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with_file(seed)
        disk.write_file("/store/b", b"b")
        disk.write_file("/store/c", b"c")
        disk.remove("/store/a")
        disk.crash()
        seen.add("".join(entry.name for entry in disk.list_dir("/store")))
    assert seen == {"a", "ab", "abc", "bc"}


def test_a_new_file_without_sync_may_come_back_empty() -> None:
    sizes = set()
    for seed in SEEDS:
        disk = disk_with_file(seed)
        disk.open("/store/new", 100)
        disk.sync_dir("/store")
        disk.crash()
        sizes.add(disk.stat("/store/new").size_bytes)
    assert sizes == {0, 100}


def test_rename_is_all_or_nothing() -> None:
    for seed in SEEDS:
        for change in range(3):
            disk = disk_with_file(seed)
            disk.write_file("/store/b", b"b")
            disk.sync_dir("/store")
            with cut_short(disk, change):
                disk.rename("/store/b", "/store/a")
            names = [entry.name for entry in disk.list_dir("/store")]
            assert names in (["a"], ["a", "b"])
            assert disk.read_file("/store/a") == (b"b" if names == ["a"] else b"A" * 40_000)


def test_a_full_disk_writes_what_fits() -> None:
    disk = SimDisk(random.Random(1), capacity_bytes=3 * 4096)
    file = disk.open("/a", 1 << 20)
    with pytest.raises(OSError) as raised:
        file.write_at(0, b"x" * 5 * 4096)
    assert raised.value.errno == errno.ENOSPC
    assert disk.usage("/").free_bytes == 0
    file.write_at(0, b"y")  # the space is there already
    disk.remove("/a")
    assert disk.usage("/").free_bytes == 3 * 4096


def test_reserving_takes_space_once() -> None:
    disk = SimDisk(random.Random(1), capacity_bytes=4 * 4096)
    file = disk.open("/a", 1 << 20)
    asyncio.run(file.reserve(0, 3 * 4096))
    file.write_at(0, b"x" * 3 * 4096)
    assert disk.usage("/").used_bytes == 3 * 4096
    with pytest.raises(OSError):
        asyncio.run(file.reserve(0, 5 * 4096))


def test_after_a_failed_sync_the_pages_are_doomed() -> None:
    disk = disk_with_file(1)
    file = disk.open("/store/a")
    file.write_at(0, b"B")
    disk.fail("sync", "/store/a", times=1)
    with pytest.raises(OSError):
        file.sync_now()
    file.sync_now()
    assert file.read_now(0, 1) == b"B"
    disk.crash()
    assert disk.read_file("/store/a")[:1] == b"A"


def test_faults_by_kind_and_path() -> None:
    disk = disk_with_file(1)
    disk.fail("write", "/store/a", errno.EIO)
    file = disk.open("/store/a")
    with pytest.raises(OSError):
        file.write_at(0, b"B")
    disk.write_file("/store/b", b"fine")
    disk.heal()
    file.write_at(0, b"B")
    disk.read_only = True
    for call in (
        lambda: file.write_at(0, b"C"),
        lambda: disk.open("/store/new", 1),
        lambda: disk.remove("/store/a"),
        lambda: disk.rename("/store/a", "/store/c"),
    ):
        with pytest.raises(OSError) as raised:
            call()
        assert raised.value.errno == errno.EROFS


def test_a_flipped_bit() -> None:
    disk = disk_with_file(1)
    disk.flip("/store/a", 5000, 1)
    assert disk.read_file("/store/a")[4999:5002] == b"ACA"


def test_cold_reads_happen_as_often_as_asked() -> None:
    disk = disk_with_file(1)
    file = disk.open("/store/a")
    disk.cold_probability = 0.5
    answers = [file.try_read(0, 1) for _ in range(100)]
    assert None in answers and b"A" in answers


def test_cut_at_raises_before_the_change() -> None:
    disk = disk_with_file(1)
    disk.cut_at(1)
    file = disk.open("/store/a")
    with pytest.raises(PowerCut):
        file.write_at(0, b"B" * 8192)
    assert disk.read_file("/store/a")[4095:4097] == b"BA"


class Meanwhile:
    """A clock on which something happens while somebody waits."""

    def __init__(self) -> None:
        self.action: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return 5

    def monotonic(self) -> float:
        return 0.0

    async def sleep_until(self, when: float) -> None:
        self.action()

    def call_at(self, when: float, callback: object, *args: object) -> asyncio.TimerHandle:
        raise NotImplementedError


def slow_disk(seed: int) -> tuple[SimDisk, Meanwhile, SimFile]:
    clock = Meanwhile()
    disk = SimDisk(random.Random(seed), clock)
    disk.make_dirs("/store")
    file = disk.open("/store/a", 100)
    file.sync_now()
    disk.sync_dir("/store")
    disk.sync_delay_s = disk.read_delay_s = 1.0
    file.write_at(0, b"early")
    return disk, clock, file


def test_a_slow_sync_covers_only_what_was_written_before_it() -> None:
    seen = set()
    for seed in SEEDS:
        disk, clock, file = slow_disk(seed)
        clock.action = lambda file=file: file.write_at(0, b"later")  # type: ignore[misc]
        asyncio.run(file.sync())
        disk.crash()
        seen.add(disk.read_file("/store/a")[:5])
        assert disk.stat("/store/a").modified_ms == 5
    assert seen == {b"early", b"later"}


def test_a_file_that_is_closed_during_a_sync_is_synced() -> None:
    for seed in SEEDS:
        disk, clock, file = slow_disk(seed)
        clock.action = file.close
        asyncio.run(file.sync())
        disk.crash()
        assert disk.read_file("/store/a")[:5] == b"early"


def test_a_sync_or_read_that_a_crash_overtakes_does_not_succeed() -> None:
    for call in ("sync", "read"):
        disk, clock, file = slow_disk(1)
        clock.action = disk.crash
        with pytest.raises(OSError, match="died"):
            asyncio.run(file.sync() if call == "sync" else file.read(0, 5))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=6000)), max_size=12))
def test_reads_agree_with_a_plain_bytearray(writes: list[tuple[int, bytes]]) -> None:
    disk = SimDisk(random.Random(0))
    file = disk.open("/a", 30_000)
    twin = bytearray(30_000)
    for position, data in writes:
        file.write_at(position, data)
        twin[position : position + len(data)] = data
    assert file.read_now(0, 30_000) == twin
    assert file.read_now(4000, 5000) == twin[4000:9000]
