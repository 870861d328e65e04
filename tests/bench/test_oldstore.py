"""The log that recovery is measured with is a log: every record is whole and in its place."""

from pathlib import Path

from bench.oldstore import QUEUES, OldStore, write_log
from roquet.store.format.record import Stop, scan
from roquet.store.settings import DELAY_LEVELS_MS

SIZE_BYTES = 1 << 20


def test_a_small_log_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "log"
    count = write_log(file, SIZE_BYTES)
    data = file.read_bytes()
    assert len(data) == SIZE_BYTES
    found = scan(data, 0, SIZE_BYTES, True, DELAY_LEVELS_MS, count + 1)
    assert (len(found.entries), found.stop) == (count, Stop.FILE_END)
    assert 280 < found.end_offset / count < 340
    for number, entry in enumerate(found.entries):
        assert (entry.queue_id, entry.queue_offset) == (number % QUEUES, number // QUEUES)
        assert entry.keys and entry.keys[0].endswith(f"{number:016X}")
    times = [entry.store_ms for entry in found.entries]
    assert times == sorted(times)


def test_queues_get_their_share() -> None:
    store = OldStore(Path(), 2 * QUEUES + 3)
    assert [store.in_queue(queue_id) for queue_id in (0, 2, 3, QUEUES - 1)] == [3, 3, 2, 2]
    assert sum(map(store.in_queue, range(QUEUES))) == store.records
