"""Records: round trips, the example in the documentation, and everything that is not one."""

from __future__ import annotations

import importlib
import os
import zlib
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.message import Draft, Host, SysFlag, java_hash
from roquet.store.format import record
from roquet.store.format.entries import ROW
from roquet.store.format.index_page import key_hash
from roquet.store.format.queue_entry import pack
from roquet.store.format.record import Stop

EXAMPLE = bytes.fromhex(
    "0000005e daa320a7 58932aac 00000003 00000000 0000000000000001 00000000000000e8 00000000"
    "00000000000003e8 7f000001 00000005 00000000000003e9 7f000002 00002a9f 00000000"
    "0000000000000000 00000002 6869 01 74 0000"
)
V4 = Host(bytes([127, 0, 0, 1]), 5)
HERE = Host(bytes([127, 0, 0, 2]), 10_911)
V6 = Host(bytes(15) + b"\x01", 6)

hosts = st.builds(
    Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65_535)
)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]


class Codec(Protocol):
    """What both twins can do."""

    def encode(
        self, draft: Draft, queue_offset: int, log_offset: int, store_ms: int, store_host: Host
    ) -> bytes: ...

    def scan(
        self,
        data: bytes,
        log_offset: int,
        file_end: int,
        check_crc: bool,
        delays_ms: tuple[int, ...],
        entries_max: int,
    ) -> record.Scan: ...

    def survey(
        self, data: bytes, log_offset: int, file_end: int, check_crc: bool, delays_ms: tuple[int, ...]
    ) -> record.Survey: ...

    def describe(
        self, topic: str, properties: bytes, store_ms: int, delays_ms: tuple[int, ...]
    ) -> tuple[int, tuple[str, ...]]: ...


@pytest.fixture(scope="session", params=TWINS)
def codec(request: pytest.FixtureRequest) -> Codec:
    """Return one twin after the other."""
    twin: Codec = importlib.import_module(f"roquet.store.format._record_{request.param}")
    return twin


drafts = st.builds(
    Draft,
    topic=st.text("abcXYZ%_-", min_size=0, max_size=200),
    queue_id=st.integers(0, 1 << 20),
    body=st.binary(max_size=300),
    properties=st.binary(max_size=300),
    flag=ints,
    sys_flag=st.integers(0, 0xFFF),
    born_ms=longs,
    born_host=hosts,
    reconsume_times=ints,
    prepared_log_offset=longs,
)


def test_the_example_of_the_documentation(codec: Codec) -> None:
    draft = Draft("t", 3, b"hi", b"", 0, 0, 1_000, V4)
    assert codec.encode(draft, 1, 232, 1_001, HERE) == EXAMPLE
    words = "".join((record.__doc__ or "").split())
    assert EXAMPLE.hex() in words


@given(drafts, longs, st.integers(0, 1 << 50), longs, hosts)
def test_round_trip(
    codec: Codec, draft: Draft, queue_offset: int, log_offset: int, store_ms: int, store_host: Host
) -> None:
    data = codec.encode(draft, queue_offset, log_offset, store_ms, store_host)
    opened = record.decode(data)
    assert opened.size_bytes == len(data)
    assert (opened.topic, opened.queue_id, opened.body) == (draft.topic, draft.queue_id, draft.body)
    assert (opened.properties, opened.flag, opened.born_ms) == (draft.properties, draft.flag, draft.born_ms)
    assert (opened.born_host, opened.store_host) == (draft.born_host, store_host)
    assert (opened.queue_offset, opened.log_offset, opened.store_ms) == (queue_offset, log_offset, store_ms)
    assert opened.reconsume_times == draft.reconsume_times
    assert opened.prepared_log_offset == draft.prepared_log_offset
    assert opened.body_crc == zlib.crc32(draft.body) & 0x7FFFFFFF
    assert bool(opened.sys_flag & SysFlag.BORN_HOST_V6) == draft.born_host.is_v6
    assert bool(opened.sys_flag & SysFlag.STORE_HOST_V6) == store_host.is_v6
    assert opened.sys_flag & ~0x30 == draft.sys_flag & ~0x30
    assert record.store_ms_of(data) == store_ms
    found = codec.scan(data, log_offset, log_offset + len(data), True, (), 10)
    assert (found.stop, found.end_offset) == (Stop.FILE_END, log_offset + len(data))
    (entry,) = found.entries
    assert (entry.topic, entry.queue_id, entry.queue_offset) == (draft.topic, draft.queue_id, queue_offset)
    assert (entry.log_offset, entry.size_bytes, entry.store_ms) == (log_offset, len(data), store_ms)
    assert (entry.sys_flag, entry.properties) == (opened.sys_flag, draft.properties)
    assert entry.prepared_log_offset == draft.prepared_log_offset


def test_long_topics_take_the_second_version(codec: Codec) -> None:
    for length, magic in ((127, record.MAGIC_V1), (128, record.MAGIC_V2), (255, record.MAGIC_V2)):
        data = codec.encode(Draft("t" * length, 0, b"", b"", 0, 0, 0, V6), 0, 0, 0, V6)
        assert int.from_bytes(data[4:8], "big") == magic
        assert record.decode(data).topic == "t" * length


def records(*bodies: bytes, start: int = 0) -> bytes:
    data = b""
    for body in bodies:
        data += record.encode(Draft("t", 0, body, b"", 0, 0, 0, V4), 0, start + len(data), 7, HERE)
    return data


def test_a_scan_says_why_it_ended(codec: Codec) -> None:
    data = records(b"a", b"b")
    size = len(data) // 2
    scan = codec.scan
    assert scan(data + bytes(8), 0, 4_096, True, (), 10)[1:4] == (2 * size, Stop.ZEROS, 0)
    assert scan(data + record.blank(100), 0, 4_096, True, (), 10)[1:3] == (2 * size, Stop.FILE_END)
    assert scan(data, 0, 4_096, True, (), 10)[1:3] == (2 * size, Stop.MORE)
    assert scan(data[:-1], 0, 4_096, True, (), 10)[1:4] == (size, Stop.MORE, size)
    assert scan(data, 0, 4_096, True, (), 1)[1:3] == (size, Stop.MORE)
    assert scan(b"", 0, 4_096, True, (), 1)[1:3] == (0, Stop.MORE)


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (0, 0x7FFFFFFF, "cannot be"),
        (0, 90, "cannot be"),
        (4, 0xDAA320A8, "no record begins"),
        (8, 1, "checksum"),
        (32, 99, "lies at 99"),
        (84, 0x7FFFFFFF, "body"),
        (84, 0xFFFFFFFF, "body"),
    ],
)
def test_broken_records_are_named(codec: Codec, position: int, value: int, reason: str) -> None:
    good = records(b"first")
    bad = bytearray(records(b"second", start=len(good)))
    bad[position : position + 4] = value.to_bytes(4, "big")
    found = codec.scan(good + bytes(bad) + bytes(8), 0, 4_096, True, (), 10)
    assert found.stop is Stop.BROKEN and reason in found.reason
    assert (len(found.entries), found.end_offset) == (1, len(good))


def test_lengths_must_add_up(codec: Codec) -> None:
    data = bytearray(records(b"body"))
    for position, value, reason in ((92, 250, "topic"), (95, 1, "add up"), (94, 0xFF, "add up")):
        changed = data.copy()
        changed[position] = value
        found = codec.scan(bytes(changed), 0, 4_096, True, (), 10)
        assert found.stop is Stop.BROKEN and reason in found.reason


def test_a_wrong_checksum_passes_when_it_is_not_asked_for(codec: Codec) -> None:
    data = bytearray(records(b"body"))
    data[88] ^= 1
    assert codec.scan(bytes(data), 0, 4_096, True, (), 10).stop is Stop.BROKEN
    assert len(codec.scan(bytes(data), 0, 4_096, False, (), 10).entries) == 1


@given(st.binary(max_size=400), st.integers(0, 200), st.integers(0, 255))
def test_garbage_never_raises(codec: Codec, garbage: bytes, at: int, value: int) -> None:
    codec.scan(garbage, 0, 4_096, True, (), 10)
    data = bytearray(records(b"some body", b"another"))
    data[at % len(data)] = value
    found = codec.scan(bytes(data) + garbage, 0, 4_096, True, (), 10)
    assert found.end_offset <= 4_096


def test_keys_tag_and_delivery_time_follow_from_the_properties(codec: Codec) -> None:
    text = b"KEYS\x01a  b\x02UNIQ_KEY\x01u\x02TAGS\x01red\x02x\x01y\x02"
    assert codec.describe("t", text, 5, ()) == (java_hash("red"), ("u", "a", "b", "T#red"))
    assert codec.describe("t", b"", 5, ()) == (0, ())
    assert codec.describe("t", b"TAGS\x01\x02KEYS\x02", 5, ()) == (0, ())
    delays = (1_000, 5_000)
    for level, wanted in ((b"1", 1_005), (b"2", 5_005), (b"9", 5_005), (b"0", 0), (b"x", 0)):
        assert codec.describe(record.DELAY_TOPIC, b"DELAY\x01" + level, 5, delays) == (wanted, ())
    assert codec.describe("t", b"DELAY\x011", 5, delays) == (0, ())


def test_the_checksum_property(codec: Codec) -> None:
    draft = Draft("t", 0, b"body", b"a\x01b\x02__CRC32#\x011234567890\x02c\x01d", 0, 0, 0, V4)
    data = record.encode_with_crc(draft, 1, 2, 3, HERE)
    properties = record.decode(data).properties
    assert properties.startswith(b"a\x01b\x02c\x01d\x02__CRC32#\x01") and properties.endswith(b"\x02")
    digits = properties[-11:-1].decode()
    assert int(digits[::-1]) == zlib.crc32(data[:-20]) & 0x7FFFFFFF
    assert len(codec.scan(data, 2, 4_096, True, (), 10).entries) == 1


def test_a_blank() -> None:
    assert record.blank(8).hex() == "00000008cbd43194"


@given(drafts, longs, st.integers(0, 1 << 50), longs, hosts, st.integers(0, 1 << 20), st.integers(0, 255))
def test_twins_agree(
    draft: Draft, queue_offset: int, log_offset: int, store_ms: int, store_host: Host, at: int, value: int
) -> None:
    twins: list[Codec] = [importlib.import_module(f"roquet.store.format._record_{name}") for name in TWINS]
    made = {twin.encode(draft, queue_offset, log_offset, store_ms, store_host) for twin in twins}
    assert len(made) == 1
    data = bytearray(made.pop())
    data[at % len(data)] = value
    for check_crc in (True, False):
        found = [
            twin.scan(bytes(data) * 2, log_offset, log_offset + 4_096, check_crc, (1_000,), 10)
            for twin in twins
        ]
        assert found[0] == found[-1]


@given(
    st.lists(
        st.sampled_from(
            [b"TAGS", b"KEYS", b"UNIQ_KEY", b"DELAY", b"\x01", b"\x02", b"a", b" ", b"2", b"\xff"]
        )
    )
)
def test_twins_agree_on_properties(parts: list[bytes]) -> None:
    twins: list[Codec] = [importlib.import_module(f"roquet.store.format._record_{name}") for name in TWINS]
    for topic in ("t", record.DELAY_TOPIC):
        found = [twin.describe(topic, b"".join(parts), 9, (1_000, 2_000)) for twin in twins]
        assert found[0] == found[-1]


def stored(codec: Codec, *messages: tuple[str, int, int, bytes, int]) -> bytes:
    """Return records of (topic, queue, queue offset, properties, system flag), one behind the other."""
    data = b""
    for topic, queue_id, queue_offset, properties, sys_flag in messages:
        draft = Draft(topic, queue_id, b"x", properties, 0, sys_flag, 0, V4)
        data += codec.encode(draft, queue_offset, len(data), 5_000 + len(data), HERE)
    return data


def test_a_survey_says_what_queues_and_index_need(codec: Codec) -> None:
    data = stored(
        codec,
        ("t", 0, 7, b"TAGS\x01red\x02", 0),
        ("t", 1, 3, b"UNIQ_KEY\x01u\x02KEYS\x01 k  l\x02", 0),
        ("t", 0, 8, b"", 0),
        ("t", 0, 0, b"KEYS\x01half\x02", 0x4),
        ("t", 0, 0, b"KEYS\x01back\x02", 0xC),
        ("u", 0, 0, b"", 0),
        ("t", 0, 5, b"", 0),
    )
    found = codec.survey(data + bytes(8), 0, 4_096, True, ())
    at = [entry.log_offset for entry in codec.scan(data, 0, 4_096, True, (), 10).entries]
    size = [after - before for before, after in zip(at, [*at[1:], len(data)], strict=True)]
    assert found.parts == [
        ("t", 0, 7, pack(at[0], size[0], java_hash("red")) + pack(at[2], size[2], 0)),
        ("t", 1, 3, pack(at[1], size[1], 0)),
        ("u", 0, 0, pack(at[5], size[5], 0)),
        ("t", 0, 5, pack(at[6], size[6], 0)),
    ]
    filed = [(0, "T#red"), (1, "u"), (1, "k"), (1, "l"), (3, "half")]
    assert found.key_rows == b"".join(
        ROW.pack(key_hash("t", key), at[number], 5_000 + at[number]) for number, key in filed
    )
    assert found[3:] == (0xC, at[6], 5_000 + at[6], len(data), Stop.ZEROS, 0, "") and found.record_count == 7
    assert codec.survey(b"", 0, 4_096, True, ()) == (0, [], b"", 0, 0, 0, 0, Stop.MORE, 0, "")


words = st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "\x01", "\x02", "a", " ", "2", "é", "𐍈", "\x7f"]
)
messages = st.tuples(
    st.sampled_from(["t", "tä", "other", record.DELAY_TOPIC]),
    st.integers(0, 2),
    st.integers(-1, 3) | longs,
    st.lists(words, max_size=12).map(lambda parts: "".join(parts).encode()) | st.binary(max_size=20),
    st.sampled_from([0, 4, 8, 0xC, 0x10]),
)


@given(st.lists(messages, max_size=8), st.binary(max_size=12), st.integers(0, 1 << 20), st.integers(0, 255))
def test_twins_agree_on_surveys(
    found: list[tuple[str, int, int, bytes, int]], tail: bytes, at: int, value: int
) -> None:
    twins: list[Codec] = [importlib.import_module(f"roquet.store.format._record_{name}") for name in TWINS]
    data = stored(twins[0], *found) + tail
    changed = bytearray(data)
    if changed:
        changed[at % len(changed)] = value
    for given_bytes, check_crc in ((data, True), (bytes(changed), True), (bytes(changed), False)):
        surveys = [twin.survey(given_bytes, 0, 4_096, check_crc, (1_000, 2_000)) for twin in twins]
        assert surveys[0] == surveys[-1]
