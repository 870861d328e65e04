"""The checkpoint file."""

from __future__ import annotations

import asyncio
import random

import pytest

from roquet.sim.disk import SimDisk, cut_short
from roquet.store.checkpoint import Checkpoint
from roquet.store.format.checkpoint import CheckpointPage, decode_checkpoint, encode_checkpoint

PATH = "/store/checkpoint"


def new_disk(seed: int = 1) -> SimDisk:
    disk = SimDisk(random.Random(seed))
    disk.make_dirs("/store")
    return disk


def test_layout() -> None:
    page = CheckpointPage(1, 2, 3, 4, 5, 6)
    assert encode_checkpoint(page).hex() == "".join(f"{n:016x}" for n in (1, 2, 3, 4, 5, 6))
    assert decode_checkpoint(encode_checkpoint(page) + bytes(4048)) == page
    assert decode_checkpoint(encode_checkpoint(page)[:40]) == page._replace(queues_log_offset=0)
    assert decode_checkpoint(b"") == CheckpointPage()


def test_an_absent_file_is_zeros_and_is_created_by_flush() -> None:
    disk = new_disk()
    point = Checkpoint(disk, PATH)
    point.load()
    assert point.page == CheckpointPage() and point.min_ms == 0
    assert not disk.exists(PATH)
    point.log_ms, point.queues_ms, point.queues_log_offset = 10_000, 9_000, 77
    asyncio.run(point.flush())
    assert disk.stat(PATH).size_bytes == 4096
    point.close()
    again = Checkpoint(disk, PATH)
    again.load()
    assert again.page == CheckpointPage(10_000, 9_000, 0, 0, 0, 77)
    assert again.min_ms == 6_000


def test_min_is_never_negative() -> None:
    point = Checkpoint(new_disk(), PATH)
    point.log_ms, point.queues_ms = 10_000, 2_999
    assert point.min_ms == 0


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"\xff" * 4096])
def test_a_short_or_senseless_file_is_zeros_and_mended(content: bytes) -> None:
    disk = new_disk()
    disk.write_file(PATH, content)
    point = Checkpoint(disk, PATH)
    point.load()
    assert point.page == CheckpointPage()
    point.log_ms = 5
    point.flush_now()
    assert disk.stat(PATH).size_bytes == 4096
    again = Checkpoint(disk, PATH)
    again.load()
    assert again.page == CheckpointPage(5)


def test_a_power_cut_leaves_the_old_or_the_new_numbers() -> None:
    for seed in range(20):
        for change in range(6):
            disk = new_disk(seed)
            point = Checkpoint(disk, PATH)
            point.log_ms = point.queues_ms = 1
            point.flush_now()
            point.log_ms = point.queues_ms = 2
            with cut_short(disk, change):
                point.flush_now()
            again = Checkpoint(disk, PATH)
            again.load()
            assert again.page in (CheckpointPage(1, 1), CheckpointPage(2, 2))
