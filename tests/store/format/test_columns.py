"""Records as columns: both twins against the plain decoder, and everything that is not a record."""

from __future__ import annotations

import importlib
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.client.compression import flag_of, inflate
from roquet.model.message import Draft, Host, parse_properties
from roquet.store.format import record
from roquet.store.format._columns_py import host_text
from roquet.store.format._columns_py import read_columns as read_plainly
from roquet.store.format.columns import KINDS, Columns, Sieve
from roquet.store.format.record import Stop

HERE = Host(bytes([127, 0, 0, 2]), 10_911)
TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]
ALL = tuple(KINDS)
Read = Callable[..., Columns]

hosts = st.builds(
    Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65_535)
)
property_texts = st.lists(
    st.tuples(
        st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "ä", ""]),
        st.text(alphabet="k e\x01y漢", max_size=9),
    )
).map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()) | st.binary(
    max_size=40
)
drafts = st.builds(
    Draft,
    topic=st.sampled_from(["orders", "bills", "t" * 140]),
    queue_id=st.integers(0, 5),
    body=st.binary(max_size=50),
    properties=property_texts,
    flag=st.integers(-5, 5),
    sys_flag=st.sampled_from([0, 4, 8]),
    born_ms=st.integers(0, 1 << 41),
    born_host=hosts,
    reconsume_times=st.integers(0, 16),
    prepared_log_offset=st.integers(0, 1 << 40),
)


@pytest.fixture(scope="module", params=TWINS)
def read(request: pytest.FixtureRequest) -> Read:
    found: Read = importlib.import_module(f"roquet.store.format._columns_{request.param}").read_columns
    return found


def log_of(given_drafts: list[Draft], begin: int = 0) -> bytes:
    log = bytearray()
    for index, draft in enumerate(given_drafts):
        log += record.encode(draft, index, begin + len(log), 1_000 + index, HERE)
    return bytes(log)


def numbers(buffer: Any, code: str = "i") -> list[int]:
    data = bytes(buffer)
    return list(struct.unpack(f"={len(data) // struct.calcsize(code)}{code}", data))


def texts(ends: Any, data: Any) -> list[bytes]:
    places, whole = numbers(ends), bytes(data)
    return [whole[a:b] for a, b in zip(places, places[1:], strict=False)]


def column(found: Columns, name: str) -> list[Any]:
    """Return the values of a column, read back from its buffers in the simplest way."""
    parts = found.buffers[name]
    kind = KINDS[name]
    if kind in ("int32", "int64"):
        return numbers(parts[0], "i" if kind == "int32" else "q") if found.rows else []
    if kind in ("text", "bytes"):
        return texts(*parts)
    ends = numbers(parts[0])
    inner = list(zip(*(texts(parts[at], parts[at + 1]) for at in range(1, len(parts), 2)), strict=True))
    return [inner[a:b] for a, b in zip(ends, ends[1:], strict=False)]


class TestReading:
    @given(given_drafts=st.lists(drafts, max_size=8))
    @settings(max_examples=80)
    def test_columns_hold_what_the_decoder_finds(self, read: Read, given_drafts: list[Draft]) -> None:
        log = log_of(given_drafts)
        found = read(log, 0, ALL, rows_max=1_000, log_offset=0, check_crc=True)
        assert (found.rows, found.position, found.stop) == (len(given_drafts), len(log), Stop.MORE)
        position = 0
        columns = {name: column(found, name) for name in ALL}
        for row in range(found.rows):
            plain = record.decode(log, position)
            position += plain.size_bytes
            pairs = parse_properties(plain.properties.decode("utf-8", "replace"))
            got = {name: values[row] for name, values in columns.items()}
            assert got["topic"] == plain.topic.encode()
            assert got["body"] == plain.body
            assert (got["born_us"], got["store_us"]) == (plain.born_ms * 1000, plain.store_ms * 1000)
            assert got["born_host"] == host_text(plain.born_host).encode()
            assert got["store_host"] == b"127.0.0.2:10911"
            assert dict(got["properties"]) == {k.encode(): v.encode() for k, v in pairs.items()}
            assert len(got["properties"]) == len(pairs)
            assert got["tag"] == pairs.get("TAGS", "").encode()
            words = [word.encode() for word in pairs.get("KEYS", "").split(" ") if word]
            assert [word for (word,) in got["keys"]] == words
            for name in ("queue_id", "queue_offset", "flag", "sys_flag", "log_offset", "reconsume_times"):
                assert got[name] == getattr(plain, name)
            assert got["prepared_log_offset"] == plain.prepared_log_offset
            assert got["size_bytes"] == plain.size_bytes

    @given(
        data=st.lists(drafts, max_size=5).map(log_of), junk=st.binary(max_size=30), cut=st.integers(0, 200)
    )
    @settings(max_examples=150)
    def test_the_twins_agree_on_anything(self, read: Read, data: bytes, junk: bytes, cut: int) -> None:
        mixed = data[: len(data) - cut] + junk + data[len(data) // 2 :]
        one = read_plainly(mixed, 0, ALL, rows_max=7, check_crc=True)
        two = read(mixed, 0, ALL, rows_max=7, check_crc=True)
        assert one[:4] == two[:4]
        for name in ALL:
            assert column(one, name) == column(two, name), name

    def test_a_message_without_a_unique_key_gets_its_offset_id(self, read: Read) -> None:
        found = read(log_of([draft()], 232), 0, ("message_id",), rows_max=1, log_offset=232)
        assert column(found, "message_id") == [b"7F00000200002A9F00000000000000E8"]

    def test_compressed_bodies_are_opened(self, read: Read) -> None:
        packed = zlib.compress(b"hello " * 100)
        log = log_of([draft(packed, flag_of("zlib")), draft(b"plain")])
        found = read(log, 0, ("body",), rows_max=9, inflate=inflate)
        assert column(found, "body") == [b"hello " * 100, b"plain"]

    def test_very_many_properties(self, read: Read) -> None:
        text = "".join(f"p{index}\x01{index}\x02" for index in range(200)) + "KEYS\x01a b\x02TAGS\x01T\x02"
        found = read(log_of([draft(properties=text.encode())]), 0, ALL, rows_max=9)
        assert len(column(found, "properties")[0]) == 202
        assert column(found, "keys") == [[(b"a",), (b"b",)]]
        assert column(found, "tag") == [b"T"]


class TestSieve:
    @pytest.mark.parametrize(
        ("sieve", "kept"),
        [
            (Sieve(), [0, 1, 2, 3]),
            (Sieve(topics=(b"b",)), [1, 3]),
            (Sieve(topics=(b"a", b"b")), [0, 1, 2, 3]),
            (Sieve(queue_ids=(2, 3)), [2, 3]),
            (Sieve(queue_offset_from=1, queue_offset_to=3), [1, 2]),
            (Sieve(store_ms_from=1_001, store_ms_to=1_002), [1]),
            (Sieve(topics=(b"none",)), []),
        ],
    )
    def test_only_what_passes_becomes_a_row(self, read: Read, sieve: Sieve, kept: list[int]) -> None:
        log = log_of([draft(topic="ab"[index % 2], queue_id=index) for index in range(4)])
        found = read(log, 0, ("queue_offset",), rows_max=9, sieve=sieve)
        assert column(found, "queue_offset") == kept
        assert found.position == len(log)

    def test_rows_are_counted_behind_the_sieve(self, read: Read) -> None:
        log = log_of([draft(topic="ab"[index % 2]) for index in range(6)])
        found = read(log, 0, ("queue_offset",), rows_max=2, sieve=Sieve(topics=(b"b",)))
        assert column(found, "queue_offset") == [1, 3]
        rest = read(log, found.position, ("queue_offset",), rows_max=2, sieve=Sieve(topics=(b"b",)))
        assert column(rest, "queue_offset") == [5]


class TestWhereItStops:
    def test_at_the_end_of_a_file(self, read: Read) -> None:
        log = log_of([draft()])
        assert read(log + record.blank(40) + bytes(32), 0, (), rows_max=9).stop is Stop.FILE_END
        assert read(log + bytes(64), 0, (), rows_max=9).stop is Stop.ZEROS

    def test_in_the_middle_of_a_record(self, read: Read) -> None:
        log = log_of([draft(), draft()])
        found = read(log[:-1], 0, (), rows_max=9)
        assert (found.rows, found.stop, found.position) == (1, Stop.MORE, len(log) // 2)

    @pytest.mark.parametrize(
        ("at", "value", "words"),
        [(4, 0xFF, "magic"), (87, 0xFF, ""), (90, 0x00, "checksum"), (30, 0x01, "lies at")],
    )
    def test_at_damage_with_the_reason(self, read: Read, at: int, value: int, words: str) -> None:
        log = bytearray(log_of([draft(b"body"), draft(b"body")]))
        second = len(log) // 2
        log[second + at] = value
        found = read(bytes(log), 0, (), rows_max=9, log_offset=0, check_crc=True)
        assert (found.rows, found.stop, found.position) == (1, Stop.BROKEN, second)
        assert found.fault and words in found.fault.lower()

    def test_an_unknown_column_is_refused(self, read: Read) -> None:
        with pytest.raises(KeyError, match="colour"):
            read(b"", 0, ("colour",), rows_max=1)


def draft(
    body: bytes = b"x", sys_flag: int = 0, topic: str = "t", queue_id: int = 0, properties: bytes = b""
) -> Draft:
    return Draft(topic, queue_id, body, properties, 0, sys_flag, 5, HERE)
