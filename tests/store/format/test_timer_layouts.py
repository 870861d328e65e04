"""The timer's files, byte for byte: by hand, at random, and as a killed Apache broker left them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.model.message import java_hash, parse_properties
from roquet.store.format import record, timer_check, timer_log, timer_wheel
from roquet.store.format.timer_check import TimerCheck, decode_check, encode_body, encode_check
from roquet.store.format.timer_log import (
    BLANK_BYTES,
    NO_POSITION,
    UNIT_BYTES,
    Unit,
    decode_unit,
    encode_blank,
    encode_unit,
    fits,
    is_blank,
    last_unit_position,
)
from roquet.store.format.timer_wheel import SLOT_BYTES, SLOTS, Slot, decode_slot, encode_slot, used_slots

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
LONGS = st.integers(-(2**63), 2**63 - 1)
POSITIONS = st.integers(0, 2**62)


def test_a_unit_is_the_one_of_the_drawing() -> None:
    unit = Unit(832, timer_log.DEFAULT | timer_log.ROLL, 1_794_736_231_000, 60_000, 7910, 335, 0x04D11717)
    drawn = "00000034 0000000000000340 00000003 000001a1de9d9258 0000ea60 0000000000001ee6 0000014f 04d11717"
    assert encode_unit(unit).hex() == drawn.replace(" ", "") + "00" * 8
    assert decode_unit(encode_unit(unit)) == unit
    assert (unit.slot_ms, unit.is_roll, unit.is_delete) == (1_794_736_291_000, True, False)
    assert encode_blank(64).hex() == "00000040" + "00" * 8 + "cbd43194"
    assert is_blank(encode_blank(64)) and not is_blank(encode_unit(unit)) and not is_blank(bytes(52))


@settings(max_examples=100)
@given(
    st.builds(
        Unit,
        st.integers(NO_POSITION, 2**62),
        st.integers(1, 15),
        st.integers(1, 2**62),
        st.integers(-(2**31), 2**31 - 1),
        POSITIONS,
        st.integers(1, 2**31 - 1),
        st.integers(-(2**31), 2**31 - 1),
    )
)
def test_units_come_back(unit: Unit) -> None:
    assert decode_unit(b"xx" + encode_unit(unit), 2) == unit
    assert len(encode_unit(unit)) == UNIT_BYTES


@given(st.binary(max_size=UNIT_BYTES * 2))
def test_other_bytes_are_no_unit(data: bytes) -> None:
    unit = decode_unit(data)
    assert unit is None or encode_unit(unit)[:44] == data[:44]


@pytest.mark.parametrize("size", [1_000, 2_000, 104_857_600])
def test_the_last_unit_of_a_file_leaves_room_for_a_blank(size: int) -> None:
    last = last_unit_position(size)
    assert fits(last, size) and not fits(last + UNIT_BYTES, size)
    assert size - last - UNIT_BYTES >= BLANK_BYTES


def test_a_slot_is_the_one_of_the_drawing() -> None:
    slot = Slot(0x6AF81F51, 0, 780, 15)
    drawn = "000000006af81f51 0000000000000000 000000000000030c 0000000f 00000000"
    assert encode_slot(slot).hex() == drawn.replace(" ", "")
    assert decode_slot(encode_slot(slot)) == slot
    assert timer_wheel.FILE_BYTES == 38_707_200


@given(st.lists(st.integers(1, 2**40), max_size=5))
def test_only_slots_in_their_place_count(ticks: list[int]) -> None:
    first = SLOTS // 2
    data = bytearray(SLOT_BYTES * 64)
    expected = {}
    for at, tick in enumerate(ticks):
        data[at * SLOT_BYTES : (at + 1) * SLOT_BYTES] = encode_slot(Slot(tick, 0, 52, 2))
        if tick % SLOTS == first + at:
            expected[first + at] = Slot(tick, 0, 52, 2)
    right = SLOTS * 3 + first + 40
    data[40 * SLOT_BYTES : 41 * SLOT_BYTES] = encode_slot(Slot(right, 52, 52, 1))
    expected[first + 40] = Slot(right, 52, 52, 1)
    assert dict(used_slots(bytes(data), first)) == expected
    assert list(used_slots(bytes(SLOT_BYTES * 64), first)) == []


@given(st.tuples(*[LONGS] * 7), POSITIONS)
def test_a_check_comes_back_with_what_we_add(words: tuple[int, ...], delivered_from: int) -> None:
    check = TimerCheck(*words)
    page = encode_check(check, delivered_from)
    assert page[: timer_check.BODY_BYTES] == encode_body(check)
    assert len(page) <= 512, "one sector, so that a power cut leaves the old or the new"
    assert decode_check(page) == (check, delivered_from)
    assert decode_check(encode_body(check)) == (check, None)


def test_what_we_add_counts_only_while_apache_has_not_written() -> None:
    page = bytearray(encode_check(TimerCheck(1000, 52, 1, 1), 4096))
    page[8:16] = (104).to_bytes(8, "big")
    assert decode_check(bytes(page)) == (TimerCheck(1000, 104, 1, 1), None)


# as Apache left them


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("timer")
    with tarfile.open(GOLDEN / "timer" / "killed.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "killed"


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GOLDEN / "timer" / "killed.expected.json").read_text())
    return loaded


def test_the_archive_is_the_one_of_the_manifest() -> None:
    (row,) = json.loads((GOLDEN / "manifest.json").read_text())["timers"]
    for name, key in (("killed.tar.xz", "archive_sha256"), ("killed.expected.json", "expected_sha256")):
        assert hashlib.sha256((GOLDEN / "timer" / name).read_bytes()).hexdigest() == row[key]


def units_of(left: Path) -> dict[int, Unit]:
    units: dict[int, Unit] = {}
    for file in sorted((left / "timerlog").iterdir()):
        data, at = file.read_bytes(), 0
        while (unit := decode_unit(data, at)) is not None:
            assert data[at : at + UNIT_BYTES] == encode_unit(unit), "written back byte for byte"
            units[int(file.name) + at] = unit
            at += UNIT_BYTES
        if file.name != max(path.name for path in (left / "timerlog").iterdir()):
            assert is_blank(data, at) and data[at : at + BLANK_BYTES] == encode_blank(len(data) - at)
            assert not fits(at, len(data))
    return units


def test_every_message_has_its_unit_and_every_chain_its_slot(left: Path, expected: dict[str, Any]) -> None:
    units = units_of(left)
    assert max(units) > 2_000, "the units run over several files"
    log = (left / "commitlog" / "00000000000000000000").read_bytes()
    found = {}
    for unit in units.values():
        stored = record.decode(log, unit.log_offset)
        properties = parse_properties(stored.properties.decode())
        assert (stored.topic, stored.size_bytes) == ("rmq_sys_wheel_timer", unit.size_bytes)
        assert unit.topic_hash == java_hash(properties["REAL_TOPIC"])
        if not unit.flags & timer_log.DELETE:
            found[properties["UNIQ_KEY"]] = (int(properties["TIMER_OUT_MS"]), unit)
    for message in (*expected["delivered"], *expected["waiting"], expected["recalled"]):
        out_ms, unit = found[message["unique_key"]]
        assert out_ms == message["out_ms"]
        assert unit.is_roll == (unit.slot_ms != out_ms)
    assert sum(unit.is_roll for unit in units.values()) == 1
    assert [unit.is_delete for unit in units.values()].count(True) == 1

    wheel = (left / "timerwheel").read_bytes()
    assert len(wheel) == timer_wheel.FILE_BYTES
    slots = {slot.tick: slot for _, slot in used_slots(wheel, 0)}
    chained = set()
    for tick, slot in slots.items():
        position = slot.last
        while position != NO_POSITION:
            assert units[position].slot_ms == tick * 1000
            assert units[position].previous != NO_POSITION or position == slot.first
            chained.add(position)
            position = units[position].previous
    assert chained == units.keys()


def test_the_check_leads_to_the_end(left: Path) -> None:
    page = (left / "config" / "timercheck").read_bytes()
    check, delivered_from = decode_check(page)
    assert len(page) == timer_check.FILE_BYTES
    assert page[: timer_check.BODY_BYTES] == encode_body(check)
    assert (delivered_from, check.queue_offset) == (None, check.master_queue_offset)
    # Apache moves on by one file a second: what lies behind is in the wheel even so.
    assert check.log_position <= max(units_of(left)) + UNIT_BYTES
