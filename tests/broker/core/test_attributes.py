"""Attributes of topics: what they may be, and which messages they forbid."""

from __future__ import annotations

import pytest

from roquet.broker.core.attributes import change_attributes, kind_of, message_fault, retention_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+message.type=FIFO", {"message.type": "FIFO"}),
        ("+reserve.time=-1, +message.type=NORMAL", {"reserve.time": "-1", "message.type": "NORMAL"}),
        ("+roquet.max.message.size=0", {"roquet.max.message.size": "0"}),
        ("+roquet.retention.bytes=1000", {"roquet.retention.bytes": "1000"}),
        ("-message.type", {}),
    ],
)
def test_attributes_change(text: str, expected: dict[str, str]) -> None:
    assert change_attributes({}, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "+message.tipe=FIFO",
        "message.type=FIFO",
        "+message.type=ODD",
        "+reserve.time=-2",
        "+reserve.time=²",
        "+queue.type=BatchCQ",
        "+roquet.max.message.size=1k",
        "+roquet.max.message.size=-5",
        "+roquet.max.message.size=" + "9" * 30,
        "+roquet.retention.bytes=",
        "+roquet.unknown=1",
        "+",
    ],
)
def test_attributes_that_make_no_sense_are_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"message|reserve|queue|roquet|\+"):
        change_attributes({}, text)


def test_what_is_fixed_does_not_change_later() -> None:
    assert change_attributes({}, "+queue.type=SimpleCQ") == {"queue.type": "SimpleCQ"}
    with pytest.raises(ValueError, match="queue.type"):
        change_attributes({"message.type": "FIFO"}, "+queue.type=SimpleCQ")


def test_sizes_from_a_foreign_file_that_are_none_count_as_unset() -> None:
    assert retention_bytes({}) is None
    assert retention_bytes({"roquet.retention.bytes": "-1"}) is None
    assert retention_bytes({"roquet.retention.bytes": "٣"}) is None
    assert retention_bytes({"roquet.retention.bytes": "7"}) == 7
    assert message_fault({"roquet.max.message.size": "x"}, {}, 10**9, True) == ""


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, "NORMAL"),
        ({"TRAN_MSG": "true", "DELAY": "3"}, "TRANSACTION"),
        ({"TRAN_MSG": "false"}, "NORMAL"),
        ({"DELAY": "3"}, "DELAY"),
        ({"TIMER_DELIVER_MS": "5"}, "DELAY"),
        ({"__SHARDINGKEY": "k"}, "FIFO"),
    ],
)
def test_kinds_of_messages(properties: dict[str, str], kind: str) -> None:
    assert kind_of(properties) == kind


@pytest.mark.parametrize(
    ("declared", "taken"),
    [
        ("NORMAL", {"NORMAL"}),
        ("FIFO", {"NORMAL", "FIFO"}),
        ("DELAY", {"DELAY"}),
        ("TRANSACTION", {"TRANSACTION"}),
        ("MIXED", {"NORMAL", "FIFO", "DELAY", "TRANSACTION"}),
        ("UNSPECIFIED", {"NORMAL", "FIFO", "DELAY", "TRANSACTION"}),
    ],
)
def test_a_declared_type_is_the_only_one(declared: str, taken: set[str]) -> None:
    examples = {
        "NORMAL": {"TAGS": "x"},
        "FIFO": {"__SHARDINGKEY": "k"},
        "DELAY": {"TIMER_DELAY_SEC": "1"},
        "TRANSACTION": {"TRAN_MSG": "true"},
    }
    attributes = {"message.type": declared}
    found = {kind for kind, each in examples.items() if not message_fault(attributes, each, 1, True)}
    assert found == taken
    assert not any(message_fault(attributes, each, 1, False) for each in examples.values())
