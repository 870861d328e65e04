"""The store from outside: what goes in comes out, under the statuses that Apache gives."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from roquet.model.message import Entry, Host, SysFlag, java_hash
from roquet.model.status import Appended, Boundary, GetStatus, PutStatus
from roquet.store.format import record
from roquet.store.segments import StoreDamaged
from roquet.store.store import Store

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench


def test_a_message_comes_back_as_it_was_sent(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        answer = await bench.append(store, bench.draft(b"hello", tag="red", key="k1"))
        assert answer.status is PutStatus.PUT_OK
        assert (list(answer.log_offsets), answer.queue_offset) == ([0], 0)
        got = store.read_hot("orders", 0, 0, 32, 1 << 20)
        assert got is not None and got.status is GetStatus.FOUND
        assert (got.next_offset, got.min_offset, got.max_offset) == (1, 0, 1)
        opened = record.decode(got.records[0])
        assert (opened.body, opened.properties) == (b"hello", b"TAGS\x01red\x02UNIQ_KEY\x01k1\x02")
        assert opened.size_bytes == answer.size_bytes == got.size_bytes == store.log_max_offset
        assert opened.store_ms == answer.store_ms == bench.clock.now_ms()
        await store.close()

    bench.run(main())


def test_nothing_is_answered_before_the_write_and_a_turn_is_one_write(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        answers: list[Appended] = []
        for number in range(3):
            store.append([bench.draft(b"%d" % number)], answers.append)
        assert not answers and store.log_max_offset == 0
        last = await bench.append(store, bench.draft())
        assert [answer.queue_offset for answer in answers] == [0, 1, 2] and last.queue_offset == 3

    bench.run(main())


@pytest.mark.parametrize(
    ("offset", "status", "following"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (2, GetStatus.FOUND, 3),
        (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
def test_read_statuses(bench: StoreBench, offset: int, status: GetStatus, following: int) -> None:
    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 3)
        got = await store.read("orders", 0, offset, 32, 1 << 20)
        assert (got.status, got.next_offset, got.min_offset, got.max_offset) == (status, following, 0, 3)
        hot = store.read_hot("orders", 0, offset, 32, 1 << 20)
        assert hot is not None and hot._replace(pieces=()) == got._replace(pieces=())
        assert b"".join(hot.pieces) == b"".join(got.pieces) == b"".join(got.records)

    bench.run(main())


def test_a_queue_that_was_never_written_is_empty_and_stays_unknown(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        got = await store.read("ghost", 7, 0, 32, 1 << 20)
        assert got.status is GetStatus.NO_MESSAGE_IN_QUEUE and got.next_offset == 0
        assert (store.topics(), store.max_offset("ghost", 7)) == ([], 0)

    bench.run(main())


def test_tags_are_filtered_by_code(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        for tag in ("red", "blue", "red", "green"):
            await bench.append(store, bench.draft(tag=tag, body=tag.encode()))
        red = frozenset([java_hash("red")])
        got = await store.read("orders", 0, 0, 32, 1 << 20, red)
        assert [record.decode(data).body for data in got.records] == [b"red", b"red"]
        assert got.next_offset == 4
        none = await store.read("orders", 0, 3, 32, 1 << 20, red)
        assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 4)

    bench.run(main())


def test_old_messages_come_in_smaller_batches_than_recent_ones(bench: StoreBench) -> None:
    bench.change(physical_memory_bytes=10_000, transfer_count_on_disk_max=8, transfer_count_in_memory_max=32)

    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 100)
        old = await store.read("orders", 0, 0, 100, 1 << 20)
        recent = await store.read("orders", 0, 65, 100, 1 << 20)
        assert (len(old.records), old.suggest_slave) == (8, True)
        assert (len(recent.records), recent.suggest_slave) == (32, False)
        assert not store.check_in_memory("orders", 0, 0) and store.check_in_memory("orders", 0, 99)

    bench.run(main())


def test_the_log_rolls_with_a_blank_and_every_file_has_its_length(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await store.start()
        for number in range(40):
            answer = await bench.append(store, bench.draft(b"x" * 1_000 + b"%02d" % number))
            assert answer.log_offsets[0] % 16_384 + answer.size_bytes + 8 <= 16_384
        assert [body[1_000:] for body in await bench.bodies(store)] == [b"%02d" % n for n in range(40)]
        await bench.check_queues_equal_log(store)
        await store.close()
        files = bench.disk.list_dir("/store/commitlog")
        assert {file.size_bytes for file in files} == {16_384}
        first = bench.disk.read_file("/store/commitlog/00000000000000000000")
        free = 16_384 - 14 * record.scan(first, 0, 16_384, True, (), 1).entries[0].size_bytes
        assert first[16_384 - free :][:8] == free.to_bytes(4, "big") + bytes.fromhex("cbd43194")
        # The file that was made ahead of need is gone.
        assert int(files[-1].name) < store.log_max_offset

    bench.run(main())


def test_a_batch_lies_in_one_file_and_gets_consecutive_offsets(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await bench.append(store, bench.draft(b"x" * 8_000))
        answer = await bench.append(store, *[bench.draft(b"y" * 3_000) for _ in range(4)])
        assert answer.status is PutStatus.PUT_OK and answer.queue_offset == 1
        assert answer.log_offsets[0] == 16_384 and len(answer.log_offsets) == 4
        assert store.max_offset("orders", 0) == 5
        too_much = await bench.append(store, *[bench.draft(b"y" * 6_000) for _ in range(3)])
        assert too_much.status is PutStatus.MESSAGE_ILLEGAL
        assert store.max_offset("orders", 0) == 5 and len(await bench.bodies(store)) == 5

    bench.run(main())


def test_prepared_and_rolled_back_records_have_no_queue_entry(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        seen: list[Entry] = []
        store.listeners.append(seen.extend)
        for flag in (SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_MASK, SysFlag.TRANSACTION_COMMIT, 0):
            await bench.append(store, bench.draft()._replace(sys_flag=int(flag)))
        assert store.max_offset("orders", 0) == 2
        assert [entry.queue_offset for entry in seen] == [0, 0, 0, 1]
        await bench.check_queues_equal_log(store)

    bench.run(main())


def test_what_cannot_be_stored_is_refused_with_the_reason(bench: StoreBench) -> None:
    cases = [
        (bench.draft(b"x" * 8_193), PutStatus.MESSAGE_ILLEGAL, "8193 bytes"),
        (bench.draft(topic="t" * 128), PutStatus.MESSAGE_ILLEGAL, "128 characters"),
        (bench.draft(topic="%RETRY%" + "t" * 249), PutStatus.MESSAGE_ILLEGAL, "cannot name"),
        (bench.draft(topic="../etc"), PutStatus.MESSAGE_ILLEGAL, "cannot name"),
        (bench.draft(queue_id=-1), PutStatus.MESSAGE_ILLEGAL, "cannot name"),
        (bench.draft(extra=b"k\x01" + b"v" * 32_768), PutStatus.PROPERTIES_SIZE_EXCEEDED, "properties"),
    ]

    async def main() -> None:
        store = bench.store()
        for bad, status, reason in cases:
            answer = await bench.append(store, bench.draft(), bad)
            assert answer.status is status and reason in answer.reason
        assert store.log_max_offset == 0
        long = bench.draft(topic="%RETRY%" + "t" * 200)
        assert (await bench.append(store, long)).status is PutStatus.PUT_OK
        await store.close()
        assert (await bench.append(store, bench.draft())).status is PutStatus.SERVICE_NOT_AVAILABLE

    bench.run(main())


def test_store_times_never_go_back(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        first = await bench.append(store, bench.draft())
        bench.clock.jump_ms(-5_000)
        second = await bench.append(store, bench.draft())
        assert second.store_ms == first.store_ms

    bench.run(main())


def test_offsets_by_time(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        times = []
        for step in (0, 0, 10, 0, 10):
            bench.clock.jump_ms(step)
            times.append((await bench.append(store, bench.draft())).store_ms)
        start = times[0]
        find = store.offset_by_time
        assert [await find("orders", 0, start + ms) for ms in (-1, 0, 5, 10, 20, 21)] == [0, 0, 2, 2, 4, 5]
        upper = [await find("orders", 0, start + ms, Boundary.UPPER) for ms in (-1, 0, 5, 10, 20, 21)]
        assert upper == [0, 1, 1, 3, 4, 4]
        assert await store.store_time("orders", 0, 2) == start + 10
        assert await store.store_time("orders", 0, 5) is None
        assert await store.earliest_store_time("orders", 0) == start
        assert await store.earliest_store_time("ghost", 0) is None

    bench.run(main())


def test_records_by_place_and_by_key(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        answers = [await bench.append(store, bench.draft(b"%d" % n, key=f"k{n % 2}")) for n in range(6)]
        place = answers[3].log_offsets[0]
        data = await store.record_at(place)
        assert data is not None and record.decode(data).body == b"3"
        for wrong in (place + 1, -1, store.log_max_offset, 1 << 40):
            assert await store.record_at(wrong) is None
        found = await store.query("orders", "k1", 32, 0, 1 << 60)
        assert [record.decode(data).body for data in found.records] == [b"1", b"3", b"5"]
        assert found.index_last_log_offset == answers[-1].log_offsets[0]
        assert found.index_last_ms == answers[-1].store_ms

    bench.run(main())


def test_a_record_inside_of_a_body_is_not_given_out(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        here = Host(bytes(4), 1)
        inner_at = 88  # where the body of the first record begins
        forged = record.encode(bench.draft(b"forged", "bank", 0), 0, inner_at, 1, here)
        await bench.append(store, bench.draft(forged))
        await bench.append(store, bench.draft(b"real", "bank", 0))
        assert bench.disk.read_file("/store/commitlog/00000000000000000000")[inner_at:].startswith(forged)
        assert await store.record_at(inner_at) is None

    bench.run(main())


def test_a_deleted_topic_begins_again_at_zero_also_after_a_crash(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 60)
        assert store.delete_topic("orders") and not store.delete_topic("orders")
        assert store.topics() == [] and not bench.disk.exists("/store/consumequeue/orders")
        await bench.append(store, bench.draft(b"new"))
        assert await bench.bodies(store) == [b"new"]
        bench.disk.kill()
        again = bench.store()
        assert await bench.bodies(again) == [b"new"]

    bench.run(main())


def test_delay_entries_carry_the_time_of_delivery(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        delayed = bench.draft(topic=record.DELAY_TOPIC, queue_id=2, extra=b"DELAY\x013\x02")
        answer = await bench.append(store, delayed)
        (entry,) = await store.queue_entries(record.DELAY_TOPIC, 2, 0, 1)
        assert entry.tag_code == answer.store_ms + 10_000
        bench.disk.kill()
        again = bench.store()
        assert await again.queue_entries(record.DELAY_TOPIC, 2, 0, 1) == [entry]

    bench.run(main())


def test_a_second_process_is_refused(bench: StoreBench) -> None:
    bench.store()
    with pytest.raises(BlockingIOError):
        bench.store()


def test_a_wrong_file_size_is_refused_and_nothing_changes(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 3)
        await store.close()

    bench.run(main())
    other = Store(
        bench.disk, bench.clock, replace(bench.settings, log_file_size_bytes=8_192), Host(bytes(4), 1), print
    )
    with pytest.raises(StoreDamaged, match="16384 bytes instead of 8192"):
        other.open()
    assert not bench.disk.exists("/store/abort")
    assert bench.run(bench.bodies(bench.store())) == [b"0", b"1", b"2"]


def test_a_full_disk_refuses_and_the_store_recovers_by_itself(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 5)
        bench.disk.fail("write", "commitlog", errno.ENOSPC, 1)
        lost: list[Appended] = []
        for _ in range(3):
            store.append([bench.draft(b"lost" * 100)], lost.append)
        answer = await bench.append(store, bench.draft(b"lost"))
        assert answer.status is PutStatus.SERVICE_NOT_AVAILABLE and "No space left" in answer.reason
        assert [one.status for one in lost] == [PutStatus.SERVICE_NOT_AVAILABLE] * 3
        kept = await bench.append(store, bench.draft(b"kept"))
        assert (kept.status, kept.queue_offset) == (PutStatus.PUT_OK, 5)
        bench.disk.kill()
        again = bench.store()
        assert await bench.bodies(again) == [b"0", b"1", b"2", b"3", b"4", b"kept"]
        await bench.check_queues_equal_log(again)

    bench.run(main())


def test_half_a_write_before_the_disk_was_full_is_never_read(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await bench.fill(store, 1)
        # Room for one more page of the three that these records take.
        used = bench.disk.usage("/store").used_bytes
        bench.disk.capacity_bytes = used + 4_096
        lost: list[Appended] = []
        for _ in range(3):
            store.append([bench.draft(b"l" * 3_000)], lost.append)
        await bench.append(store, bench.draft(b"lost"))
        assert [one.status for one in lost] == [PutStatus.SERVICE_NOT_AVAILABLE] * 3
        bench.disk.capacity_bytes = 1 << 40
        # As long as the first lost one: what follows it in the file would begin exactly behind.
        await bench.append(store, bench.draft(b"k" * 3_000))
        bench.disk.kill()
        again = bench.store()
        assert await bench.bodies(again) == [b"0", b"k" * 3_000]

    bench.run(main())


def test_queues_that_cannot_be_written_stop_appends_until_they_can(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        await store.start()
        await bench.fill(store, 2)
        bench.disk.fail("write", "consumequeue", errno.ENOSPC)
        await bench.clock.sleep_until(bench.clock.monotonic() + 2)
        assert not store.is_writable and "consumequeue" in store.refusal
        assert await bench.bodies(store) == [b"0", b"1"]
        bench.disk.heal()
        await bench.clock.sleep_until(bench.clock.monotonic() + 2)
        assert store.is_writable
        await store.close()
        assert not bench.disk.exists("/store/abort")

    bench.run(main())


def test_settings_change_while_it_runs(bench: StoreBench) -> None:
    async def main() -> None:
        store = bench.store()
        store.configure(replace(bench.settings, message_size_bytes_max=10))
        assert (await bench.append(store, bench.draft(b"x" * 11))).status is PutStatus.MESSAGE_ILLEGAL
        store.configure(bench.settings)
        assert (await bench.append(store, bench.draft(b"x" * 11))).status is PutStatus.PUT_OK

    bench.run(main())


def test_an_answer_that_raises_does_not_keep_the_others(bench: StoreBench) -> None:
    errors: list[object] = []
    bench.world.loop.set_exception_handler(lambda _, details: errors.append(details["exception"]))

    def broken(_: Appended) -> None:
        raise RuntimeError("the answer")

    async def main() -> None:
        store = bench.store()
        store.append([bench.draft()], broken)
        answer = await bench.append(store, bench.draft())
        assert answer.queue_offset == 1

    bench.run(main())
    assert [str(error) for error in errors] == ["the answer"]
