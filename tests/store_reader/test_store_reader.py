"""Stores read from their files: whole, in ranges, filtered, damaged, and folders that are none."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roquet.store_reader as reader
from roquet.arrow import COLUMNS
from roquet.model.message import Draft, Host, SysFlag
from roquet.store.format import record
from roquet.store.format.queue_entry import pack
from roquet.store_reader.files import end_of_log, log_files

HERE = Host(bytes([127, 0, 0, 2]), 10_911)
FILE_BYTES = 4096
HOUR_MS = 3_600_000


class Written:
    """A small store on disk, made without a broker."""

    def __init__(self, root: Path, file_bytes: int = FILE_BYTES) -> None:
        self.root = root
        self.file_bytes = file_bytes
        self.rows: list[dict[str, Any]] = []
        self._log = bytearray()
        self._queues: dict[tuple[str, int], list[tuple[int, int]]] = {}

    def add(self, topic: str = "orders", queue_id: int = 0, body: bytes = b"hello", hours: int = 0) -> None:
        entries = self._queues.setdefault((topic, queue_id), [])
        draft = Draft(topic, queue_id, body, b"TAGS\x01red\x02KEYS\x01a b\x02", 7, 0, 1, HERE)
        size = len(record.encode(draft, 0, 0, 0, HERE))
        room = -len(self._log) % self.file_bytes or self.file_bytes
        if size + record.BLANK_SIZE_BYTES_MIN > room:
            self._log += record.blank(room) + bytes(room - 8)
        at = len(self._log)
        self._log += record.encode(draft, len(entries), at, hours * HOUR_MS, HERE)
        self.rows.append(
            {"topic": topic, "queue_id": queue_id, "queue_offset": len(entries), "log_offset": at}
        )
        entries.append((at, size))

    def save(self, folder: str = "commitlog", *, queues: bool = True) -> Path:
        log_dir = self.root / folder
        log_dir.mkdir(parents=True, exist_ok=True)
        for begin in range(0, max(len(self._log), 1), self.file_bytes):
            data = bytes(self._log[begin : begin + self.file_bytes])
            (log_dir / f"{begin:020d}").write_bytes(data.ljust(self.file_bytes, b"\0"))
        for (topic, queue_id), entries in self._queues.items() if queues else ():
            queue_dir = self.root / "consumequeue" / topic / str(queue_id)
            queue_dir.mkdir(parents=True, exist_ok=True)
            data = b"".join(pack(at, size, 0) for at, size in entries)
            (queue_dir / f"{0:020d}").write_bytes(data.ljust(len(data) + 200, b"\0"))
        return self.root

    @property
    def size_bytes(self) -> int:
        return len(self._log)

    def end_of(self, row: dict[str, Any]) -> int:
        """Return the log offset behind a row's record."""
        at: int = row["log_offset"]
        return at + int.from_bytes(self._log[at : at + 4], "big")

    def damage(self, log_offset: int, data: bytes) -> None:
        self._log[log_offset : log_offset + len(data)] = data


def rows_of(root: Path, **options: Any) -> list[dict[str, Any]]:
    names = ("topic", "queue_id", "queue_offset", "log_offset")
    return [row for batch in reader.read(str(root), columns=names, **options) for row in batch.to_pylist()]


def test_every_column_of_a_row(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.add()
    (batch,) = reader.read(str(written.save()), broker="broker-a")
    assert batch.schema == reader.schema()
    assert batch.to_pylist() == [
        {
            "topic": "orders",
            "broker": "broker-a",
            "queue_id": 0,
            "queue_offset": 0,
            "body": b"hello",
            "tag": "red",
            "keys": ["a", "b"],
            "properties": [("TAGS", "red"), ("KEYS", "a b")],
            "message_id": "7F00000200002A9F0000000000000000",
            "born_time": datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
            "store_time": datetime(1970, 1, 1, tzinfo=UTC),
            "born_host": "127.0.0.2:10911",
            "store_host": "127.0.0.2:10911",
            "reconsume_times": 0,
            "sys_flag": 0,
            "flag": 7,
            "log_offset": 0,
        }
    ]


@given(
    bodies=st.lists(st.integers(0, 3_000), max_size=30),
    range_bytes=st.integers(100, 9_000),
    rows=st.integers(1, 7),
)
@settings(max_examples=40, deadline=None)
def test_ranges_together_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[int], range_bytes: int, rows: int
) -> None:
    written = Written(tmp_path_factory.mktemp("store"))
    for size in bodies:
        written.add(body=bytes([size % 250]) * size)
    root = written.save()
    ranges = reader.plan(str(root), range_bytes=range_bytes)
    found = [
        row["log_offset"]
        for part in ranges
        for batch in reader.read_range(part, reader.Filter(), columns=("log_offset",), rows=rows)
        for row in batch.to_pylist()
    ]
    assert found == [row["log_offset"] for row in written.rows]


class TestFilters:
    def written(self, tmp_path: Path) -> Written:
        written = Written(tmp_path)
        for number in range(300):
            written.add("orders" if number < 150 else "bills", number % 3, hours=number)
        return written

    def test_topic_and_queue(self, tmp_path: Path) -> None:
        written = self.written(tmp_path)
        root = written.save()
        assert rows_of(root, topics=["bills"]) == [row for row in written.rows if row["topic"] == "bills"]
        assert rows_of(root, queue_ids=[1]) == [row for row in written.rows if row["queue_id"] == 1]

    def test_ranges_without_the_topic_are_not_read(self, tmp_path: Path) -> None:
        root = self.written(tmp_path).save()
        everything = reader.plan(str(root), range_bytes=4096)
        orders = reader.plan(str(root), reader.Filter(topics=("orders",)), range_bytes=4096)
        bills = reader.plan(str(root), reader.Filter(topics=("bills",)), range_bytes=4096)
        assert len(bills) < len(everything)
        assert orders == everything  # behind its last entry only the log itself can tell

    def test_a_topic_without_queues_is_found_in_the_log(self, tmp_path: Path) -> None:
        written = self.written(tmp_path)
        assert len(rows_of(written.save(queues=False), topics=["orders"])) == 150

    def test_entries_that_queues_lack_are_found_in_the_log(self, tmp_path: Path) -> None:
        written = self.written(tmp_path)
        root = written.save()
        queue = root / "consumequeue" / "bills" / "0" / f"{0:020d}"
        queue.write_bytes(queue.read_bytes()[:40].ljust(400, b"\0"))
        assert len(rows_of(root, topics=["bills"])) == 150

    def test_a_queue_without_a_folder_is_found_in_the_log(self, tmp_path: Path) -> None:
        root = self.written(tmp_path).save()
        shutil.rmtree(root / "consumequeue" / "bills" / "1")
        assert len(rows_of(root, topics=["bills"], queue_ids=[1])) == 50
        assert len(rows_of(root, topics=["bills"], queue_ids=[7])) == 0

    def test_times_between_milliseconds(self, tmp_path: Path) -> None:
        """Messages have whole milliseconds: what is asked for a little later does not include them."""
        root = self.written(tmp_path).save()
        hour, little = datetime(1970, 1, 1, 5, tzinfo=UTC), timedelta(microseconds=1)
        assert len(rows_of(root, since=hour, until=hour + little)) == 1
        assert len(rows_of(root, since=hour + little, until=hour + timedelta(hours=1))) == 0
        assert len(rows_of(root, since=datetime(1970, 1, 1, 5), until=datetime(1970, 1, 1, 7))) == 2

    def test_time(self, tmp_path: Path) -> None:
        root = self.written(tmp_path).save()
        since, until = datetime(1970, 1, 3, tzinfo=UTC), datetime(1970, 1, 4, tzinfo=UTC)
        assert len(rows_of(root, since=since, until=until)) == 24
        wanted = reader.Filter(since=since, until=until)
        part = reader.plan(str(root), wanted, range_bytes=2048)
        assert 0 < len(part) < len(reader.plan(str(root), range_bytes=2048)) / 3


class TestDamage:
    def written(self, tmp_path: Path) -> Written:
        written = Written(tmp_path)
        for _ in range(20):
            written.add(body=b"x" * 300)
        return written

    @pytest.mark.parametrize(
        ("at", "data"),
        [
            (0, b"\x00\x00\x00\x10"),
            (0, b"\x7f\x00\x00\x00"),
            (4, b"JUNK"),
            (0, bytes(200)),
            (100, b"other body"),
        ],
    )
    def test_damage_is_an_error_a_gap_or_a_row(self, tmp_path: Path, at: int, data: bytes) -> None:
        written = self.written(tmp_path)
        place = written.rows[5]["log_offset"]
        written.damage(place + at, data)
        root = written.save()
        with pytest.raises(reader.DamagedStore, match=rf"at {place} of .*damaged="):
            rows_of(root)
        sound = [row for row in written.rows if row["log_offset"] != place]
        assert rows_of(root, damaged="skip") == sound
        (damage,) = [row for row in rows_of(root, damaged="column") if row["damage"]]
        assert damage["log_offset"] == place and damage["topic"] is None
        assert len(rows_of(root, damaged="column")) == 20

    def test_a_body_that_changed_passes_without_verification(self, tmp_path: Path) -> None:
        written = self.written(tmp_path)
        written.damage(written.rows[5]["log_offset"] + 100, b"other body")
        assert rows_of(written.save(), verify=False) == written.rows

    def test_damage_over_the_edge_of_ranges_is_told_once(self, tmp_path: Path) -> None:
        written = self.written(tmp_path)
        for row in written.rows[3:6]:
            written.damage(row["log_offset"], bytes(60))
        root = written.save()
        ranges = reader.plan(str(root), range_bytes=300)
        found = [
            row
            for part in ranges
            for batch in reader.read_range(part, reader.Filter(), damaged="column")
            for row in batch.to_pylist()
        ]
        assert len([row for row in found if row["damage"] is None]) == 17
        assert {row["log_offset"] for row in found if row["damage"]} == {written.rows[3]["log_offset"]}

    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_one_wrong_byte_costs_one_record_at_most(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        written = Written(tmp_path_factory.mktemp("store"))
        for number in range(25):
            written.add(body=bytes([number]) * (number * 37 % 600))
        at = data.draw(st.integers(0, written.size_bytes - 1))
        written.damage(at, bytes([data.draw(st.integers(0, 255))]))
        root = written.save()
        range_bytes = data.draw(st.sampled_from([200, 1_000, 4_096]))
        found: list[int] = []
        told: list[int] = []
        names = [name for name in COLUMNS if not name.endswith("time")]  # years that Python does not know
        for part in reader.plan(str(root), range_bytes=range_bytes):
            for batch in reader.read_range(part, reader.Filter(), columns=names, damaged="column"):
                for row in batch.to_pylist():
                    (told if row["damage"] else found).append(row["log_offset"])
        offsets = [row["log_offset"] for row in written.rows]
        assert found == [offset for offset in offsets if offset in found], "in order, and no others"
        lost = [offset for offset in offsets if offset not in found]
        assert len(lost) <= 1
        assert set(lost) <= {*told, offsets[-1]}, "told, unless it is the end of the log"
        assert len(told) <= 1

    def test_a_body_that_does_not_open(self, tmp_path: Path) -> None:
        """A producer may send what it likes; the messages around it are none the worse."""
        written = self.written(tmp_path)
        for row in (written.rows[7], written.rows[8]):
            written.damage(row["log_offset"] + 36, SysFlag.COMPRESSED.to_bytes(4, "big"))
        root = written.save()
        sound = [row for row in written.rows if row not in written.rows[7:9]]
        names = ("topic", "queue_id", "queue_offset", "log_offset", "body")
        place = written.rows[7]["log_offset"]
        with pytest.raises(
            reader.DamagedStore, match=f"the body of the record at {place} of .* cannot be read"
        ):
            list(reader.read(str(root), columns=names))
        for rows in (1, 3, 8, 100):
            batches = reader.read(str(root), columns=names, damaged="skip", rows=rows)
            found = [row for batch in batches for row in batch.to_pylist()]
            assert [row.pop("body") for row in found] == [b"x" * 300] * 18
            assert found == sound
        told = [row for batch in reader.read(str(root), damaged="column") for row in batch.to_pylist()]
        assert [row["log_offset"] for row in told if row["damage"]] == [
            row["log_offset"] for row in written.rows[7:9]
        ]
        assert len(rows_of(root)) == 20, "whoever does not ask for bodies does not open them"

    @pytest.mark.parametrize("kept", [None, 0, 1_500, FILE_BYTES - 300])
    def test_a_hole_between_files_is_damage(self, tmp_path: Path, kept: int | None) -> None:
        written = self.written(tmp_path)
        root = written.save()
        second = root / "commitlog" / f"{FILE_BYTES:020d}"
        data = second.read_bytes()
        second.unlink()
        if kept is not None:
            second.write_bytes(data[:kept])
        begin = FILE_BYTES + (kept or 0)
        with pytest.raises(reader.DamagedStore, match="bytes at"):
            rows_of(root)
        told = rows_of(root, damaged="column")
        (hole,) = [row for row in told if "are in no file" in (row["damage"] or "")]
        assert hole["log_offset"] == begin
        assert hole["damage"].startswith(f"{2 * FILE_BYTES - begin} bytes at {begin}, behind ")
        sound = [
            row for row in written.rows if written.end_of(row) <= begin or row["log_offset"] >= 2 * FILE_BYTES
        ]
        assert rows_of(root, damaged="skip") == sound

    def test_an_end_that_is_missing_is_the_end(self, tmp_path: Path) -> None:
        written = self.written(tmp_path)
        root = written.save()
        sorted((root / "commitlog").iterdir())[-1].unlink()
        last = max(int(path.name) for path in (root / "commitlog").iterdir()) + FILE_BYTES
        assert rows_of(root) == [row for row in written.rows if row["log_offset"] < last]

    def test_half_a_record_at_the_end_is_not_there_yet(self, tmp_path: Path) -> None:
        written = self.written(tmp_path)
        last = written.rows[-1]["log_offset"]
        written.damage(last + 60, bytes(400))
        root = written.save()
        assert end_of_log(log_files(str(root))) == last
        assert rows_of(root) == written.rows[:-1]


class TestFolders:
    def test_only_the_files_of_the_log(self, tmp_path: Path) -> None:
        written = Written(tmp_path)
        written.add()
        written.save("backup", queues=False)
        assert rows_of(tmp_path / "backup") == written.rows

    def test_an_empty_log(self, tmp_path: Path) -> None:
        assert rows_of(Written(tmp_path).save()) == []

    @pytest.mark.parametrize("name", ["missing", "file", "empty"])
    def test_folders_that_are_no_store(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "file").write_text("x")
        with pytest.raises(reader.NotAStore, match=name):
            list(reader.read(str(tmp_path / name)))

    def test_batches_make_a_table(self, tmp_path: Path) -> None:
        written = Written(tmp_path)
        for _ in range(25):
            written.add()
        table = pa.Table.from_batches(reader.read(str(written.save()), rows=10))
        assert table.num_rows == 25
