"""What only the real disk can get wrong: modes, links, locks between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.runtime import disk as disk_module
from roquet.runtime.disk import OsDisk

CLAIM = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    except OSError:
        print("refused")
    else:
        print("taken")
"""


@pytest.fixture
def disk() -> Iterator[OsDisk]:
    disk = OsDisk()
    yield disk
    disk.close()


def test_files_and_folders_are_for_the_owner_only(disk: OsDisk, tmp_path: Path) -> None:
    disk.make_dirs(f"{tmp_path}/x/y")
    disk.open(f"{tmp_path}/x/y/a", 10).close()
    disk.write_file(f"{tmp_path}/x/y/b", b"1")
    modes = [os.stat(tmp_path / path).st_mode & 0o777 for path in ("x", "x/y", "x/y/a", "x/y/b")]
    assert modes == [0o700, 0o700, 0o600, 0o600]


def test_links_are_not_followed(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for call in (
        lambda: disk.open(f"{tmp_path}/link"),
        lambda: disk.read_file(f"{tmp_path}/link"),
        lambda: disk.write_file(f"{tmp_path}/link", b"changed"),
    ):
        with pytest.raises(OSError, match="symbolic"):
            call()
    assert (tmp_path / "target").read_bytes() == b"secret"


def test_a_link_can_be_removed_without_its_target(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    disk.remove(f"{tmp_path}/link")
    assert not disk.exists(f"{tmp_path}/link")
    assert (tmp_path / "target").read_bytes() == b"kept"


def test_the_lock_is_a_record_lock_that_other_processes_see(disk: OsDisk, tmp_path: Path) -> None:
    lock = disk.lock(f"{tmp_path}/lock")
    # A refused second claim must not open the file: closing it would drop the first claim.
    with pytest.raises(BlockingIOError):
        disk.lock(f"{tmp_path}/lock")
    claim = [sys.executable, "-c", CLAIM, f"{tmp_path}/lock"]
    assert subprocess.run(claim, capture_output=True, check=True, timeout=60).stdout == b"refused\n"
    lock.release()
    assert subprocess.run(claim, capture_output=True, check=True, timeout=60).stdout == b"taken\n"


def test_without_the_flag_every_read_goes_to_the_pool(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "_nowait_flag", 0)
    file = disk.open(f"{tmp_path}/a", 10)
    assert file.try_read(0, 4) is None
    assert file.try_read(10, 4) == b""


def test_an_unsupported_flag_is_noticed_once(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "_nowait_flag", 1 << 20)
    file = disk.open(f"{tmp_path}/a", 10)
    assert file.try_read(0, 4) is None
    monkeypatch.undo()
    assert file.try_read(0, 4) is None


def test_a_file_that_cannot_have_its_length_is_not_left_behind(disk: OsDisk, tmp_path: Path) -> None:
    with pytest.raises(OSError):
        disk.open(f"{tmp_path}/a", 1 << 62)
    assert disk.list_dir(str(tmp_path)) == []


def test_large_files_are_freed_behind_the_scenes(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "SLOW_TO_FREE_BYTES", 1)
    file = disk.open(f"{tmp_path}/a", 10)
    file.write_at(0, b"1")
    file.close()
    disk.remove(f"{tmp_path}/a")
    assert disk.list_dir(str(tmp_path)) == []
