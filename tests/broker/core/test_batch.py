"""Batches: both twins make the drafts that single messages would become, and name those features must see."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.broker.core.batch import COMPILED, message_ids
from roquet.model.message import Draft, Host, java_hash
from roquet.wire.bodies.batch import BatchError, join_item

TWINS = ["py"] if os.environ.get("ROQUET_PURE") == "1" else ["py", "c"]
SHARED = Draft("t", 3, b"", b"", 0, 0x20, 1_700_000_000_000, Host(b"\x7f\0\0\1", 4321), 1)
MARKS = frozenset({"DELAY", "TRAN_MSG"})


@pytest.fixture(scope="module", params=TWINS)
def batch(request: pytest.FixtureRequest) -> ModuleType:
    """Return one twin after the other."""
    return importlib.import_module(f"roquet.broker.core._batch_{request.param}")


def test_the_compiled_twin_is_taken() -> None:
    assert ("c" in TWINS) == COMPILED


def test_messages_become_drafts_with_their_own_bytes(batch: ModuleType) -> None:
    texts = [
        b"UNIQ_KEY\x01A\x02KEYS\x01k1 \t k2\x02TAGS\x01tag\x02",
        b"",
        b"TAGS\x01x\x02TAGS\x01y\x02\x01no\x02name\x01\x02UNIQ_KEY\x01B",
        "UNIQ_KEY\x01C\x02KEYS\x01ü\xa0v\x02".encode(),
    ]
    body = b"".join(join_item(number - 1, b"b%d" % number, text) for number, text in enumerate(texts))
    drafts, marked = batch.drafts(body, SHARED, MARKS, False)
    assert not marked
    keys = [("A", "k1", "k2", "T#tag"), (), ("B", "T#y"), ("C", "ü", "v")]
    codes = [java_hash("tag"), 0, java_hash("y"), 0]
    assert drafts == [
        SHARED._replace(
            body=b"b%d" % number, properties=text, flag=number - 1, tag_code=codes[number], keys=keys[number]
        )
        for number, text in enumerate(texts)
    ]
    assert all(type(draft) is Draft for draft in drafts)


def test_what_features_must_see_is_named(batch: ModuleType) -> None:
    body = b"".join(
        join_item(0, b"x", text)
        for text in (b"a\x01b\x02", b"DELAY\x013\x02", b"DELAY\x01\x02", "ü\x01b\x02".encode())
    )
    assert batch.drafts(body, SHARED, MARKS, False).marked == [(1, {"DELAY": "3"})]
    assert batch.drafts(body, SHARED, MARKS, True).marked == [
        (0, {"a": "b"}), (1, {"DELAY": "3"}), (2, {}), (3, {"ü": "b"}),
    ]  # fmt: skip


@pytest.mark.parametrize("cut", [1, 21, 22, 23, 29])
def test_a_body_that_breaks_off_is_no_batch(batch: ModuleType, cut: int) -> None:
    item = join_item(0, b"four", b"a\x01b\x02")
    with pytest.raises(BatchError):
        batch.drafts(item + item[:cut], SHARED, MARKS, False)
    with pytest.raises(BatchError):
        batch.drafts(item[:-1], SHARED, MARKS, False)


def test_an_empty_body_holds_no_message(batch: ModuleType) -> None:
    assert batch.drafts(b"", SHARED, MARKS, False) == ([], [])


def test_ids_are_hexadecimal_with_commas() -> None:
    assert message_ids("AB", [0]) == "AB0000000000000000"
    assert message_ids("AB", [255, 2**40]) == "AB00000000000000FF,AB0000010000000000"


NAMES = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "DELAY", "user", "", "ü"])
VALUES = st.sampled_from(["true", "A", "a b", "", "\x01", "x\ty", "\x1fq\x1c", "é"])
TEXTS = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
)
ITEMS = st.lists(
    st.tuples(st.integers(-9, 9), st.binary(max_size=5), st.one_of(TEXTS, st.binary(max_size=9)))
)


@pytest.mark.skipif(len(TWINS) < 2, reason="needs both twins")
@settings(max_examples=100)
@given(ITEMS, st.booleans(), st.one_of(st.none(), st.tuples(st.integers(0, 40), st.integers(0, 255))))
def test_the_twins_agree(
    items: list[tuple[int, bytes, bytes]], is_marked: bool, change: tuple[int, int] | None
) -> None:
    body = bytearray(b"".join(join_item(*item) for item in items))
    if change is not None and change[0] < len(body):
        body[change[0]] = change[1]
    twins = [importlib.import_module(f"roquet.broker.core._batch_{name}") for name in TWINS]
    outcomes = []
    for twin in twins:
        try:
            outcomes.append(twin.drafts(bytes(body), SHARED, MARKS, is_marked))
        except BatchError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
