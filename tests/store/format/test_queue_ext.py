"""Units of a queue's extension: bytes, addresses, and what is no unit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roquet.store.format import queue_ext
from roquet.store.format.queue_ext import Unit

LONG = st.integers(-(2**63), 2**63 - 1)
UNITS = st.builds(Unit, LONG, LONG, st.binary(max_size=300))


def test_a_unit_lies_in_the_file_as_apache_writes_it() -> None:
    # The seventh unit of queue 0 in tests/golden/extension/stopped: two selectors, of which one matches.
    data = bytes.fromhex("0022000000000027a7f6000001a1df1f5475000e0000000000800000200000080000")
    unit = queue_ext.unpack_from(data)
    assert unit == Unit(0x27A7F6, 0x1A1DF1F5475, data[20:])
    assert queue_ext.pack(unit) == data
    assert [n for n in range(112) if unit.bits[n // 8] >> n % 8 & 1] == [47, 69, 91]


@given(UNITS, st.binary(max_size=30), st.binary(max_size=30))
def test_what_is_packed_is_unpacked_wherever_it_lies(unit: Unit, before: bytes, after: bytes) -> None:
    data = before + queue_ext.pack(unit) + after
    assert queue_ext.unpack_from(data, len(before)) == unit
    assert len(queue_ext.pack(unit)) == unit.size_bytes


@given(UNITS, st.data())
def test_a_torn_unit_is_none(unit: Unit, data: st.DataObject) -> None:
    packed = queue_ext.pack(unit)
    assert queue_ext.unpack_from(packed[: data.draw(st.integers(0, len(packed) - 1))]) is None


def test_zeros_and_the_end_of_a_file_are_no_units() -> None:
    assert queue_ext.unpack_from(bytes(64)) is None
    assert queue_ext.unpack_from(queue_ext.FILE_END.ljust(64, b"\0")) is None
    assert queue_ext.unpack_from(bytes(64), -1) is None


@given(st.integers(0, queue_ext.POSITION_MAX))
def test_an_address_is_told_from_every_tag_code(position: int) -> None:
    address = queue_ext.address_of(position)
    assert queue_ext.is_address(address)
    assert queue_ext.position_of(address) == position


@given(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 2**62))
def test_neither_a_hash_nor_a_time_of_delivery_is_an_address(tag_code: int) -> None:
    assert not queue_ext.is_address(tag_code)
