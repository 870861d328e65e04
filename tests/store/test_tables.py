"""JSON tables: at every moment one of both files is whole."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.sim.disk import SimDisk, cut_short
from roquet.store.tables import DAMAGED_COPIES_MAX, Table

PATH = "/store/config/topics.json"


def new_disk(seed: int = 1) -> SimDisk:
    disk = SimDisk(random.Random(seed))
    disk.make_dirs("/store")
    return disk


def version(number: int) -> dict[object, object]:
    return {"counter": number, "table": dict.fromkeys(range(300), number)}


def names(disk: SimDisk) -> list[str]:
    return [entry.name for entry in disk.list_dir("/store/config")]


def test_nothing_was_saved() -> None:
    assert Table(new_disk(), PATH).load() is None


def test_what_is_saved_is_loaded() -> None:
    disk = new_disk()
    table = Table(disk, PATH)
    table.save(version(1))
    assert Table(disk, PATH).load() == version(1)
    table.save(version(2))
    assert Table(disk, PATH).load() == version(2)
    assert names(disk) == ["topics.json", "topics.json.bak"]


def test_the_bytes_are_those_of_5_5_0() -> None:
    disk = new_disk()
    Table(disk, PATH).save({"offsetTable": {"t@g": {0: 2}}, "dataVersion": None})
    assert disk.read_file(PATH) == b'{\n\t"offsetTable":{\n\t\t"t@g":{\n\t\t\t0:2\n\t\t}\n\t}\n}'


@pytest.mark.parametrize("damage", ["half", "empty", "zeros", "list", "gone"])
def test_a_damaged_file_comes_back_from_its_predecessor(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = new_disk()
    table = Table(disk, PATH)
    table.save(version(1))
    table.save(version(2))
    whole = disk.read_file(PATH)
    contents = {"half": whole[: len(whole) // 2], "empty": b"", "zeros": bytes(len(whole)), "list": b"[]"}
    if damage == "gone":
        disk.remove(PATH)
    else:
        disk.write_file(PATH, contents[damage])
    assert table.load() == version(1)
    assert PATH in caplog.text and ".bak instead" in caplog.text
    # The damaged one must not become the next `.bak`.
    table.save(version(3))
    disk.remove(PATH)
    assert table.load() == version(1)


def test_when_both_are_broken_they_are_kept_aside(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    table = Table(disk, PATH)
    table.save(version(1))
    disk.write_file(PATH, b"{half")
    disk.write_file(f"{PATH}.bak", b"{other half")
    assert table.load() is None
    assert "no whole copy" in caplog.text and f"{PATH}.damaged" in caplog.text
    assert disk.read_file(f"{PATH}.damaged") == b"{half"
    assert disk.read_file(f"{PATH}.bak.damaged") == b"{other half"
    assert table.load() is None


def test_copies_of_damaged_files_are_bounded() -> None:
    disk = new_disk()
    table = Table(disk, PATH)
    table.save(version(1))
    for number in range(DAMAGED_COPIES_MAX + 5):
        disk.write_file(PATH, f"{{broken {number}".encode())
        assert table.load() is None
    assert len(names(disk)) == DAMAGED_COPIES_MAX
    assert disk.read_file(f"{PATH}.damaged") == b"{broken 0"


def test_a_refused_save_keeps_the_old_table() -> None:
    disk = new_disk()
    table = Table(disk, PATH)
    table.save(version(1))
    disk.capacity_bytes = disk.usage("/").used_bytes
    with pytest.raises(OSError) as raised:
        table.save(version(2))
    assert raised.value.errno == errno.ENOSPC
    assert table.load() == version(1)
    disk.capacity_bytes *= 100
    table.save(version(2))
    assert table.load() == version(2)


def test_an_unreadable_disk_is_not_an_empty_table() -> None:
    disk = new_disk()
    table = Table(disk, PATH)
    table.save(version(1))
    disk.fail("read", PATH)
    with pytest.raises(OSError):
        table.load()


def steps_of_a_save(saves_before: int) -> int:
    """Count the changes that one save makes to the disk."""
    for change in range(100):
        disk = new_disk()
        table = Table(disk, PATH)
        for number in range(saves_before):
            table.save(version(number))
        done = False
        with cut_short(disk, change):
            table.save(version(99))
            done = True
        if done:
            return change
    raise AssertionError("a save that never ends")


@pytest.mark.parametrize("saves_before", [0, 1, 2])
def test_a_power_cut_at_every_step_leaves_the_old_or_the_new_table(saves_before: int) -> None:
    steps = steps_of_a_save(saves_before)
    assert steps >= 6
    for change in range(steps + 1):
        for seed in range(25):
            disk = new_disk(seed)
            table = Table(disk, PATH)
            for number in range(saves_before):
                table.save(version(number))
            done = False
            with cut_short(disk, change):
                table.save(version(99))
                done = True
            loaded = Table(disk, PATH).load()
            old = version(saves_before - 1) if saves_before else None
            assert loaded == version(99) if done else loaded in (old, version(99))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 14), min_size=1, max_size=8), st.integers(0, 1 << 30))
def test_many_power_cuts_in_a_row_never_lose_a_finished_save(changes: list[int], seed: int) -> None:
    disk = new_disk(seed)
    possible: list[dict[object, object] | None] = [None]
    for number, change in enumerate(changes):
        value = version(number)
        done = False
        with cut_short(disk, change):
            Table(disk, PATH).save(value)
            done = True
        loaded = Table(disk, PATH).load()
        assert loaded == value if done else loaded in [*possible, value]
        possible = [loaded]
