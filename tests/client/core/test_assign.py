"""Shares of queues: the worked examples of Apache's rules, and that no queue is left out or shared twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.client.core.assign import (
    Assign,
    averagely,
    by_configuration,
    by_machine_room,
    consistent_hash,
    in_circle,
    near_first,
    sorted_queues,
)
from roquet.model.route import QueueName


def queues(count: int, broker: str = "broker-a") -> list[QueueName]:
    return [QueueName(broker, queue_id, "T") for queue_id in range(count)]


def shares(assign: Assign, all_queues: Sequence[QueueName], members: Sequence[str]) -> dict[str, list[int]]:
    return {member: [q.queue_id for q in assign(member, all_queues, members)] for member in members}


@pytest.mark.parametrize(
    ("count", "members", "expected"),
    [
        (8, "ABC", {"A": [0, 1, 2], "B": [3, 4, 5], "C": [6, 7]}),
        (4, "ABC", {"A": [0, 1], "B": [2], "C": [3]}),
        (2, "ABC", {"A": [0], "B": [1], "C": []}),
        (6, "ABC", {"A": [0, 1], "B": [2, 3], "C": [4, 5]}),
        (0, "AB", {"A": [], "B": []}),
    ],
)
def test_averagely(count: int, members: str, expected: dict[str, list[int]]) -> None:
    assert shares(averagely, queues(count), list(members)) == expected


def test_in_circle() -> None:
    assert shares(in_circle, queues(8), ["A", "B", "C"]) == {"A": [0, 3, 6], "B": [1, 4, 7], "C": [2, 5]}


def test_by_machine_room() -> None:
    rule = by_machine_room({"here"})
    mixed = [*queues(8, "here@broker-a"), *queues(3, "there@broker-b"), *queues(2, "broker-c")]
    assert shares(rule, mixed, ["A", "B", "C"]) == {"A": [0, 1, 6], "B": [2, 3, 7], "C": [4, 5]}
    assert {queue.broker_name for queue in rule("A", mixed, ["A", "B", "C"])} == {"here@broker-a"}


def test_by_configuration_takes_what_it_is_told_and_exists() -> None:
    rule = by_configuration({QueueName("broker-a", 1, "T"), QueueName("broker-a", 9, "T")})
    assert shares(rule, queues(4), ["A", "B"]) == {"A": [1], "B": [1]}


def test_near_first_keeps_to_the_room_and_shares_deserted_ones() -> None:
    rule = near_first(averagely, lambda member: member[0])
    mixed = [*queues(4, "x@a"), *queues(2, "y@b"), *queues(3, "z@c")]
    members = ["x1", "x2", "y1"]
    got = {m: [(q.broker_name, q.queue_id) for q in rule(m, mixed, members)] for m in members}
    assert got == {
        "x1": [("x@a", 0), ("x@a", 1), ("z@c", 0)],
        "x2": [("x@a", 2), ("x@a", 3), ("z@c", 1)],
        "y1": [("y@b", 0), ("y@b", 1), ("z@c", 2)],
    }


def test_consistent_hash_is_the_one_of_java_clients() -> None:
    # What AllocateMessageQueueConsistentHash of rocketmq-client 5.5.0 answers for these names.
    members = ["10.0.0.1@11#1", "10.0.0.2@22#2", "10.0.0.3@33#3"]
    all_queues = sorted_queues([*queues(8, "broker-b"), *queues(8, "broker-a")])
    got = {
        member: [(q.broker_name[-1], q.queue_id) for q in consistent_hash()(member, all_queues, members)]
        for member in members
    }
    assert got == JAVA_RING


JAVA_RING = {
    "10.0.0.1@11#1": [("a", 1), ("a", 4), ("a", 5), ("a", 6), ("b", 4)],
    "10.0.0.2@22#2": [("a", 2), ("b", 0)],
    "10.0.0.3@33#3": [("a", 0), ("a", 3), ("a", 7), *[("b", n) for n in (1, 2, 3, 5, 6, 7)]],
}


@pytest.mark.parametrize("rule", [averagely, in_circle, by_machine_room({""}), consistent_hash()])
def test_a_stranger_gets_nothing(rule: Assign) -> None:
    assert list(rule("Z", queues(8, "@a"), ["A", "B"])) == []
    assert list(near_first(rule, lambda member: member)("Z", queues(8), ["A", "B"])) == []


@given(
    count=st.integers(0, 40),
    members=st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=9, unique=True),
    rule=st.sampled_from(
        [
            averagely,
            in_circle,
            by_machine_room({"r"}),
            consistent_hash(),
            near_first(averagely, lambda m: m[0]),
        ]
    ),
)
def test_every_queue_has_exactly_one_reader(count: int, members: list[str], rule: Assign) -> None:
    all_queues = queues(count, "r@broker")
    members = sorted(members)
    taken = [queue for member in members for queue in rule(member, all_queues, members)]
    assert sorted(taken) == sorted(all_queues)


def test_the_order_of_queues_is_topic_broker_number() -> None:
    mixed = [QueueName("b", 1, "t"), QueueName("b", 0, "t"), QueueName("a", 10, "t"), QueueName("a", 2, "s")]
    assert sorted_queues(mixed) == [mixed[3], mixed[2], mixed[1], mixed[0]]
