"""Runs of drafts: both twins lay out the same bytes as the record codec, and share runs out by queue."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.model.message import Draft, Host
from roquet.store.format import record
from roquet.store.format.run import COMPILED, Share

TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]
BORN, BORN_V6 = Host(b"\x7f\0\0\1", 4321), Host(bytes(15) + b"\1", 77)
STORE = Host(b"\x7f\0\0\2", 10911)
DELAYS_MS = (1_000, 5_000)


@pytest.fixture(scope="module", params=TWINS)
def run(request: pytest.FixtureRequest) -> ModuleType:
    """Return one twin after the other."""
    return importlib.import_module(f"roquet.store.format._run_{request.param}")


def draft(
    topic: str = "t", queue_id: int = 0, body: bytes = b"hi", properties: bytes = b"", flags: int = 0
) -> Draft:
    return Draft(topic, queue_id, body, properties, 9, flags, 1_000, BORN, 2, 3, 44, ("k",))


def test_the_compiled_twin_is_taken() -> None:
    assert ("c" in TWINS) == COMPILED


def test_drafts_are_shared_out_by_queue(run: ModuleType) -> None:
    drafts = [
        draft(queue_id=1), draft(queue_id=2, body=b"long"), draft(queue_id=1, properties=b"abc"),
        draft(queue_id=1, flags=4, body=b""), draft("u", 1), draft("".join(["t"]), 1, b"longer"),
    ]  # fmt: skip
    shares, owners = run.share_out(drafts)
    assert shares == [
        Share("t", 1, True, 3, 6, 3),
        Share("t", 2, True, 1, 4, 0),
        Share("t", 1, False, 1, 0, 0),
        Share("u", 1, True, 1, 2, 0),
    ]
    assert owners == [0, 1, 0, 2, 3, 0]
    assert run.share_out([]) == ([], [])


def test_what_is_no_draft_is_refused(run: ModuleType) -> None:
    with pytest.raises((TypeError, AttributeError)):
        run.share_out([("t", 0)])


def test_records_lie_one_behind_the_other(run: ModuleType) -> None:
    drafts = [draft(), draft("u" * 200, 3, b"", b"a\x01b\x02"), draft()._replace(born_host=BORN_V6)]
    data, entries = run.lay_out(drafts, [7, 0, 8], 100, 2_000, STORE, DELAYS_MS, False)
    parts, at = [], 100
    for each, queue_offset, entry in zip(drafts, [7, 0, 8], entries, strict=True):
        part = record.encode(each, queue_offset, at, 2_000, STORE)
        assert entry == (
            at, len(part), each.topic, each.queue_id, queue_offset, 44, 2_000, 0, 3, ("k",), each.properties,
        )  # fmt: skip
        parts.append(part)
        at += len(part)
    assert data == b"".join(parts)


def test_entries_of_delayed_messages_carry_the_time_of_delivery(run: ModuleType) -> None:
    delayed = draft(record.DELAY_TOPIC, 1, properties=b"DELAY\x012\x02")
    _, (entry, other) = run.lay_out([delayed, draft()], [0, 0], 0, 2_000, STORE, DELAYS_MS, False)
    assert (entry.tag_code, other.tag_code) == (7_000, 44)


def test_checksums_are_the_last_property(run: ModuleType) -> None:
    data, (entry,) = run.lay_out([draft()], [0], 0, 2_000, STORE, DELAYS_MS, True)
    assert data == record.encode_with_crc(draft(), 0, 0, 2_000, STORE)
    assert entry.size_bytes == len(data)


drafts = st.builds(
    Draft,
    topic=st.sampled_from(["t", "topic", "x" * 128, record.DELAY_TOPIC]),
    queue_id=st.integers(0, 3),
    body=st.binary(max_size=20),
    properties=st.sampled_from([b"", b"TAGS\x01A\x02", b"DELAY\x011\x02"]),
    flag=st.integers(-(2**31), 2**31 - 1),
    sys_flag=st.integers(0, 0xFFF),
    born_ms=st.integers(0, 2**62),
    born_host=st.sampled_from([BORN, BORN_V6]),
    reconsume_times=st.integers(0, 16),
    prepared_log_offset=st.integers(0, 2**62),
    tag_code=st.integers(-(2**31), 2**31 - 1),
    keys=st.sampled_from([(), ("a", "b")]),
)


@pytest.mark.skipif(len(TWINS) < 2, reason="needs both twins")
@settings(max_examples=50)
@given(st.lists(drafts, max_size=8), st.sampled_from([STORE, BORN_V6]), st.integers(0, 2**50))
def test_the_twins_agree(some: list[Draft], store_host: Host, log_offset: int) -> None:
    one, other = (importlib.import_module(f"roquet.store.format._run_{name}") for name in TWINS)
    assert one.share_out(some) == other.share_out(some)
    asked = (some, list(range(len(some))), log_offset, 5_000, store_host, DELAYS_MS, False)
    assert one.lay_out(*asked) == other.lay_out(*asked)
