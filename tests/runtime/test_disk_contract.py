"""What every Disk promises, on the real one and on the simulated one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from roquet.ports import Disk
from roquet.runtime.disk import OsDisk
from roquet.sim.disk import SimDisk


class Place(NamedTuple):
    disk: Disk
    root: str


@pytest.fixture(params=["os", "sim"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sim":
        sim = SimDisk(random.Random(1))
        sim.make_dirs("/root")
        yield Place(sim, "/root")
    else:
        disk = OsDisk()
        yield Place(disk, str(tmp_path))
        disk.close()


def test_a_new_file_has_its_length_and_reads_as_zeros(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", 420_000_040)
    assert file.size_bytes == 420_000_040
    assert disk.stat(f"{root}/a").size_bytes == 420_000_040
    assert file.read_now(400_000_000, 6) == bytes(6)
    assert disk.usage(root).used_bytes < disk.usage(root).total_bytes
    file.close()


def test_without_a_size_a_missing_file_is_an_error(place: Place) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")


def test_an_existing_file_keeps_its_length(place: Place) -> None:
    disk, root = place
    disk.open(f"{root}/a", 100).close()
    assert disk.open(f"{root}/a", 7).size_bytes == 100


def test_what_is_written_is_read_in_all_three_ways(place: Place) -> None:
    disk, root = place

    async def scenario() -> None:
        file = disk.open(f"{root}/a", 10_000)
        file.write_at(4090, b"across pages")
        file.write_at(4094, bytearray(b"SS"))
        file.write_at(4096, memoryview(b"__"))
        assert file.read_now(4090, 12) == b"acroSS__ages"
        assert await file.read(4090, 12) == b"acroSS__ages"
        assert file.try_read(4090, 12) in (b"acroSS__ages", None)
        await file.sync()
        file.sync_now()
        await file.reserve(0, 10_000)
        assert file.read_now(4090, 12) == b"acroSS__ages"
        file.close()

    asyncio.run(scenario())


def test_reads_stop_at_the_end(place: Place) -> None:
    disk, root = place

    async def scenario() -> None:
        file = disk.open(f"{root}/a", 10)
        file.write_at(0, b"0123456789")
        assert file.read_now(8, 100) == b"89"
        assert await file.read(8, 100) == b"89"
        assert file.try_read(8, 100) in (b"89", None)
        assert file.try_read(10, 1) == b""
        assert file.read_now(11, 1) == b""

    asyncio.run(scenario())


def test_several_places_come_in_one_piece_or_not_at_all(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", 10)
    file.write_at(0, b"0123456789")
    assert file.try_read_many([(7, 2), (0, 1), (3, 3)]) in (b"780345", None)
    assert file.try_read_many([(0, 1), (8, 3)]) is None
    file.close()


def test_writing_beyond_the_end_is_our_own_mistake(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", 10)
    with pytest.raises(AssertionError):
        file.write_at(8, b"123")


def test_a_closed_file_cannot_be_used_and_closes_again_quietly(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", 10)
    file.close()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write_at(0, b"x")
    with pytest.raises(ValueError, match="closed"):
        file.read_now(0, 1)


def test_two_handles_see_the_same_bytes(place: Place) -> None:
    disk, root = place
    one, two = disk.open(f"{root}/a", 10), disk.open(f"{root}/a")
    one.write_at(3, b"abc")
    assert two.read_now(3, 3) == b"abc"


def test_small_files_are_written_whole(place: Place) -> None:
    disk, root = place
    disk.write_file(f"{root}/a", b"long text " * 1000)
    disk.write_file(f"{root}/a", b"short")
    assert disk.read_file(f"{root}/a") == b"short"
    disk.write_file(f"{root}/a", b"")
    assert disk.read_file(f"{root}/a") == b""
    with pytest.raises(FileNotFoundError):
        disk.read_file(f"{root}/b")


def test_rename_replaces(place: Place) -> None:
    disk, root = place
    disk.write_file(f"{root}/a", b"new")
    disk.write_file(f"{root}/b", b"old")
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.read_file(f"{root}/b") == b"new"
    assert not disk.exists(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/b")


def test_a_listing_is_sorted_and_an_absent_folder_is_empty(place: Place) -> None:
    disk, root = place
    assert disk.list_dir(f"{root}/none") == []
    disk.make_dirs(f"{root}/x/y")
    disk.make_dirs(f"{root}/x/y")
    disk.write_file(f"{root}/x/b", b"12")
    disk.write_file(f"{root}/x/a", b"1")
    assert [(e.name, e.is_dir) for e in disk.list_dir(f"{root}/x")] == [
        ("a", False),
        ("b", False),
        ("y", True),
    ]
    assert [e.size_bytes for e in disk.list_dir(f"{root}/x")][:2] == [1, 2]
    assert disk.stat(f"{root}/x").is_dir
    disk.sync_dir(f"{root}/x")


def test_removal(place: Place) -> None:
    disk, root = place
    disk.make_dirs(f"{root}/x/y")
    disk.write_file(f"{root}/x/y/a", b"1")
    disk.write_file(f"{root}/b", b"1")
    disk.remove(f"{root}/b")
    assert not disk.exists(f"{root}/b")
    with pytest.raises(FileNotFoundError):
        disk.remove(f"{root}/b")
    disk.remove_tree(f"{root}/x")
    disk.remove_tree(f"{root}/x")
    assert not disk.exists(f"{root}/x")
    with pytest.raises(FileNotFoundError):
        disk.stat(f"{root}/x")


def test_a_removed_file_stays_readable_through_its_handle(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", 10)
    file.write_at(0, b"0123456789")
    disk.remove(f"{root}/a")
    assert file.read_now(0, 10) == b"0123456789"


def test_usage_works_for_a_folder_that_does_not_exist_yet(place: Place) -> None:
    disk, root = place
    usage = disk.usage(f"{root}/not/yet")
    assert 0 <= usage.used_bytes <= usage.total_bytes and usage.free_bytes >= 0


def test_a_lock_excludes_a_second_one_until_released(place: Place) -> None:
    disk, root = place
    lock = disk.lock(f"{root}/lock")
    assert disk.stat(f"{root}/lock").size_bytes == 4
    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/lock")
    lock.release()
    lock.release()
    disk.lock(f"{root}/lock").release()
    assert disk.read_file(f"{root}/lock") == b"lock"


def test_closing_while_reads_are_under_way_is_safe(place: Place) -> None:
    disk, root = place

    async def scenario() -> None:
        file = disk.open(f"{root}/a", 1 << 20)
        file.write_at(0, b"first")
        reads = [asyncio.ensure_future(file.read(0, 1 << 20)) for _ in range(20)]
        cancelled = asyncio.ensure_future(file.read(0, 5))
        await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        file.close()
        # The descriptor must not have been given to somebody else while a thread still reads from it.
        others = [disk.open(f"{root}/other{n}", 1 << 20) for n in range(8)]
        for data in await asyncio.gather(*reads):
            assert data[:5] == b"first"
        for other in others:
            other.close()

    asyncio.run(scenario())
