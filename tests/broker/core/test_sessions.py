"""Sessions: who is in a group, when it has changed, and who has been silent for too long."""

from __future__ import annotations

from typing import NamedTuple

from roquet.broker.core.sessions import ConsumerData, Sessions
from roquet.model.group import Subscription


class Wire(NamedTuple):
    """A channel that is nothing but an identity."""

    peer: tuple[str, int]


A, B = Wire(("127.0.0.1", 1)), Wire(("127.0.0.1", 2))


def data(*topics: str, version: int = 1, model: str = "CLUSTERING") -> ConsumerData:
    subscriptions = tuple(Subscription(topic=topic, sub_version=version) for topic in topics)
    return ConsumerData("g", "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", subscriptions)


def test_joining_changes_a_group_once() -> None:
    sessions = Sessions()
    assert sessions.join_consumer(data("t"), A, "a", "JAVA", 513, 0)
    assert not sessions.join_consumer(data("t"), A, "a", "JAVA", 513, 1)
    assert sessions.join_consumer(data("t"), B, "b", "JAVA", 513, 1)
    assert sessions.client_ids("g") == ["a", "b"]


def test_subscriptions_change_by_topic_and_newer_versions_win() -> None:
    sessions = Sessions()
    sessions.join_consumer(data("t", version=5), A, "a", "JAVA", 513, 0)
    assert not sessions.join_consumer(data("t", version=4), A, "a", "JAVA", 513, 0)
    assert sessions.consumers["g"].subscriptions["t"].sub_version == 5
    assert sessions.join_consumer(data("t", "u", version=6), A, "a", "JAVA", 513, 0)
    assert sessions.join_consumer(data("u", version=7), A, "a", "JAVA", 513, 0)
    assert list(sessions.consumers["g"].subscriptions) == ["u"]


def test_a_client_that_reconnected_counts_once() -> None:
    sessions = Sessions()
    sessions.join_consumer(data("t"), A, "a", "JAVA", 513, 0)
    sessions.join_consumer(data("t"), B, "a", "JAVA", 513, 0)
    assert sessions.client_ids("g") == ["a"]


def test_a_closed_channel_leaves_everything_and_names_the_groups() -> None:
    sessions = Sessions()
    sessions.join_consumer(data("t"), A, "a", "JAVA", 513, 0)
    sessions.join_producer("p", A, "a", "JAVA", 513, 0)
    assert sessions.leave_all(A) == ["g"]
    assert sessions.leave_all(A) == []
    assert not sessions.producers and not sessions.consumers


def test_silence_is_noticed_by_channel() -> None:
    sessions = Sessions()
    sessions.join_consumer(data("t"), A, "a", "JAVA", 513, 0)
    sessions.join_producer("p", A, "a", "JAVA", 513, 0)
    sessions.join_producer("p", B, "b", "JAVA", 513, 100)
    assert sessions.silent(120.0) == []
    assert sessions.silent(120.5) == [A]
    sessions.join_producer("p", A, "a", "JAVA", 513, 120)
    assert sessions.silent(121) == [A]  # its consumer is still silent
