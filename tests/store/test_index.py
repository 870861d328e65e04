"""The index against a plain dictionary, through damage, crashes and full disks."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.model.message import Entry
from roquet.sim.disk import PowerCut, SimDisk
from roquet.store.format.index_page import ENTRY, HEADER, SLOT, Geometry, Header, key_hash
from roquet.store.index import Index

FOLDER = "/store/index"
NOW_MS = 1_700_000_000_000
FOREVER_MS = 1 << 62


class StillClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return 0.0

    async def sleep_until(self, when: float) -> None:
        return

    def call_at(self, when: float, callback: object, *args: object) -> asyncio.TimerHandle:
        raise NotImplementedError


class Fixture:
    def __init__(self, slots: int = 7, max_entries: int = 20, seed: int = 1) -> None:
        self.disk = SimDisk(random.Random(seed))
        self.disk.make_dirs("/store")
        self.clock = StillClock()
        self.geometry = Geometry(slots, max_entries)
        self.index = self.open(None)

    def open(self, safe_ms: int | None) -> Index:
        index = Index(self.disk, FOLDER, *self.geometry, self.clock)
        index.load(safe_ms)
        return index

    def bytes_of(self, number: int = 0) -> bytes:
        """Return a file's bytes once everything is written."""
        self.index.write_now()
        return self.disk.read_file(f"{FOLDER}/{self.index.file_names[number]}")

    def flush(self) -> None:
        asyncio.run(self.index.flush())

    def reopen(self, safe_ms: int | None = None) -> None:
        self.index.close()
        self.index = self.open(safe_ms)

    def find(self, key: str, count: int = 64, begin_ms: int = 0, end_ms: int = FOREVER_MS) -> list[int]:
        return asyncio.run(self.index.query("T", key, count, begin_ms, end_ms))


def entry(number: int, *keys: str, store_ms: int = 0, sys_flag: int = 0) -> Entry:
    return Entry(
        log_offset=number * 100,
        size_bytes=100,
        topic="T",
        queue_id=0,
        queue_offset=number,
        tag_code=0,
        store_ms=store_ms or NOW_MS + number,
        sys_flag=sys_flag,
        prepared_log_offset=0,
        keys=keys,
        properties=b"",
    )


def test_the_bytes_of_a_small_file() -> None:
    fixture = Fixture()
    fixture.index.put([entry(3, "a", "b", store_ms=NOW_MS), entry(5, "a", store_ms=NOW_MS + 2_500)])
    data = fixture.bytes_of()
    assert len(data) == 40 + 7 * 4 + 20 * 20
    slots = {fixture.geometry.slot_of(key_hash("T", key)) for key in "ab"}
    assert HEADER.unpack_from(data) == (NOW_MS, NOW_MS + 2_500, 300, 500, len(slots), 4)
    head = SLOT.unpack_from(
        data, fixture.geometry.slot_position(fixture.geometry.slot_of(key_hash("T", "a")))
    )
    assert head == (3,)
    assert ENTRY.unpack_from(data, fixture.geometry.entry_position(3)) == (key_hash("T", "a"), 500, 2, 1)
    assert ENTRY.unpack_from(data, fixture.geometry.entry_position(1)) == (key_hash("T", "a"), 300, 0, 0)
    assert data[fixture.geometry.entry_position(0) :][:20] == bytes(20)


def test_the_bytes_are_those_of_apaches_index_file() -> None:
    """The digest is that of the file which IndexFile.putKey of 5.5.0 wrote for the same keys."""
    fixture = Fixture(slots=50, max_entries=200)
    entries = [entry(n, "a", f"k{n}", store_ms=NOW_MS + n * 700) for n in range(60)]
    for start in range(0, 60, 7):
        fixture.index.put(entries[start : start + 7])
        if start % 2:
            fixture.index.write_now()
    data = fixture.bytes_of()
    assert (
        hashlib.sha256(data).hexdigest() == "4deb225e72e79b1fe779d97554344a8975502e5d1d11ff7b4b7ee5d8e15322ac"
    )


def test_files_are_named_by_local_time_and_never_overwritten() -> None:
    fixture = Fixture(max_entries=3)
    fixture.disk.make_dirs(FOLDER)
    for number in range(5):
        fixture.index.put([entry(number, "a")])
    fixture.clock.ms -= 3_600_000
    for number in range(5, 9):
        fixture.index.put([entry(number, "a")])
    names = fixture.index.file_names
    assert names == sorted(set(names)) and len(names) == 5
    assert all(len(name) == 17 and name.isdigit() for name in names)
    assert fixture.find("a") == [number * 100 for number in reversed(range(9))]


def test_newest_first_with_a_limit() -> None:
    fixture = Fixture(max_entries=200)
    fixture.index.put([entry(number, "a") for number in range(100)])
    assert fixture.find("a", 3) == [9900, 9800, 9700]
    assert len(fixture.find("a", 1000)) == 64
    assert fixture.find("zz") == []


def test_time_bounds_reach_over_files() -> None:
    fixture = Fixture(max_entries=5)
    fixture.index.put([entry(n, "a", store_ms=NOW_MS + n * 1000) for n in range(20)])
    assert fixture.find("a", 64, NOW_MS + 5_000, NOW_MS + 7_000) == [700, 600, 500]
    assert fixture.find("a", 64, NOW_MS + 99_000, FOREVER_MS) == []
    assert fixture.find("a", 64, 0, NOW_MS - 1) == []
    assert fixture.find("a", 64, 0, NOW_MS) == [0]


def test_rollbacks_and_records_without_keys_are_skipped_and_half_ones_are_not() -> None:
    fixture = Fixture()
    fixture.index.put([entry(1, "a", sys_flag=0xC), entry(2), entry(3, "a", sys_flag=0x4)])
    assert fixture.find("a") == [300]
    assert fixture.index.last_log_offset == 300 and fixture.index.last_store_ms == NOW_MS + 3


def test_putting_again_changes_nothing() -> None:
    fixture = Fixture(max_entries=12)
    entries = [entry(n, "a", f"k{n}") for n in range(30)]
    fixture.index.put(entries)
    before = [fixture.bytes_of(number) for number in range(len(fixture.index.file_names))]
    fixture.index.put(entries)
    fixture.index.put(entries[20:])
    assert [fixture.bytes_of(number) for number in range(len(fixture.index.file_names))] == before


def test_the_keys_of_a_record_stay_in_one_file() -> None:
    fixture = Fixture(max_entries=4)
    fixture.index.put([entry(0, "a", "b"), entry(1, "c", "d"), entry(2, *"efghij")])
    assert len(fixture.index.file_names) == 3
    assert fixture.find("d") == [100] and fixture.find("g") == [200] and fixture.find("j") == []


def test_an_index_that_was_closed_goes_on() -> None:
    fixture = Fixture()
    fixture.index.put([entry(n, "a") for n in range(5)])
    fixture.flush()
    fixture.reopen()
    assert fixture.index.rebuild_from is None
    assert (fixture.index.last_log_offset, fixture.index.synced_ms) == (400, NOW_MS + 4)
    fixture.index.put([entry(5, "a")])
    assert fixture.find("a") == [500, 400, 300, 200, 100, 0]


def test_without_files_all_must_be_built() -> None:
    assert Fixture().index.rebuild_from == 0


def test_after_a_crash_files_that_prove_themselves_are_kept() -> None:
    fixture = Fixture(max_entries=5)
    entries = [entry(n, "a") for n in range(10)]
    fixture.index.put(entries)
    before = [fixture.bytes_of(number) for number in range(3)]
    fixture.reopen(0)
    assert len(fixture.index.file_names) == 3 and fixture.index.rebuild_from == 900
    fixture.index.put(entries)
    assert fixture.find("a") == [n * 100 for n in reversed(range(10))]
    assert [fixture.bytes_of(number) for number in range(3)] == before


def test_after_a_crash_files_behind_one_that_may_lack_its_end_go() -> None:
    fixture = Fixture(max_entries=5)
    entries = [entry(n, "a") for n in range(10)]
    fixture.index.put(entries)
    before = [fixture.bytes_of(number) for number in range(3)]
    header = Header(*HEADER.unpack_from(before[0]))
    shorter = header._replace(end_ms=NOW_MS + 1, end_log_offset=100, next_number=3)
    fixture.index.close()
    fixture.disk.open(f"{FOLDER}/{fixture.index.file_names[0]}").write_at(0, HEADER.pack(*shorter))
    fixture.reopen(NOW_MS + 3)
    assert len(fixture.index.file_names) == 1 and fixture.index.rebuild_from == 100
    fixture.index.put(entries)
    assert fixture.find("a") == [n * 100 for n in reversed(range(10))]
    assert [fixture.bytes_of(number) for number in range(3)] == before


@pytest.mark.parametrize(("word", "value"), [(0, 7), (4, -1), (8, 0), (12, -1), (16, 0), (16, 3)])
def test_after_a_crash_an_entry_that_does_not_follow_takes_its_file_away(word: int, value: int) -> None:
    fixture = Fixture(slots=3, max_entries=5)
    entries = [entry(n, "a") for n in range(20, 30)]
    fixture.index.put(entries)
    fixture.index.close()
    file = fixture.disk.open(f"{FOLDER}/{fixture.index.file_names[1]}")
    file.write_at(fixture.geometry.entry_position(3) + word, SLOT.pack(value))
    fixture.reopen(NOW_MS + 25)
    assert len(fixture.index.file_names) == 1 and fixture.index.rebuild_from == 2300
    fixture.index.put(entries)
    assert fixture.find("a") == [n * 100 for n in reversed(range(20, 30))]


def test_after_a_crash_a_header_ahead_of_its_entries_is_not_believed() -> None:
    fixture = Fixture()
    fixture.index.put([entry(n, "a") for n in range(1, 5)])
    header = Header(*HEADER.unpack_from(fixture.bytes_of()))
    fixture.index.close()
    path = f"{FOLDER}/{fixture.index.file_names[0]}"
    for wrong in (header._replace(end_log_offset=500), header._replace(next_number=7)):
        fixture.disk.open(path).write_at(0, HEADER.pack(*wrong))
        fixture.reopen(0)
        assert fixture.index.file_names == [] and fixture.index.rebuild_from == 0
        fixture.index.put([entry(n, "a") for n in range(1, 5)])
        fixture.index.close()
        path = f"{FOLDER}/{fixture.index.file_names[0]}"


def test_after_a_crash_slot_words_and_bytes_behind_the_entries_are_mended() -> None:
    """Words that are ahead of the header lead to entries which may never have reached the disk."""
    fixture = Fixture(slots=3000, max_entries=50)
    fixture.index.put([entry(n, f"k{n}") for n in range(10)])
    before = fixture.bytes_of()
    fixture.index.close()
    file = fixture.disk.open(f"{FOLDER}/{fixture.index.file_names[0]}")
    for n in range(10):
        slot = fixture.geometry.slot_of(key_hash("T", f"k{n}"))
        file.write_at(fixture.geometry.slot_position(slot), SLOT.pack(40 + n))
    file.write_at(fixture.geometry.entry_position(11), ENTRY.pack(1, 5_000, 0, 0) * 3)
    fixture.reopen(0)
    assert all(fixture.find(f"k{n}") == [n * 100] for n in range(10))
    assert fixture.bytes_of() == before
    fixture.index.put([entry(10, "k3")])
    assert fixture.find("k3") == [1000, 300]


@pytest.mark.parametrize(
    ("damaged", "safe_ms", "kept"),
    [(0, NOW_MS + 3, 3), (0, NOW_MS + 2, 0), (1, NOW_MS + 7, 3), (1, NOW_MS + 6, 1), (2, NOW_MS + 9, 2)],
)
def test_a_full_file_is_believed_unread_when_the_checkpoint_reaches_its_end(
    damaged: int, safe_ms: int, kept: int
) -> None:
    fixture = Fixture(max_entries=5)
    fixture.index.put([entry(n, "a") for n in range(10)])
    fixture.index.close()
    file = fixture.disk.open(f"{FOLDER}/{fixture.index.file_names[damaged]}")
    file.write_at(fixture.geometry.entry_position(1), ENTRY.pack(1, 2, 3, 4))
    fixture.reopen(safe_ms)
    assert len(fixture.index.file_names) == kept


def test_of_files_that_end_in_one_millisecond_only_the_first_is_believed_unread() -> None:
    fixture = Fixture(max_entries=5)
    fixture.index.put([entry(n, "a", store_ms=NOW_MS) for n in range(10)])
    fixture.index.close()
    for number in (0, 1):
        file = fixture.disk.open(f"{FOLDER}/{fixture.index.file_names[number]}")
        file.write_at(fixture.geometry.entry_position(1), ENTRY.pack(1, 2, 3, 4))
    fixture.reopen(NOW_MS)
    assert len(fixture.index.file_names) == 1


def test_a_file_that_is_followed_by_another_is_full() -> None:
    """Apache writes on into a last file that has room."""
    fixture = Fixture(max_entries=6)
    fixture.index.put([entry(n, "a", "b", "c") for n in range(1, 3)])
    header = Header(*HEADER.unpack_from(fixture.bytes_of()))
    assert (header.next_number, header.end_log_offset, header.end_ms) == (6, 100, NOW_MS + 1)
    for key in "abc":
        assert fixture.find(key) == [200, 100]
    fixture.reopen(0)
    assert len(fixture.index.file_names) == 2
    for key in "abc":
        assert fixture.find(key) == [200, 100]


def test_files_that_lead_behind_the_log_are_forgotten() -> None:
    fixture = Fixture(max_entries=5)
    entries = [entry(n, "a") for n in range(10)]
    fixture.index.put(entries)
    fixture.reopen(NOW_MS + 9)
    assert len(fixture.index.file_names) == 3
    fixture.index.forget_from(700)
    assert len(fixture.index.file_names) == 1 and fixture.index.rebuild_from == 300
    fixture.index.put([entry(n, "b" if n > 6 else "a") for n in range(10)])
    assert fixture.find("b") == [900, 800, 700] and fixture.find("a")[0] == 600


@pytest.mark.parametrize("damage", ["cut", "count", "offsets"])
def test_a_damaged_file_goes_with_all_later_ones(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    fixture = Fixture(max_entries=5)
    entries = [entry(n, "a") for n in range(12)]
    fixture.index.put(entries)
    fixture.index.close()
    path = f"{FOLDER}/{fixture.index.file_names[1]}"
    if damage == "cut":
        fixture.disk.truncate(path, 100)
    else:
        bad = Header(0, 0, 9, 0, 0, 2) if damage == "offsets" else Header(0, 0, 0, 0, 0, 77)
        fixture.disk.open(path).write_at(0, HEADER.pack(*bad))
    fixture.index = fixture.open(None)
    assert fixture.index.rebuild_from == 300 and len(fixture.index.file_names) == 1
    assert path in caplog.text and "rebuilt from log offset 300" in caplog.text
    fixture.index.put(entries)
    assert fixture.find("a") == [n * 100 for n in reversed(range(12))]


def test_strangers_in_the_folder_are_left_alone() -> None:
    fixture = Fixture()
    fixture.disk.make_dirs(f"{FOLDER}/old")
    fixture.disk.write_file(f"{FOLDER}/notes.txt", b"mine")
    fixture.index.put([entry(1, "a")])
    fixture.index.close()
    fixture.index = fixture.open(None)
    assert fixture.disk.read_file(f"{FOLDER}/notes.txt") == b"mine" and fixture.find("a") == [100]


@pytest.mark.parametrize("link", [2, 3, 19, 20, 1 << 30, -1])
def test_wild_and_cyclic_links_end(link: int) -> None:
    fixture = Fixture(slots=1)
    fixture.index.put([entry(n, "a") for n in range(5)])
    fixture.reopen()
    file = fixture.disk.open(f"{FOLDER}/{fixture.index.file_names[0]}")
    file.write_at(fixture.geometry.entry_position(2) + 16, SLOT.pack(link))
    assert fixture.find("a") == [400, 300, 200, 100]
    file.write_at(fixture.geometry.slot_position(0), SLOT.pack(link))
    assert set(fixture.find("a")) <= {0, 100, 200, 300, 400}
    fixture.index.put([entry(9, "a")])
    assert fixture.find("a")[0] == 900


def test_a_very_long_chain_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roquet.store.index.QUERY_STEPS_MAX", 10)
    monkeypatch.setattr("roquet.store.index.STEPS_BETWEEN_PAUSES", 3)
    fixture = Fixture(slots=1, max_entries=100)
    fixture.index.put([entry(0, "rare"), *(entry(n, "hot") for n in range(1, 50))])
    assert fixture.find("rare") == []
    assert len(fixture.find("hot")) == 10


def test_cold_pages_are_awaited() -> None:
    fixture = Fixture()
    fixture.index.put([entry(n, "a") for n in range(4)])
    fixture.reopen()
    fixture.index.put([entry(4, "a")])
    fixture.disk.cold_probability = 0.7
    assert fixture.find("a") == [400, 300, 200, 100, 0]


def test_files_below_the_log_are_removed_but_for_the_last() -> None:
    fixture = Fixture(max_entries=5)
    fixture.index.put([entry(n, "a") for n in range(12)])
    fixture.index.remove_before(300)
    assert len(fixture.index.file_names) == 3
    fixture.index.remove_before(301)
    assert fixture.find("a") == [n * 100 for n in reversed(range(4, 12))]
    fixture.index.remove_before(1 << 40)
    assert len(fixture.index.file_names) == 1 and len(fixture.disk.list_dir(FOLDER)) == 1


def test_a_file_that_is_removed_under_a_query_ends_it_quietly() -> None:
    async def scenario() -> None:
        fixture = Fixture(max_entries=5)
        fixture.index.put([entry(n, "a") for n in range(8)])
        fixture.reopen()
        fixture.disk.cold_probability = 1.0

        class Gate(StillClock):
            async def sleep_until(self, when: float) -> None:
                fixture.index.remove_before(1 << 40)

        fixture.disk._clock = Gate()
        fixture.disk.read_delay_s = 1.0
        assert await fixture.index.query("T", "a", 64, 0, FOREVER_MS) == [700, 600, 500, 400]

    asyncio.run(scenario())


@pytest.mark.parametrize("free_pages", range(8))
def test_a_full_disk_loses_nothing_and_is_told_once(
    free_pages: int, caplog: pytest.LogCaptureFixture
) -> None:
    fixture = Fixture(slots=3000, max_entries=2000)
    fixture.index.put([entry(0, "a", "b", "c")])
    fixture.flush()
    used = fixture.disk.usage("/").used_bytes
    fixture.disk.capacity_bytes = used + free_pages * 4096
    for number in range(1, 400):
        fixture.index.put([entry(number, "a", f"k{number}")])
        if number % 100 == 0:
            fixture.flush()
    assert bool(fixture.index.error) == (free_pages < 4)
    assert caplog.text.count("cannot be written") == (free_pages < 4)
    assert fixture.find("a") == [n * 100 for n in reversed(range(336, 400))]
    fixture.disk.capacity_bytes = 1 << 40
    fixture.flush()
    assert fixture.index.error == "" and fixture.index.synced_ms == NOW_MS + 399
    fixture.reopen()
    assert fixture.find("a") == [n * 100 for n in reversed(range(336, 400))]
    assert all(fixture.find(f"k{n}") == [n * 100] for n in range(1, 400, 17))


def test_a_file_that_cannot_be_made_waits_and_what_is_too_much_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixture = Fixture(max_entries=5)
    fixture.index.put([entry(n, "a") for n in range(4)])
    fixture.disk.fail("create")
    fixture.index.put([entry(n, "a") for n in range(4, 8)])
    fixture.index.put([entry(8, "a")])
    assert "the index cannot be written" in fixture.index.error and fixture.find("a") == [300, 200, 100, 0]
    fixture.disk.heal()
    fixture.flush()
    assert fixture.index.error == "" and fixture.find("a", 3) == [800, 700, 600]
    fixture.disk.read_only = True
    monkeypatch.setattr("roquet.store.index.MEMORY_BYTES_MAX", 40)
    for number in range(9, 14):
        fixture.index.put([entry(number, "a")])
        fixture.flush()
    assert "stands still" in fixture.index.error
    fixture.disk.read_only = False
    fixture.flush()
    assert fixture.index.error and fixture.find("a", 1)[0] < 1300
    fixture.reopen(0)
    assert fixture.index.rebuild_from == fixture.index.last_log_offset < 1300
    fixture.index.put([entry(n, "a") for n in range(14)])
    assert fixture.find("a") == [n * 100 for n in reversed(range(14))]


def test_a_failed_sync_is_told_and_no_later_one_is_believed() -> None:
    fixture = Fixture()
    fixture.index.put([entry(1, "a")])
    fixture.disk.fail("sync", FOLDER, times=1)
    fixture.flush()
    fixture.flush()
    assert fixture.index.synced_ms == 0 and "synced" in fixture.index.error
    fixture.index.put([entry(2, "a")])
    assert fixture.find("a") == [200, 100]


def test_writing_out_goes_on_while_keys_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on disk between the parts of a round is always an earlier state."""
    monkeypatch.setattr("roquet.store.index_file.PAGES_A_TURN", 1)
    fixture = Fixture(slots=5000, max_entries=2000)
    number = 0

    class Busy(StillClock):
        async def sleep_until(self, when: float) -> None:
            nonlocal number
            number += 1
            fixture.index.put([entry(number, "a", f"k{number}")])
            twin = Fixture(slots=5000, max_entries=2000)
            twin.disk, twin.index = fixture.disk, fixture.index
            reader = twin.open(None)
            last = reader.last_log_offset // 100
            assert await reader.query("T", "a", 3, 0, FOREVER_MS) == [
                n * 100 for n in reversed(range(max(last - 2, 0), last + 1)) if last
            ]

    fixture.index._clock = Busy()
    for _ in range(5):
        number += 1
        fixture.index.put([entry(number, "a", *(f"{n * 7919}-{n * 104729}" for n in range(60)))])
        fixture.flush()
    assert number > 15


Batch = list[list[str]]
keys = st.lists(st.sampled_from("abcdefgh"), max_size=3, unique=True)
batches = st.lists(st.lists(keys, max_size=6), max_size=15)


@settings(max_examples=60, deadline=None)
@given(batches, st.integers(1, 9), st.integers(4, 30))
def test_agrees_with_a_dictionary(batches: list[Batch], slots: int, max_entries: int) -> None:
    fixture = Fixture(slots, max_entries)
    twin: defaultdict[str, list[int]] = defaultdict(list)
    number = 0
    for batch in batches:
        entries = []
        for words in batch:
            entries.append(entry(number, *words))
            for word in words:
                twin[word].insert(0, number * 100)
            number += 1
        fixture.index.put(entries)
        if number % 3 == 0:
            fixture.index.write_now()
    for word in "abcdefgh":
        assert fixture.find(word) == twin[word][:64]
    fixture.reopen()
    for word in "abcdefgh":
        assert fixture.find(word) == twin[word][:64]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(0, 60), st.sampled_from(["kill", "power"]), st.sampled_from([8, 60])
)
def test_a_death_at_any_write_is_repaired_by_putting_again(
    seed: int, change: int, death: str, max_entries: int
) -> None:
    fixture = Fixture(slots=4_000, max_entries=max_entries, seed=seed)
    first = [entry(n, "a", f"k{n % 7}") for n in range(20)]
    second = [entry(n, "a", f"k{n % 7}") for n in range(20, 50)]
    fixture.index.put(first)
    fixture.flush()
    safe_ms = max((header.end_ms for header in fixture.index.finished), default=0)
    fixture.disk.cut_at(change)
    with contextlib.suppress(PowerCut):
        for some in range(0, 30, 10):
            fixture.index.put(second[some : some + 10])
            fixture.flush()
    if death == "power":
        fixture.disk.crash()
    else:
        fixture.disk.kill()
    fixture.index = fixture.open(safe_ms)
    assert death == "power" or fixture.index.last_log_offset >= 1900
    for _ in range(2):
        rebuild_from = fixture.index.rebuild_from
        assert rebuild_from is not None
        fixture.index.put([e for e in first + second if e.log_offset >= rebuild_from])
        assert fixture.find("a") == [n * 100 for n in reversed(range(50))]
        assert fixture.find("k3") == [n * 100 for n in reversed(range(50)) if n % 7 == 3]
        fixture.reopen(0)
