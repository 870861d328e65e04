"""A killed store in Apache's hands: what its broker deletes of the index, its recovery files again.

`Apache` follows the rules of IndexService.load, IndexService.buildIndex and CommitLog.recoverAbnormally with
messageIndexSafe, as 5.5.0 has them; tests/process/test_carry_over.py asks the real one.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.store.format.checkpoint import decode_checkpoint
from roquet.store.format.index_page import (
    ENTRY,
    ENTRY_BYTES,
    HEADER,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    Geometry,
    Header,
    key_hash,
)
from roquet.store.logscan import LogScan, first_store_ms
from roquet.store.segments import Segments

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench

SLOTS, ENTRIES = 11, 40


class Apache:
    """What Apache's broker makes of the index of a store that was not closed."""

    def __init__(self, bench: StoreBench) -> None:
        disk, root = bench.disk, bench.settings.root_dir
        self._geometry = Geometry(SLOTS, ENTRIES)
        self.segments = Segments(disk, bench.settings.log_dir, bench.settings.log_file_size_bytes)
        self.segments.load()
        self.index_ms = decode_checkpoint(disk.read_file(f"{root}/checkpoint")).index_ms
        folder = bench.settings.index_dir
        files = [disk.read_file(f"{folder}/{entry.name}") for entry in disk.list_dir(folder)]
        headers = [Header(*HEADER.unpack_from(data)) for data in files]
        self.kept = [
            (header, data)
            for header, data in zip(headers, files, strict=True)
            if header.end_ms <= self.index_ms
        ]
        self.deleted = len(files) - len(self.kept)

    @property
    def reads_from(self) -> int:
        """The log offset from which records are filed again."""
        starts = self.segments.starts
        safe = [start for start in starts if 0 < first_store_ms(self.segments, start) <= self.index_ms]
        filed_before = self.kept[-1][0].end_log_offset if self.kept else 0
        return max(safe[-1] if safe else starts[0], filed_before)

    def finds(self, hashed: int, log_offset: int) -> bool:
        return any(self._walk(header, data, hashed, log_offset) for header, data in self.kept)

    def _walk(self, header: Header, data: bytes, hashed: int, log_offset: int) -> bool:
        number = SLOT.unpack_from(data, HEADER_BYTES + hashed % SLOTS * SLOT_BYTES)[0]
        while 0 < number <= header.next_number:
            assert self._geometry.entry_position(number) + ENTRY_BYTES <= len(data)
            word, found, _, number = ENTRY.unpack_from(data, self._geometry.entry_position(number))
            if (word, found) == (hashed, log_offset):
                return True
        return False


async def work(bench: StoreBench, rng: random.Random) -> None:
    """Append messages with one to four keys, in bursts that share their milliseconds."""
    store = bench.store()
    await store.start()
    number = 0
    while True:
        for _ in range(rng.randrange(1, 30)):
            number += 1
            keys = tuple(f"k{number}-{copy}" for copy in range(rng.randrange(1, 5)))
            extra = f"KEYS\x01{' '.join(keys)}\x02".encode()
            size = rng.choice((10, 700, 3_000))
            draft = bench.draft(bytes(size), extra=extra)._replace(keys=keys)
            store.append([draft], lambda _answer: None)
        await bench.clock.sleep_until(bench.clock.monotonic() + rng.choice((0.0, 0.001, 0.3)))


def check(bench: StoreBench) -> Apache:
    bench.run(bench.clock.sleep_until(bench.clock.monotonic()))  # what was killed comes to its end
    apache = Apache(bench)
    reads_from = apache.reads_from
    for stretch in LogScan(apache.segments, bench.settings).records(apache.segments.min_offset):
        for entry in stretch:
            for key in entry.keys if entry.log_offset < reads_from else ():
                assert apache.finds(key_hash(entry.topic, key), entry.log_offset), (key, reads_from)
    for header, _ in apache.kept:
        # Into a file that has room Apache would write, and so take it out of what is vouched for.
        is_full = header.next_number >= ENTRIES
        assert is_full or header.next_number <= 1 or header.begin_ms == apache.index_ms
    return apache


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 32))
def test_apache_finds_every_key_after_a_kill(bench_type: type[StoreBench], seed: int) -> None:
    bench = bench_type(seed)
    bench.change(index_slot_count=SLOTS, index_entry_count=ENTRIES)
    bench.disk.sync_delay_s = 0.004
    rng = bench.world.rng
    for _ in range(3):
        bench.world.power_on("broker")
        bench.world.start("broker", work(bench, rng))
        life_s = rng.choice((0.01, 0.3, 1.01, 3.0))
        bench.run(bench.clock.sleep_until(bench.clock.monotonic() + life_s))
        bench.world.kill("broker")
        check(bench)


def test_a_full_file_is_vouched_for_within_seconds(bench: StoreBench) -> None:
    bench.change(index_slot_count=SLOTS, index_entry_count=ENTRIES)
    bench.world.start("broker", work(bench, bench.world.rng))
    bench.run(bench.clock.sleep_until(bench.clock.monotonic() + 5.0))
    bench.world.kill("broker")
    apache = check(bench)
    assert apache.index_ms > 0 and len(apache.kept) > apache.deleted
