"""Records of the timer's queue: both twins read the same from any record."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.broker.features.timer.parked import COMPILED, Parked
from roquet.model.message import Draft, Host, format_properties
from roquet.store.format.record import encode

TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]
V4, V6 = Host(b"\x7f\0\0\1", 4321), Host(bytes(15) + b"\1", 77)


@pytest.fixture(scope="module", params=TWINS)
def parked(request: pytest.FixtureRequest) -> ModuleType:
    """Return one twin after the other."""
    return importlib.import_module(f"roquet.broker.features.timer._parked_{request.param}")


def stored(properties: bytes, topic: str = "rmq_sys_wheel_timer", born: Host = V4, store: Host = V4) -> bytes:
    draft = Draft(topic, 0, b"TIMER_OUT_MS\x016\x02", properties, 0, 0, 1_000, born)
    return encode(draft, 5, 600, 2_000, store)


def test_the_compiled_twin_is_taken() -> None:
    assert ("c" in TWINS) == COMPILED


@pytest.mark.parametrize(("born", "store"), [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
def test_a_record_says_when_it_is_due_and_where(parked: ModuleType, born: Host, store: Host) -> None:
    text = format_properties({"TIMER_OUT_MS": "1794736226000", "REAL_TOPIC": "tä", "REAL_QID": "1"}).encode()
    marker = text + b"TIMER_DEL_UNIQKEY\x01K\x02TIMER_OUT_MS\x017"
    records = [stored(text, born=born, store=store), memoryview(stored(marker, "x" * 200, born, store))]
    assert parked.read_parked(records) == [
        Parked(5, 600, len(records[0]), 1794736226000, "tä", False),
        Parked(5, 600, len(records[1]), 7, "tä", True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"TIMER_OUT_MS\x015\x02",
        b"REAL_TOPIC\x01t\x02",
        b"TIMER_OUT_MS\x01-5\x02REAL_TOPIC\x01t\x02",
        b"TIMER_OUT_MS\x01" + b"9" * 19 + b"\x02REAL_TOPIC\x01t\x02",
        b"TIMER_OUT_MS\x01\x02REAL_TOPIC\x01t\x02",
    ],
)
def test_one_that_does_not_say_it_has_no_topic(parked: ModuleType, text: bytes) -> None:
    (found,) = parked.read_parked([stored(text)])
    assert (found.queue_offset, found.log_offset, found.topic) == (5, 600, "")


PAIRS = st.tuples(
    st.sampled_from(["TIMER_OUT_MS", "REAL_TOPIC", "TIMER_DEL_UNIQKEY", "x", ""]),
    st.sampled_from(["5", "٣", "+1", "t", "", "\x01", "é"]),
)


@pytest.mark.skipif(len(TWINS) < 2, reason="needs both twins")
@settings(max_examples=100)
@given(st.lists(PAIRS, max_size=6), st.booleans())
def test_the_twins_agree(pairs: list[tuple[str, str]], is_ended: bool) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs) + ("\x02" if is_ended else "")
    data = stored(text.encode())
    twins = [importlib.import_module(f"roquet.broker.features.timer._parked_{name}") for name in TWINS]
    assert twins[0].read_parked([data]) == twins[1].read_parked([data])
