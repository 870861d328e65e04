"""The table of topics: creation on first use, the broker's own topics, attributes, what a file may hold."""

from __future__ import annotations

import pytest

from roquet.broker.core.topics import Identity, TopicRules, Topics, system_topics
from roquet.model.topic import Perm, Topic

IDENTITY = Identity("DefaultCluster", "broker-a", 0)


def make(rules: TopicRules | None = None) -> tuple[Topics, list[list[str]]]:
    changes: list[list[str]] = []
    topics = Topics(
        IDENTITY,
        rules or TopicRules(),
        lambda: 1_000,
        lambda new: changes.append([topic.topic_name for topic in new]),
    )
    return topics, changes


def test_a_fresh_broker_has_fifteen_topics_like_apache() -> None:
    topics, changes = make()
    assert len(topics.table) == 15
    assert topics.table["TBW102"].perm == 7
    assert topics.table["BenchmarkTest"].write_queue_nums == 1024
    assert changes == []


@pytest.mark.parametrize(("asked", "queues"), [(4, 4), (16, 8), (0, 0), (-3, 0)])
def test_a_first_send_creates_the_topic_from_the_template(asked: int, queues: int) -> None:
    topics, changes = make()
    created = topics.create_on_send("orders", "TBW102", asked, False)
    assert created is not None
    assert (created.write_queue_nums, created.read_queue_nums, created.perm) == (queues, queues, 6)
    assert changes == [["orders"]]
    assert topics.version.counter == 1


def test_a_template_without_the_inherit_bit_creates_nothing() -> None:
    topics, changes = make()
    topics.put(Topic(topic_name="plain"))
    assert topics.create_on_send("orders", "plain", 4, False) is None
    assert topics.create_on_send("orders", "absent", 4, False) is None
    assert changes == [["plain"]]


def test_creation_can_be_switched_off_while_running() -> None:
    topics, _ = make()
    topics.rules = topics.rules._replace(auto_create=False)
    assert topics.create_on_send("orders", "TBW102", 4, False) is None
    retry = topics.create_on_send("%RETRY%g", "TBW102", 4, False)
    assert retry is not None and retry.write_queue_nums == 1


def test_an_equal_topic_is_no_change() -> None:
    topics, changes = make()
    topics.put(Topic(topic_name="a"))
    topics.put(Topic(topic_name="a"))
    assert changes == [["a"]]


def test_what_was_dumped_loads_again_and_bad_names_do_not() -> None:
    topics, _ = make()
    topics.put(Topic(topic_name="a", attributes={"message.type": "FIFO"}, order=True))
    stored = topics.dump()
    stored["topicConfigTable"]["../x"] = {"topicName": "../x"}
    stored["topicConfigTable"]["%RETRY%g+t"] = {"topicName": "%RETRY%g+t", "readQueueNums": 1}
    again, _ = make()
    again.load(stored)
    assert again.table["a"] == topics.table["a"]
    assert again.version == topics.version
    assert "../x" not in again.table
    assert "%RETRY%g+t" in again.table


def test_order_configuration_of_the_name_server_sets_the_flag() -> None:
    topics, changes = make()
    topics.put(Topic(topic_name="a"), Topic(topic_name="b", order=True))
    topics.mark_ordered(["a"])
    assert topics.table["a"].order and not topics.table["b"].order
    assert sorted(changes[-1]) == ["a", "b"]


def test_the_brokers_own_topics_cannot_be_reshaped_by_a_file() -> None:
    topics, _ = make()
    topics.load(
        {"topicConfigTable": {"SCHEDULE_TOPIC_XXXX": {"topicName": "SCHEDULE_TOPIC_XXXX", "perm": 1}}}
    )
    assert topics.table["SCHEDULE_TOPIC_XXXX"].perm == 6


def test_the_trace_topic_exists_when_it_is_switched_on() -> None:
    found = {topic.topic_name: topic for topic in system_topics(IDENTITY, TopicRules(trace_topic="TRACE"))}
    assert found["TRACE"].write_queue_nums == 1
    assert found["rmq_sys_SYNC_BROKER_MEMBER_broker-a"].perm == Perm.INHERIT
