"""Records as drafts again: both twins read the same, whatever the bytes."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.message import Draft, Host, format_properties, java_hash
from roquet.store.format import record

TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]
V4, V6 = Host(b"\x7f\0\0\1", 10911), Host(bytes(range(16)), -1)
PROPERTIES = {"UNIQ_KEY": "U", "KEYS": "k1 k2", "TAGS": "A", "née": "là"}


@pytest.fixture(scope="module", params=TWINS)
def redraft(request: pytest.FixtureRequest) -> ModuleType:
    """Return one twin after the other."""
    return importlib.import_module(f"roquet.broker.core._redraft_{request.param}")


@pytest.mark.parametrize("topic", ["orders", "%RETRY%" + "x" * 200])
@pytest.mark.parametrize(("born", "host"), [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
def test_a_record_becomes_the_draft_that_it_was(
    redraft: ModuleType, topic: str, born: Host, host: Host
) -> None:
    flag = (0x10 if born.is_v6 else 0) | (0x20 if host.is_v6 else 0) | 0x8
    text = format_properties(PROPERTIES).encode()
    keys = ("U", "k1", "k2", "T#A")
    draft = Draft(topic, 3, b"body", text, -5, flag, 1_000, born, 2, 512, java_hash("A"), keys)
    data = record.encode(draft, 7, 2**40, 2_000, host)
    for given_as in (data, memoryview(bytearray(data))):
        stored = redraft.reopen(given_as)
        assert stored == (draft, PROPERTIES, 7, 2**40, len(data), 2_000)
        assert type(stored.draft) is Draft and type(stored.draft.born_host) is Host
        assert type(stored.draft.body) is bytes


NAMES = st.sampled_from([b"UNIQ_KEY", b"KEYS", b"TAGS", b"", b"\xff\xfe", b"a"])
VALUES = st.sampled_from([b"v", b"", b"a  b", b"x\x01y", "é".encode(), b"\xc3"])


@pytest.mark.skipif(len(TWINS) < 2, reason="needs both twins")
@given(st.lists(st.tuples(NAMES, VALUES)), st.booleans(), st.integers(0, 200), st.integers(0, 255))
def test_the_twins_agree(pairs: list[tuple[bytes, bytes]], is_ended: bool, at: int, byte: int) -> None:
    text = b"\x02".join(name + b"\x01" + value for name, value in pairs) + (b"\x02" if is_ended else b"")
    whole = record.encode(Draft("t", 0, b"body", text, 0, 0, 1, V4), 7, 99, 2_000, V4)
    damaged = bytearray(whole)
    damaged[at % len(whole)] = byte
    for data in (whole, bytes(damaged)):
        results: list[object] = []
        for twin in TWINS:
            try:
                results.append(importlib.import_module(f"roquet.broker.core._redraft_{twin}").reopen(data))
            except Exception as error:
                results.append(type(error))
        assert results[0] == results[1]
