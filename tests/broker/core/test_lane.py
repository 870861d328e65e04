"""The lane for sends: both twins take the same frames, make the same drafts and the same answers."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.broker.core._lane_values import Terms
from roquet.model.message import Host, java_hash
from roquet.wire.codes import FLAG_ONE_WAY
from roquet.wire.frame import Frame, split
from roquet.wire.requests.send import Sent

TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]
TERMS = Terms(
    frozenset({"CLUSTER"}),
    0xC0,
    frozenset({"DELAY", "TRAN_MSG"}),
    0x0C,
    0x20,
    b"CLUSTER\x01c\x02",
    1000,
    5000,
    "7F0000010000",
    "R",
    "true",
)
BORN = Host(b"\x7f\0\0\1", 4321)
TOPICS = {"t": 4}
PROPERTIES = "UNIQ_KEY\x01ABC\x02WAIT\x01true\x02"


@pytest.fixture(scope="module", params=TWINS)
def lane(request: pytest.FixtureRequest) -> ModuleType:
    """Return one twin after the other."""
    return importlib.import_module(f"roquet.broker.core._lane_{request.param}")


def send(
    properties: str = PROPERTIES, body: bytes = b"x", opaque: int = 7, flag: int = 0, **changes: str | None
) -> Frame:
    fields: dict[str, str | None] = {
        "a": "group", "b": "t", "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": "1700000000000", "h": "9",
        "i": properties, "j": "0", "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip
    ext = {name: value for name, value in (fields | changes).items() if value is not None}
    return Frame(310, opaque, flag, ext, body)


def test_an_ordinary_send_becomes_the_draft_of_the_long_way(lane: ModuleType) -> None:
    properties = "UNIQ_KEY\x01ABC\x02KEYS\x01k1 \t k2\x02TAGS\x01A\x02WAIT\x01true\x02color\x01red\x02"
    (draft,), marked = lane.drafts([send(properties)], 0, 310, TOPICS, BORN, TERMS)
    assert not marked
    assert (draft.topic, draft.queue_id, draft.body, draft.flag) == ("t", 2, b"x", 9)
    assert draft.properties == properties.encode() + b"CLUSTER\x01c\x02"
    assert draft.keys == ("ABC", "k1", "k2", "T#A")
    assert draft.tag_code == java_hash("A")
    assert (draft.sys_flag, draft.born_ms, draft.born_host) == (0x20, 1700000000000, BORN)


@pytest.mark.parametrize(
    "odd",
    [
        {"b": "unknown"}, {"b": None}, {"a": None}, {"c": None}, {"i": None},
        {"e": "4"}, {"e": "-1"}, {"e": "x"}, {"e": ""}, {"e": None}, {"e": "1" * 30}, {"e": "٣"},
        {"f": "64"}, {"f": "3000000000"}, {"g": "now"}, {"h": "3000000000"}, {"d": ""},
        {"m": "true"}, {"j": "1"},
        {"properties": ""}, {"properties": "WAIT\x01true\x02"}, {"properties": PROPERTIES[:-1]},
        {"properties": PROPERTIES + "CLUSTER\x01x\x02"},
        {"properties": PROPERTIES + "UNIQ_KEY\x01DEF\x02"}, {"properties": PROPERTIES + "\x02"},
        {"properties": PROPERTIES + "a\x01\x02"}, {"properties": PROPERTIES + "\x01b\x02"},
        {"properties": PROPERTIES + "a\x02"}, {"properties": PROPERTIES + "a\x01b\x01c\x02"},
        {"properties": PROPERTIES + "ü\x01b\x02"}, {"properties": "UNIQ_KEY\x01A\x02WAIT\x01false\x02"},
        {"properties": PROPERTIES + "long\x01" + "x" * 5000 + "\x02"},
        {"body": b"x" * 1001},
    ],
)  # fmt: skip
def test_whatever_is_not_ordinary_ends_the_run(lane: ModuleType, odd: dict[str, str | None]) -> None:
    frames = [send(), send(**odd), send()]  # type: ignore[arg-type]
    assert [len(lane.drafts(frames, at, 310, TOPICS, BORN, TERMS).drafts) for at in range(3)] == [1, 0, 1]


def test_another_code_ends_the_run(lane: ModuleType) -> None:
    frames = [send(), send()._replace(code=11), send()]
    assert len(lane.drafts(frames, 0, 310, TOPICS, BORN, TERMS).drafts) == 1


def test_what_features_must_see_is_named_with_its_properties(lane: ModuleType) -> None:
    delayed = {"UNIQ_KEY": "D", "DELAY": "3", "a": "b"}
    text = "".join(f"{name}\x01{value}\x02" for name, value in delayed.items())
    frames = [send(), send(text), send(), send(f="4"), send("UNIQ_KEY\x01H\x02TRAN_MSG\x01true\x02", f="5")]
    drafts, marked = lane.drafts(frames, 0, 310, TOPICS, BORN, TERMS)
    assert [draft.keys[0] for draft in drafts] == ["ABC", "D", "ABC", "ABC", "H"]
    assert [draft.sys_flag for draft in drafts] == [0x20, 0x20, 0x20, 0x24, 0x25]
    assert marked == [
        (1, delayed),
        (3, {"UNIQ_KEY": "ABC", "WAIT": "true"}),
        (4, {"UNIQ_KEY": "H", "TRAN_MSG": "true"}),
    ]
    assert drafts[1].properties == text.encode() + b"CLUSTER\x01c\x02"
    assert lane.drafts(frames, 1, 310, TOPICS, BORN, TERMS).marked[0] == (0, delayed)


def test_answers_are_frames_with_everything_a_client_reads(lane: ModuleType) -> None:
    frames = [send(opaque=5), send(opaque=6, flag=FLAG_ONE_WAY), send(opaque=-7)]
    drafts = lane.drafts(frames, 0, 310, TOPICS, BORN, TERMS).drafts
    places = ([0, 1, 2**40 + 255], [3, 4, 5])
    answers, _ = split(lane.replies(frames, 0, drafts, *places, 0, "", TERMS, {2: "handle_-="}))
    assert [(answer.opaque, answer.flag, answer.code) for answer in answers] == [(5, 1, 0), (-7, 1, 0)]
    sent = Sent.decode(answers[1].ext)
    assert sent.msg_id == "7F0000010000" + "00000100000000FF"
    assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (2, 5, "ABC")
    assert (sent.region, sent.trace_on) == ("R", "true")
    assert [Sent.decode(answer.ext).recall_handle for answer in answers] == [None, "handle_-="]


NAMES = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "DELAY", "user", "", "ü"])
VALUES = st.sampled_from(["true", "false", "A", "a b", "", "\x01", "x\ty", 'q"uote', "back\\slash", "é"])
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
NUMBERS = st.one_of(st.none(), st.integers(-5, 2**40).map(str), st.sampled_from(["", " 1", "+1", "1_0"]))


@pytest.mark.skipif(len(TWINS) < 2, reason="needs both twins")
@given(PAIRS, st.booleans(), NUMBERS, NUMBERS, NUMBERS, st.integers(-(2**31), 2**31 - 1))
def test_the_twins_agree(
    pairs: list[tuple[str, str]], is_ended: bool, e: str | None, f: str | None, g: str | None, opaque: int
) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs) + ("\x02" if is_ended else "")
    frames = [send(), send(text, opaque=opaque, e=e, f=f, g=g), send(text, opaque=opaque)]
    twins = [importlib.import_module(f"roquet.broker.core._lane_{twin}") for twin in TWINS]
    for start in range(3):
        runs = [twin.drafts(frames, start, 310, TOPICS, BORN, TERMS) for twin in twins]
        assert runs[0] == runs[1]
        drafts, offsets = runs[0].drafts, list(range(len(runs[0].drafts)))
        for handles in ({}, {0: "handle", 1: 'es"caped'}):
            asked = (frames, start, drafts, offsets, offsets, 0, "", TERMS, handles)
            assert twins[0].replies(*asked) == twins[1].replies(*asked)
