"""The pure parts of the timer: what is asked for, which slot that is, handles, counts, the wheel's search."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.broker.features.timer import terms
from roquet.broker.features.timer.handle import Handle, format_handle, parse_handle
from roquet.broker.features.timer.metrics import Metrics
from roquet.broker.features.timer.wheel import Wheel
from roquet.model.message import Draft, Host
from roquet.sim.disk import SimDisk
from roquet.store.format.timer_wheel import SLOTS, Slot

NOW_MS = 1_700_000_000_123
DRAFT = Draft("t", 0, b"", b"", 0, 0, 0, Host(b"\0\0\0\0", 0))


def test_the_first_of_the_three_properties_says_when() -> None:
    every = {"TIMER_DELIVER_MS": "5", "TIMER_DELAY_MS": "7", "TIMER_DELAY_SEC": "2"}
    assert terms.deliver_ms(every, NOW_MS) == NOW_MS + 2_000
    del every["TIMER_DELAY_SEC"]
    assert terms.deliver_ms(every, NOW_MS) == NOW_MS + 7
    del every["TIMER_DELAY_MS"]
    assert terms.deliver_ms(every, NOW_MS) == 5


@pytest.mark.parametrize("text", ["", "x", "1.5", "0x10", "1 ", "٣", "9" * 19, "--1"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        terms.deliver_ms({"TIMER_DELAY_MS": text}, NOW_MS)


@pytest.mark.parametrize(
    ("properties", "sys_flag", "is_asked"),
    [
        ({}, 0, False),
        ({"TIMER_DELAY_MS": "1"}, 0, True),
        ({"TIMER_DELAY_MS": "1"}, 8, True),  # a transaction that was committed
        ({"TIMER_DELAY_MS": "1"}, 4, False),  # a half
        ({"TIMER_DELAY_MS": "1", "TIMER_OUT_MS": "1"}, 0, False),  # it comes back from the timer
        ({"TIMER_DELAY_MS": "1", "DELAY": "3"}, 0, False),
        ({"TIMER_DELAY_MS": "1", "DELAY": "0"}, 0, True),
        ({"TIMER_DELAY_MS": "1", "DELAY": "-1"}, 0, True),
    ],
)
def test_which_messages_are_timed(properties: dict[str, str], sys_flag: int, is_asked: bool) -> None:
    assert terms.is_asked(DRAFT._replace(sys_flag=sys_flag), properties) is is_asked


@given(st.integers(1, 2**42), st.sampled_from([1, 100, 200, 500, 1000]))
def test_a_slot_is_served_when_its_messages_are_due_and_at_most_one_precision_later(
    ms: int, precision_ms: int
) -> None:
    served_ms = terms.rounded(ms, precision_ms) + precision_ms
    assert ms <= served_ms < ms + precision_ms


@given(st.integers(0, 10**9), st.integers(2, 1000), st.sampled_from([100, 1000]))
def test_a_message_reaches_its_slot_by_stops_within_the_window(
    ahead_ms: int, window: int, precision_ms: int
) -> None:
    write_ms = 1_700_000_000_000
    out_ms = write_ms + ahead_ms // 1_000 * precision_ms
    slot_ms, is_roll = terms.place(out_ms, write_ms, window, precision_ms)
    assert write_ms <= slot_ms <= out_ms
    assert slot_ms - write_ms <= window * precision_ms
    assert is_roll == (slot_ms != out_ms)
    if is_roll:
        assert slot_ms > write_ms or window < 2


@given(st.integers(1, 10**6))
def test_what_is_overdue_takes_the_newest_slot_that_is_served_at_once(late_slots: int) -> None:
    write_ms = 1_700_000_000_000
    assert terms.place(write_ms - late_slots * 1000, write_ms, 100, 1000) == (write_ms - 1000, False)


def test_a_window_out_of_range_is_the_largest() -> None:
    assert [terms.window_slots(asked) for asked in (0, 1, 2, 172_800, 10**7)] == [
        604_740,
        604_740,
        2,
        172_800,
        604_740,
    ]


def test_markers_name_a_message_in_both_forms() -> None:
    assert terms.cancelled({"REAL_TOPIC": "t", "TIMER_DEL_UNIQKEY": "k+1"}) == ("t", "k+1")
    assert terms.cancelled({"REAL_TOPIC": "t", "TIMER_DEL_UNIQKEY": "t+k+1"}) == ("t", "k+1")


def test_a_handle_is_what_apache_gives() -> None:
    handle = "djEgVGltZWQgYnJva2VyLWEgMTc5NDczNjIyNjAwMSA3RjAwMDAwMTAwMDEwMDAwMDAwMDAwMDAwMDAwMDAwMA=="
    unique_key = "7F000001000100000000000000000000"
    assert format_handle("Timed", "broker-a", 1_794_736_226_000, unique_key) == handle
    assert parse_handle(handle) == Handle("Timed", "broker-a", 1_794_736_226_001, unique_key)
    assert terms.rounded(parse_handle(handle).ms, 1000) == 1_794_736_226_000


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin1")))
def test_any_other_text_is_no_handle(text: str) -> None:
    try:
        parse_handle(text)
    except ValueError as error:
        assert str(error) == "recall handle is invalid"


def test_counts_are_kept_while_somebody_waits() -> None:
    metrics = Metrics()
    metrics.add("a", 1, 5)
    metrics.add("b", 1, 6)
    metrics.add("a", -1, 7)
    assert metrics.dump()["timingCount"] == {"b": {"count": 1, "timeStamp": 6}}
    again = Metrics()
    again.load(metrics.dump())
    assert (again.counts, again.version) == (metrics.counts, metrics.version)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 3))
def test_the_search_finds_the_first_slot_as_a_plain_table_would(seed: int, laps: int) -> None:
    async def run() -> None:
        rng = random.Random(seed)
        disk = SimDisk(rng)
        disk.make_dirs("/store")
        wheel = Wheel(disk, "/store/timerwheel")
        assert not wheel.open()
        base = 1_700_000_000
        twin: dict[int, int] = {}
        for _ in range(12):
            tick = base + rng.choice([rng.randrange(5_000), rng.randrange(SLOTS * (laps + 1))])
            wheel.put(Slot(tick, 0, 0, 1))
            twin[tick % SLOTS] = tick
            if rng.random() < 0.3:
                await wheel.flush()
            if rng.random() < 0.2:
                gone = rng.choice(list(twin.values()))
                wheel.free(gone)
                del twin[gone % SLOTS]
            begin = base + rng.randrange(6_000)
            end = begin + rng.choice([1, 3_000, SLOTS - 1, SLOTS * 2])
            expected = min((tick for tick in twin.values() if begin <= tick < end), default=None)
            assert await wheel.first(begin, end) == expected
            for tick in twin.values():
                assert (await wheel.get(tick)).tick == tick
                assert (await wheel.get(tick + SLOTS)).tick == 0

    asyncio.run(run())
