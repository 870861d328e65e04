"""Queues in turns and by key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.client.core.choose import Turns, by_key
from roquet.model.message import java_hash
from roquet.model.route import QueueName

QUEUES = tuple(QueueName(broker, queue_id, "t") for broker in ("a", "b") for queue_id in range(2))


def test_every_queue_has_its_turn() -> None:
    turns = Turns(3)
    assert [turns.next(QUEUES) for _ in range(5)] == [QUEUES[3], *QUEUES]


def test_a_wish_is_met_where_it_can_be() -> None:
    turns = Turns(0)
    assert turns.next_where(QUEUES, lambda broker: broker == "b") == QUEUES[2]
    assert turns.next_where(QUEUES, lambda broker: broker == "b") == QUEUES[3]


def test_the_second_wish_counts_when_nobody_meets_the_first() -> None:
    assert Turns(0).next_where(QUEUES, lambda _: False, lambda broker: broker == "b") == QUEUES[2]


def test_without_anybody_who_meets_a_wish_it_goes_on_in_turns() -> None:
    assert Turns(1).next_where(QUEUES, lambda _: False) == QUEUES[1]


@pytest.mark.parametrize(
    ("key", "count", "place"),
    [
        ("order-42", 8, 5),  # 1234255197
        ("polygenelubricants", 3, 2),  # Integer.MIN_VALUE, whose absolute value Java cannot tell
        ("hello", 4, 2),  # 99162322
        ("hello world!!", 7, 6),  # 1854031332
        ("", 5, 0),
    ],
)
def test_a_key_goes_where_java_puts_it(key: str, count: int, place: int) -> None:
    queues = tuple(QueueName("a", queue_id, "t") for queue_id in range(count))
    assert by_key(queues, key) == queues[place]


@given(st.text(), st.integers(1, 100))
def test_java_takes_the_remainder_first_and_its_sign_afterwards(key: str, count: int) -> None:
    code = java_hash(key)
    remainder = code - int(code / count) * count  # towards zero, as Java's %
    queues = tuple(QueueName("a", queue_id, "t") for queue_id in range(count))
    assert by_key(queues, key).queue_id == abs(remainder)
