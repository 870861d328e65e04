"""The pure parts of transactions: forms in the log, the ledger of undecided halves."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.broker.core.redraft import draft_of, reopen
from roquet.broker.features.transaction import reading, shapes
from roquet.broker.features.transaction.halves import DECISIONS_MAX, OPS_TOGETHER, Half, Halves, Progress
from roquet.model.message import Draft, Host, format_properties, java_hash, parse_properties
from roquet.store.format import record

HOST = Host(bytes((127, 0, 0, 1)), 10911)
GOLDEN = Path(__file__).parents[2] / "golden/store/clean.tar.xz"


def draft(properties: dict[str, str], **changes: Any) -> Draft:
    plain = Draft("t", 3, b"body", format_properties(properties).encode(), 0, 4, 1000, HOST)
    return plain._replace(**changes)


def stored(
    written: Draft, queue_offset: int = 7, log_offset: int = 99, store_ms: int = 2000
) -> record.Record:
    return record.decode(record.encode(written, queue_offset, log_offset, store_ms, HOST))


def golden_records() -> list[record.Record]:
    """Return what Apache 5.5.0 stored for transactions: the topic, the half topic and the op topic."""
    found: list[record.Record] = []
    with tarfile.open(GOLDEN) as archive:
        for member in sorted(archive.getmembers(), key=lambda each: each.name):
            if "/commitlog/" in member.name and member.isfile():
                file = archive.extractfile(member)
                assert file is not None
                data, start = file.read(), int(Path(member.name).name)
                entries = record.scan(data, start, start + len(data), False, (), 100_000).entries
                found += [record.decode(data, entry.log_offset - start) for entry in entries]
    return [each for each in found if "_TRANS_" in each.topic or each.topic == "Transacted"]


def test_forms_are_those_of_apache() -> None:
    half, second, commit, third, op, asked = golden_records()
    assert shapes.op_offsets(op) == [second.queue_offset, third.queue_offset]
    ours = shapes.op([second.queue_offset, third.queue_offset], op.born_ms, op.born_host)
    assert (ours.body, parse_properties(ours.properties.decode())) == (
        op.body,
        parse_properties(op.properties.decode()),
    )
    assert ours.tag_code == java_hash("d")
    draft_of_commit = shapes.commit(*draft_of(second), second.log_offset)
    assert draft_of_commit == draft_of(commit)[0]
    again = parse_properties(shapes.again(half, half.queue_offset, 1).properties.decode())
    assert again.pop(shapes.FIRST_OFFSET) == "0"
    assert again == parse_properties(asked.properties.decode())


def test_a_send_becomes_a_half_and_its_commit_the_message() -> None:
    properties = {"TRAN_MSG": "true", "UNIQ_KEY": "K", "TAGS": "A", "TRANSACTION_CHECK_TIMES": "15"}
    sent = draft(properties, sys_flag=0x4 | 0x1)
    half = shapes.half(sent, properties)
    assert half.is_final
    assert (half.draft.topic, half.draft.queue_id, half.draft.sys_flag) == (
        "RMQ_SYS_TRANS_HALF_TOPIC",
        0,
        0x1,
    )
    assert half.properties == {
        "TRAN_MSG": "true",
        "UNIQ_KEY": "K",
        "TAGS": "A",
        "__transactionId__": "K",
        "REAL_TOPIC": "t",
        "REAL_QID": "3",
    }
    prepared, seen = draft_of(stored(half.draft))
    commit = shapes.commit(prepared, seen, 99)
    assert (commit.topic, commit.queue_id, commit.sys_flag, commit.prepared_log_offset) == ("t", 3, 0x9, 99)
    assert commit.tag_code == java_hash("A")
    assert "TRAN_MSG" not in seen
    assert not shapes.is_half(commit, parse_properties(commit.properties.decode()))


@pytest.mark.parametrize(
    ("value", "changes", "more", "expected"),
    [
        ("true", {}, {}, True),
        ("TRUE", {}, {}, True),
        ("false", {}, {}, False),
        ("true", {"reconsume_times": 1}, {"DELAY": "3"}, False),
        ("true", {"reconsume_times": 1}, {}, True),
        ("true", {}, {"DELAY": "3"}, True),
        ("true", {"reconsume_times": 1}, {"DELAY": "x"}, True),
        ("true", {"sys_flag": 8}, {}, False),
    ],
)
def test_what_opens_a_transaction(
    value: str, changes: dict[str, int], more: dict[str, str], expected: bool
) -> None:
    properties = {"TRAN_MSG": value} | more
    assert shapes.is_half(draft(properties, **changes), properties) is expected


@pytest.mark.parametrize(
    ("body", "tag", "offsets"),
    [
        (b"17,23,", "d", [17, 23]),
        (b"17", "d", [17]),
        (b"", "d", []),
        (b"x,-1,5,\xff,99999999999999999999,", "d", [5]),
        (b"17,", "other", []),
    ],
)
def test_op_records_of_5_and_of_4_9_are_read(body: bytes, tag: str, offsets: list[int]) -> None:
    assert shapes.op_offsets(stored(draft({"TAGS": tag}, body=body))) == offsets


def test_when_a_half_is_due_does_not_depend_on_wrong_clocks() -> None:
    terms = reading.Terms(50.0, 1_000_000, 6_000, 30_000)

    def due(born_ms: int, store_ms: int, **properties: str) -> float:
        data = record.encode(draft(properties, born_ms=born_ms), 7, 99, store_ms, HOST)
        return reading.half_of(reopen(data), terms).due - 50

    assert due(1_000_000, 1_000_000) == 6
    assert due(999_000, 1_000_000) == 5
    assert due(0, 0) == 0
    assert due(9_000_000, 1_000_000) == 6  # the producer's clock is ahead
    assert due(1_000_000, 0, CHECK_IMMUNITY_TIME_IN_SECONDS="60") == 60
    assert due(1_000_000, 0, CHECK_IMMUNITY_TIME_IN_SECONDS="1") == 6
    assert due(1_000_000, 0, CHECK_IMMUNITY_TIME_IN_SECONDS="soon") == 6
    assert due(0, 1_000_000, TRANSACTION_CHECK_TIMES="1") == 30
    assert due(0, 990_000, TRANSACTION_CHECK_TIMES="3") == 110


def test_waits_grow_and_stop_growing() -> None:
    assert [reading.backoff_ms(times, 10) for times in (0, 1, 2, 3, 4, 1_000)] == [10, 10, 20, 40, 40, 40]


def half(queue_offset: int) -> Half:
    return Half(queue_offset, queue_offset * 100, "t", 0, 0.0, 0.0)


def test_a_half_that_moved_is_found_by_every_offset_it_had_and_ends_once() -> None:
    halves = Halves(0, 0)
    moved = half(0)
    halves.add(moved)
    halves.pass_over()
    halves.move(moved, 5, 500, 1.0)
    assert halves.find(0) is halves.find(5) is moved
    assert halves.progress() == Progress(1, 0)
    halves.close(moved, 8)
    assert halves.find(0) is halves.find(5) is None
    assert (halves.decision(0), halves.decision(5)) == (8, 8)
    assert not halves.is_unread(0)
    assert not halves.is_unread(5)
    assert halves.skip(6) == 1


def test_progress_waits_for_the_oldest_open_half_and_for_ops_behind_it() -> None:
    halves = Halves(0, 0)
    for offset in range(200):
        if offset != 100:
            halves.add(ended := half(offset))
            halves.close(ended, 8)
            halves.op_stored([offset])
    assert halves.skip(200) == 100
    halves.add(undecided := half(100))
    halves.pass_over()
    assert halves.skip(200) is None
    progress = halves.progress()
    assert progress.half_offset == 100
    assert 100 - OPS_TOGETHER < progress.op_offset <= 100
    halves.close(undecided, 12)
    halves.op_stored([100])
    assert halves.progress() == Progress(200, 200)


def test_decisions_are_remembered_within_bounds() -> None:
    halves = Halves(0, 0)
    for offset in range(DECISIONS_MAX + 5):
        halves.add(ended := half(offset))
        halves.close(ended, 8)
    assert halves.decision(4) is None
    assert halves.decision(5) == 8


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["new", "read", "end", "move"]), st.integers(0, 30)), max_size=60))
def test_the_ledger_equals_a_plain_table(steps: list[tuple[str, int]]) -> None:
    """The model is a dictionary: for each half that was sent, the offsets it had, until it ends."""
    halves = Halves(0, 0)
    next_offset = 0
    open_offsets: dict[int, list[int]] = {}
    ended: set[int] = set()
    for kind, number in steps:
        if kind == "new":
            open_offsets[next_offset] = [next_offset]
            next_offset += 1
        elif kind == "read":
            limit = min(number, next_offset)
            while (offset := halves.skip(limit)) is not None:
                halves.add(half(offset))
                halves.pass_over()
        elif number < next_offset:
            if halves.is_unread(number):
                halves.add(half(number))
            found = halves.find(number)
            first = next((key for key, offsets in open_offsets.items() if number in offsets), None)
            assert (found is None) == (first is None)
            if found is None or first is None:
                assert number in ended
            elif kind == "end":
                halves.close(found, 8)
                ended.update(open_offsets.pop(first))
            else:
                halves.move(found, next_offset, next_offset * 100, 0.0)
                open_offsets[first].append(next_offset)
                next_offset += 1
    newest = {offsets[-1] for offsets in open_offsets.values()}
    assert halves.progress().half_offset <= min(newest, default=next_offset)
    while (offset := halves.skip(next_offset)) is not None:
        halves.add(half(offset))
        halves.pass_over()
    assert set(halves.open) == newest
    assert halves.progress().half_offset == min(newest, default=next_offset)
