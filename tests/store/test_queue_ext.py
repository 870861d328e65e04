"""Extensions of queues: what they hold, what a damaged one means, and that addresses never come twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.model.match import Match, Noted
from roquet.model.message import Entry, Host, java_hash
from roquet.model.status import GetStatus
from roquet.store.format import record
from roquet.store.format.queue_ext import is_address, position_of
from roquet.store.store import Store

if TYPE_CHECKING:
    from tests.store.conftest import StoreBench

ON = {"queue_ext_enable": True, "queue_ext_file_size_bytes": 500}
FOLDER = "/store/consumequeue_ext"
RED, EVEN = 3, 12


def bits_of(entry: Entry) -> bytes:
    """Bit 3 for red messages, bit 12 for those with an even body."""
    bits = (1 << RED) * (b"color\x01red\x02" in entry.properties) | (1 << EVEN) * (
        entry.queue_offset % 2 == 0
    )
    return bits.to_bytes(2, "little")


def wants_red(born_ms: int = 0) -> Noted:
    return Noted(lambda properties: b"color\x01red\x02" in properties, born_ms, 16, (RED,))


def opened(bench: StoreBench, is_on: bool = True) -> Store:
    bench.change(**(ON | {"queue_ext_enable": is_on}))
    store = Store(bench.disk, bench.clock, bench.settings, bench_host(), bench.world.loop.call_soon, 4711)
    store.note_bits(bits_of)
    store.open()
    return store


def bench_host() -> Host:
    return Host(bytes([127, 0, 0, 2]), 10_911)


async def fill(bench: StoreBench, store: Store, count: int, topic: str = "orders") -> None:
    """Append messages of which each third is red; those are tagged, too."""
    for number in range(count):
        extra = b"color\x01red\x02" if number % 3 == 0 else b"color\x01blue\x02"
        tag = "red" if number % 3 == 0 else "blue"
        await bench.append(store, bench.draft(b"%d" % number, topic, tag=tag, extra=extra))


async def selected(store: Store, match: Match, topic: str = "orders") -> list[bytes]:
    """Read a whole queue and return the bodies, the same whether the reads wait or not."""
    found: list[bytes] = []
    at = store.min_offset(topic, 0)
    while at < store.max_offset(topic, 0):
        got = await store.read(topic, 0, at, 32, 1 << 20, match)
        hot = store.read_hot(topic, 0, at, 32, 1 << 20, match)
        assert hot is None or (hot.status, list(hot.records)) == (got.status, list(got.records))
        assert got.status in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE)
        found += [record.decode(data).body for data in got.records]
        at = got.next_offset
    return found


async def addresses(store: Store, topic: str = "orders") -> list[int]:
    high = store.max_offset(topic, 0)
    low = store.min_offset(topic, 0)
    return [entry.tag_code for entry, _ in await store.queue_units(topic, 0, low, high - low)]


def reds(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(0, count, 3)]


REDS = frozenset((java_hash("red"),))


def test_readers_see_the_same_with_and_without_an_extension(bench: StoreBench) -> None:
    async def main() -> None:
        store = opened(bench)
        await store.start()
        for round_number in (1, 2, 3):
            await fill(bench, store, 30)
            expected = [*reds(30) * round_number]
            assert await selected(store, wants_red()) == expected
            assert await selected(store, REDS) == expected
            assert len(await selected(store, None)) == 30 * round_number
            await bench.check_queues_equal_log(store)
            await bench.clock.sleep_until(bench.clock.monotonic() + 2)
        assert all(map(is_address, await addresses(store)))
        await store.close()

    bench.run(main())


def test_a_selector_reads_only_what_the_bits_leave(bench: StoreBench) -> None:
    async def main() -> None:
        store = opened(bench)
        await fill(bench, store, 40)
        looked: list[bytes] = []

        def accept(properties: bytes) -> bool:
            looked.append(properties)
            return b"red" in properties

        assert await selected(store, Noted(accept, 0, 16, (RED,))) == reds(40)
        assert all(b"color\x01red" in each for each in looked) and looked
        # Who was not there yet, or has another filter, has to look at everything.
        for match in (Noted(accept, bench.clock.now_ms() + 1, 16, (RED,)), Noted(accept, 0, 24, (RED,))):
            looked.clear()
            assert await selected(store, match) == reds(40)
            assert any(b"color\x01blue" in each for each in looked)
        await store.close()

    bench.run(main())


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_restart_goes_on_behind_the_last_unit(bench: StoreBench, is_clean: bool) -> None:
    before: list[int] = []

    async def first_life() -> None:
        store = opened(bench)
        await store.start()
        await fill(bench, store, 30)
        await bench.clock.sleep_until(bench.clock.monotonic() + 1.5)
        await fill(bench, store, 12)
        before.extend(await addresses(store))
        if is_clean:
            await store.close()

    async def second_life() -> None:
        again = opened(bench)
        await fill(bench, again, 30)
        after = await addresses(again)
        assert after[:42] == before
        assert after == sorted(set(after))
        steps = {later - earlier for earlier, later in zip(after, after[1:], strict=False)}
        assert min(steps) == 22  # a unit with 16 bits
        assert await selected(again, wants_red()) == reds(30) + reds(12) + reds(30)
        await again.close()

    bench.world.start("broker", first_life())
    bench.run(bench.clock.sleep_until(bench.clock.monotonic() + 5))
    assert len(before) == 42
    bench.world.kill("broker")
    bench.run(second_life())


async def live(bench: StoreBench, is_on: bool, count: int, end: asyncio.Event) -> None:
    """Check what an earlier life left, add to it, and stop in order when told to."""
    store = opened(bench, is_on)
    await store.start()
    # Without bits: what a power cut took, of the log or of a last record's properties, nobody gets.
    expected = await selected(store, lambda properties: b"color\x01red\x02" in properties)
    assert await selected(store, wants_red()) == expected
    tagged = await selected(store, lambda properties: b"TAGS\x01red\x02" in properties)
    assert await selected(store, REDS) == tagged
    await bench.check_queues_equal_log(store)
    await fill(bench, store, count)
    assert await selected(store, wants_red()) == expected + reds(count)
    after = [code for code in await addresses(store) if is_address(code)]
    assert after == sorted(set(after))
    await end.wait()
    await store.close()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_power_cuts_and_switches_lose_nobody_a_message(bench_type: type[StoreBench], seed: int) -> None:
    bench = bench_type(seed)
    rng = bench.world.rng
    for _ in range(4):
        end = asyncio.Event()
        bench.world.power_on("broker")
        life = bench.world.start("broker", live(bench, rng.random() < 0.7, rng.randrange(1, 60), end))
        bench.run(bench.clock.sleep_until(bench.clock.monotonic() + rng.choice((0.001, 0.5, 2, 70))))
        how = rng.randrange(3)
        if how == 0:
            end.set()
            bench.run(bench.clock.sleep_until(bench.clock.monotonic() + 5))
            assert life.done()
            bench.world.kill("broker")
        elif how == 1:
            bench.world.kill("broker")
        else:
            bench.world.power_cut("broker")


@pytest.mark.parametrize("damage", ["gone", "one file gone", "zeros", "short", "noise", "other size"])
@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
def test_damaged_files_cost_time_and_no_message(bench: StoreBench, damage: str, is_on: bool) -> None:
    async def main() -> None:
        store = opened(bench)
        await fill(bench, store, 90)
        await store.close()
        last_before = max(await _addresses_of_a_closed(bench))
        files = sorted(file.name for file in bench.disk.list_dir(f"{FOLDER}/orders/0"))
        assert len(files) > 3
        spoil(bench, damage, files)
        again = opened(bench, is_on)
        assert await selected(again, wants_red()) == reds(90)
        if damage != "noise":
            assert set(reds(90)) <= set(await selected(again, REDS))
            await bench.check_queues_equal_log(again)
        await fill(bench, again, 20)
        assert await selected(again, wants_red()) == reds(90) + reds(20)
        fresh = (await addresses(again))[90:]
        assert all(is_address(code) and code > last_before for code in fresh) or not is_on
        await again.close()
        third = opened(bench, is_on)
        assert await selected(third, wants_red()) == reds(90) + reds(20)
        await third.close()

    bench.run(main())


async def _addresses_of_a_closed(bench: StoreBench) -> list[int]:
    store = opened(bench)
    found = await addresses(store)
    await store.close()
    return found


def spoil(bench: StoreBench, damage: str, files: list[str]) -> None:
    paths = [f"{FOLDER}/orders/0/{name}" for name in files]
    if damage == "gone":
        bench.disk.remove_tree(FOLDER)
    elif damage == "one file gone":
        bench.disk.remove(paths[-1])
    elif damage == "zeros":
        for path in paths:
            bench.disk.write_file(path, bytes(500))
    elif damage == "short":
        bench.disk.write_file(paths[1], bench.disk.read_file(paths[1])[:77])
    elif damage == "noise":
        for path in paths:  # a size that is no unit's, wherever one begins
            bench.disk.write_file(path, b"\x00\x99" * 250)
    else:
        for path in paths:
            bench.disk.write_file(path, bench.disk.read_file(path) * 2)


def test_old_files_go_with_the_log(bench: StoreBench) -> None:
    async def main() -> None:
        bench.change(file_reserved_hours=1)
        store = opened(bench)
        await store.start()
        await fill(bench, store, 300)
        await bench.clock.sleep_until(bench.clock.monotonic() + 2)
        first = bench.disk.list_dir(f"{FOLDER}/orders/0")[0].name
        bench.clock.jump_ms(2 * 3_600_000)
        await fill(bench, store, 5)
        assert await store.delete_expired_log() > 0
        low = store.min_offset("orders", 0)
        assert low > 0
        left = [int(file.name) for file in bench.disk.list_dir(f"{FOLDER}/orders/0")]
        assert left[0] > int(first)
        assert left[0] <= position_of((await addresses(store))[0]) < left[0] + 500
        expected = [body for body in reds(300) if int(body) >= low] + reds(5)
        assert await selected(store, wants_red()) == expected
        await store.close()

    bench.run(main())


def test_a_deleted_topic_takes_its_extension_along(bench: StoreBench) -> None:
    async def main() -> None:
        store = opened(bench)
        await fill(bench, store, 30)
        await fill(bench, store, 30, "others")
        await store.close()
        store = opened(bench)
        assert store.delete_topic("orders")
        assert [folder.name for folder in bench.disk.list_dir(FOLDER)] == ["others"]
        await fill(bench, store, 9)
        assert position_of((await addresses(store))[0]) == 0
        assert await selected(store, wants_red()) == reds(9)
        await store.close()

    bench.run(main())


def test_a_unit_that_no_file_can_hold_leaves_the_tag_code(bench: StoreBench) -> None:
    async def main() -> None:
        bench.change(queue_ext_enable=True, queue_ext_file_size_bytes=500)
        store = opened(bench)
        store.note_bits(lambda entry: bytes(600))
        await fill(bench, store, 6)
        assert await addresses(store) == [
            java_hash("red" if number % 3 == 0 else "blue") for number in range(6)
        ]
        store.note_bits(lambda entry: b"")
        await fill(bench, store, 6)
        assert all(map(is_address, (await addresses(store))[6:]))
        assert await selected(store, wants_red()) == reds(6) * 2
        await store.close()

    bench.run(main())


def test_without_the_setting_there_is_no_extension(bench: StoreBench) -> None:
    async def main() -> None:
        store = opened(bench, False)
        await fill(bench, store, 6)
        assert not any(map(is_address, await addresses(store)))
        await store.close()
        assert not bench.disk.exists(FOLDER)

    bench.run(main())


def test_a_time_of_delivery_is_had_again_from_the_log(bench: StoreBench) -> None:
    topic = "SCHEDULE_TOPIC_XXXX"

    async def main() -> None:
        store = opened(bench)
        answer = await bench.append(store, bench.draft(b"later", topic, 2, extra=b"DELAY\x013\x02"))
        due = [entry.tag_code for entry in await store.queue_entries(topic, 2, 0, 1)]
        assert due == [answer.store_ms + 10_000]
        await store.close()
        bench.disk.remove_tree(FOLDER)
        for is_on in (False, True):
            again = opened(bench, is_on)
            assert [entry.tag_code for entry in await again.queue_entries(topic, 2, 0, 1)] == due
            await again.close()

    bench.run(main())
