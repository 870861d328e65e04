"""The archive's files: visible wholly or not at all, each batch once, whoever dies in between; no Spark."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from roquet.arrow import COLUMNS, schema
from roquet.model.route import QueueName
from roquet.spark.pipelines import archive_files
from roquet.spark.pipelines.archive import small_files
from roquet.spark.pipelines.archive_delta import DeltaShelf
from roquet.spark.pipelines.archive_files import Filed, ParquetShelf, Span, batch_name, folder_of
from roquet.spark.pipelines.archive_write import FileWriter, filed, join_files, read_files, write_batches

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def rows(*places: tuple[str, int, int], day: int = 0) -> pa.RecordBatch:
    """Return messages at these topics, queues and offsets."""
    time = NOON + timedelta(days=day)
    found: list[dict[str, Any]] = [
        {
            "topic": topic, "broker": "a", "queue_id": queue_id, "queue_offset": offset,
            "body": b"%d" % offset, "tag": "t", "keys": ["k"], "properties": [("p", "v")],
            "message_id": f"{topic}{queue_id}{offset}", "born_time": time, "store_time": time,
            "born_host": "h:1", "store_host": "h:2", "reconsume_times": 0, "sys_flag": 0, "flag": 0,
            "log_offset": offset,
        }
        for topic, queue_id, offset in places
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(found, schema=schema())


def stage(shelf: ParquetShelf | DeltaShelf, name: str, *batches: pa.RecordBatch) -> list[Filed]:
    """Do what a task does."""
    (told,) = write_batches(batches, shelf.place, shelf.staging_of(name))
    return filed(told.column("file").to_pylist())


def commit(shelf: ParquetShelf, query: str, batch: int, *batches: pa.RecordBatch) -> list[Filed]:
    files = stage(shelf, batch_name(query, batch), *batches)
    time = f"{NOON + timedelta(seconds=batch):%Y-%m-%dT%H:%M:%S}"
    shelf.commit(batch_name(query, batch), files, {"query": query, "batch": batch, "time": time})
    return files


def offsets(shelf: ParquetShelf | DeltaShelf) -> list[tuple[str, int]]:
    found = read_files(shelf.live(), shelf.place, ("topic", "queue_offset"))
    return sorted((row["topic"], row["queue_offset"]) for batch in found for row in batch.to_pylist())


def seen(root: Path) -> list[str]:
    """Return what a reader sees that skips names with an underscore."""
    return sorted(str(path.relative_to(root)) for path in root.glob("topic=*/day=*/*.parquet"))


def test_a_task_writes_a_file_for_each_topic_and_day(tmp_path: Path) -> None:
    shelf = ParquetShelf(str(tmp_path))
    files = commit(shelf, "q", 0, rows(("a", 0, 5), ("%DLQ%b", 1, 9), ("a", 0, 3)), rows(("a", 2, 0), day=1))
    assert [
        (each.topic, each.day, each.rows, each.spans) for each in sorted(files, key=lambda f: f[1:3])
    ] == [
        ("%DLQ%b", "2026-11-15", 1, (Span("a", 1, 9, 10),)),
        ("a", "2026-11-15", 2, (Span("a", 0, 3, 6),)),
        ("a", "2026-11-16", 1, (Span("a", 2, 0, 1),)),
    ]
    assert seen(tmp_path) == sorted(each.path for each in files)
    assert any(path.startswith("topic=%25DLQ%25b/") for path in seen(tmp_path))
    assert shelf.ends() == {
        QueueName("a", 0, "a"): 6,
        QueueName("a", 2, "a"): 1,
        QueueName("a", 1, "%DLQ%b"): 10,
    }


def test_every_column_comes_back(tmp_path: Path) -> None:
    shelf = ParquetShelf(str(tmp_path))
    batch = rows(("a", 0, 1), ("a", 0, 2))
    commit(shelf, "q", 0, batch)
    (back,) = read_files(shelf.live(), shelf.place, COLUMNS)
    assert back.schema == schema() and back.to_pylist() == batch.to_pylist()


def test_nothing_is_visible_before_the_commit_and_all_is_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = ParquetShelf(str(tmp_path))
    files = stage(shelf, batch_name("q", 0), rows(("a", 0, 1), ("b", 0, 1)))
    assert (seen(tmp_path), shelf.live(), shelf.has("q", 0)) == ([], [], False)

    monkeypatch.setattr(ParquetShelf, "_finish", lambda *_: None)  # the driver dies at the commit point
    shelf.commit(batch_name("q", 0), files, {"time": "t", "query": "q", "batch": 0})
    monkeypatch.undo()
    assert shelf.has("q", 0) and seen(tmp_path) == []
    assert shelf.recover() == 1
    assert len(seen(tmp_path)) == 2 and not list(tmp_path.glob("_staging/*"))
    assert shelf.recover() == 0


def test_a_driver_that_died_amid_the_moves_is_finished(tmp_path: Path) -> None:
    shelf = ParquetShelf(str(tmp_path))
    files = commit(shelf, "q", 0, rows(("a", 0, 1), ("b", 0, 1)))
    # As it is half way: one file moved, the other not.
    staged = tmp_path / files[1].staged
    staged.parent.mkdir(parents=True)
    (tmp_path / files[1].path).rename(staged)
    assert shelf.recover() == 1
    assert offsets(shelf) == [("a", 1), ("b", 1)] and len(seen(tmp_path)) == 2


def test_what_a_failed_attempt_staged_is_gone_with_the_next(tmp_path: Path) -> None:
    shelf = ParquetShelf(str(tmp_path))
    stage(shelf, batch_name("q", 0), rows(("a", 0, 1)))
    commit(shelf, "q", 0, rows(("a", 0, 1)))
    assert offsets(shelf) == [("a", 1)] and len(seen(tmp_path)) == 1


def test_joined_files_take_the_place_of_their_parts(tmp_path: Path) -> None:
    shelf = ParquetShelf(str(tmp_path))
    for batch in range(5):
        commit(shelf, "q", batch, rows(("a", 0, batch), ("a", 1, batch)))
    (group,) = small_files(shelf.live(), 1 << 20)
    text = json.dumps([each._asdict() for each in group])
    told = join_files(
        [pa.RecordBatch.from_pydict({"files": [text]})], shelf.place, shelf.staging_of("compact-1")
    )
    adds = filed(line for batch in told for line in batch.column("file").to_pylist())
    shelf.commit("compact-1", adds, {"time": "2026-11-16"}, [each.path for each in group])
    assert seen(tmp_path) == [adds[0].path]
    assert offsets(shelf) == sorted(("a", offset) for offset in [*range(5)] * 2)
    assert shelf.ends() == {QueueName("a", 0, "a"): 5, QueueName("a", 1, "a"): 5}
    assert shelf.has("q", 4)


def test_a_long_manifest_is_folded_into_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_files, "FOLD_FROM", 4)
    shelf = ParquetShelf(str(tmp_path))
    for batch in range(3):
        commit(shelf, "q", batch, rows(("a", 0, batch)))
    shelf.fold("fold-1", "2026-11-16")
    assert len(list(shelf.entries())) == 3
    gone = shelf.live()[0]
    shelf.commit("compact-1", [], {"time": "2026-11-15T13"}, [gone.path])
    before = shelf.live()
    shelf.fold("fold-2", "2026-11-16")
    assert [entry.name for entry in shelf.entries()] == ["fold-2"]
    assert [each.path for each in shelf.live()] == [each.path for each in before]
    assert shelf.has("q", 2) and not shelf.has("q", 3) and not shelf.has("other", 0)


def test_delta_takes_a_batch_once_the_first_among_them(tmp_path: Path) -> None:
    shelf = DeltaShelf(str(tmp_path))
    assert (shelf.live(), shelf.ends(), shelf.has("q", 0)) == ([], {}, False)
    shelf.commit_batch("q", 0, stage(shelf, "x", rows(("a", 0, 1), ("%DLQ%b", 0, 7))), {})
    assert shelf.has("q", 0) and not shelf.has("q", 1) and not shelf.has("other", 0)
    shelf.commit_batch("q", 1, stage(shelf, "x", rows(("a", 0, 2), day=1)), {})
    assert offsets(shelf) == [("%DLQ%b", 7), ("a", 1), ("a", 2)]
    assert shelf.ends() == {QueueName("a", 0, "a"): 3, QueueName("a", 0, "%DLQ%b"): 8}
    late = [each for each in shelf.live() if each.may_hold(NOON + timedelta(hours=1), None)]
    assert [(each.topic, each.day) for each in late] == [("a", "2026-11-16")]


def test_delta_joins_files_and_still_knows_where_to_go_on(tmp_path: Path) -> None:
    shelf = DeltaShelf(str(tmp_path))
    for batch in range(4):
        shelf.commit_batch("q", batch, stage(shelf, "x", rows(("%DLQ%a", 0, batch))), {})
    assert shelf.compact(1 << 20) == 4
    assert len(shelf.live()) == 1
    assert offsets(shelf) == [("%DLQ%a", offset) for offset in range(4)]
    assert shelf.ends() == {QueueName("a", 0, "%DLQ%a"): 4} and shelf.has("q", 3)


def test_memory_is_bounded_by_writing_the_fullest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from roquet.spark.pipelines import archive_write

    monkeypatch.setattr(archive_write, "HELD_BYTES_MAX", 1000)
    shelf = ParquetShelf(str(tmp_path))
    writer = FileWriter(shelf.place, shelf.staging_of("x"))
    for offset in range(20):
        writer.add(rows(*((f"t{topic}", 0, offset) for topic in range(5))))
        assert sum(each.held_bytes for each in writer._open.values()) <= 1000
    shelf.commit("x", writer.close(), {"time": "t"})
    assert len(offsets(shelf)) == 100


@given(st.lists(st.integers(1, 400), max_size=40), st.integers(10, 200))
def test_groups_to_join_are_small_files_each_once(sizes: list[int], limit: int) -> None:
    files = [
        Filed(f"p{at}", "ab"[at % 2], "d", 1, size_bytes, (), "2026-11-15", "2026-11-15")
        for at, size_bytes in enumerate(sizes)
    ]
    groups = small_files(files, limit)
    joined = [each.path for group in groups for each in group]
    assert len(joined) == len(set(joined))
    for group in groups:
        assert len({each.topic for each in group}) == 1 and len(group) > 1
        assert all(each.size_bytes < limit for each in group)
        assert sum(each.size_bytes for each in group) <= 2 * limit


def test_folders_are_named_so_that_readers_find_the_topic_again() -> None:
    assert folder_of("%RETRY%g|1", "2026-11-15") == "topic=%25RETRY%25g%7C1/day=2026-11-15"


def test_all_of_a_batch_is_on_the_disk_before_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = noted(tmp_path, monkeypatch)
    shelf = ParquetShelf(str(tmp_path))
    (file,) = commit(shelf, "q", 0, rows(("a", 0, 1)))
    name = batch_name("q", 0)
    at = steps.index(f"move _manifest/{name}.jsonl")
    before, after = steps[:at], steps[at + 1 :]
    staged = f"_staging/{name}"
    assert before[0] == f"sync {file.staged}"  # by the task, before it tells of the file
    assert before[1:] == [
        *(f"sync {each}" for each in (staged, "_staging", ".")),
        f"sync _manifest/_{name}.jsonl.draft",
    ]
    folder = os.path.dirname(file.path)
    assert after == [
        "sync _manifest", "sync .",  # the commit itself
        f"move {file.path}", f"sync {folder}", "sync topic=a", "sync .",
        f"gone {staged}",  # what the next run would need to finish the moves
    ]  # fmt: skip


def test_delta_refers_to_files_that_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, int]] = []

    def fsync(path: str) -> None:
        commits = len(list(tmp_path.glob("_delta_log/*.json")))
        synced.append((os.path.relpath(path, tmp_path), commits))

    monkeypatch.setattr(archive_files, "fsync", fsync)
    shelf = DeltaShelf(str(tmp_path))
    (file,) = stage(shelf, "x", rows(("a", 0, 1)))
    shelf.commit_batch("q", 0, [file], {})
    assert synced[:3] == [(file.staged, 0), ("messages", 0), (".", 0)]
    log = f"_delta_log/{1:020d}.json"  # the first, 0, makes the table
    assert [path for path, _ in synced[3:]] == [log, "_delta_log", "."]


def noted(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each step at the files which matters to who comes after a power cut."""
    steps: list[str] = []

    def note(what: str, path: str) -> None:
        steps.append(f"{what} {os.path.relpath(path, root)}")

    class Noting(LocalFileSystem):  # type: ignore[misc]
        def move(self, src: str, dest: str) -> None:
            super().move(src, dest)
            note("move", dest)

        def delete_dir(self, path: str) -> None:
            super().delete_dir(path)
            note("gone", path)

    monkeypatch.setattr(archive_files, "fsync", lambda path: note("sync", path))
    monkeypatch.setattr(pyarrow.fs, "LocalFileSystem", Noting)
    return steps
