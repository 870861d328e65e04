"""`roquet topic` and `roquet group`, and how a command ends when it cannot."""

from __future__ import annotations

import pytest

from tests.cli.place import Place, run
from tests.peers.ports import free_port


def test_a_topic_from_its_creation_to_its_end(roquet: Place) -> None:
    (done,) = roquet.rows("topic", "create", "orders", "--queues", "3", "--kind", "FIFO")
    assert done == {"done": True, "topic": "orders", "queues": 3, "brokers": ["broker-a"]}
    assert {"topic": "orders", "kind": "topic"} in roquet.rows("topic", "list")
    assert "TBW102" not in {row["topic"] for row in roquet.rows("topic", "list")}
    assert {"topic": "TBW102", "kind": "system"} in roquet.rows("topic", "list", "--all")
    roquet.rows("topic", "update", "orders", "--write-queues", "2", "--access", "w")
    (shown,) = roquet.rows("topic", "show", "orders")
    assert (shown["read_queues"], shown["write_queues"], shown["access"]) == (3, 2, "w")
    assert shown["attributes"] == {"message.type": "FIFO"}
    assert roquet("topic", "delete", "orders", "--yes").code == 0
    gone = roquet("topic", "show", "orders")
    assert gone.code == 1 and "orders" in gone.err and "roquet topic create" in gone.err


def test_tables_for_people(roquet: Place) -> None:
    roquet.rows("topic", "create", "seen", "--queues", "2")
    stats = roquet("topic", "stats", "seen", "--table").out
    assert "seen: 0 messages" in stats and "max offset" in stats
    assert "Consumed by: nobody" in roquet("topic", "show", "seen", "--table").out
    assert roquet("topic", "create", "seen2", "--table").out.startswith("Created seen2 with 8 queues")


def test_deleting_wants_a_word(roquet: Place) -> None:
    roquet.rows("topic", "create", "kept")
    refused = roquet("topic", "delete", "kept")
    assert refused.code == 2 and "--yes" in refused.err
    assert "kept" in {row["topic"] for row in roquet.rows("topic", "list")}


def test_a_group_from_its_creation_to_its_end(roquet: Place) -> None:
    roquet.rows("group", "create", "billing", "--max-attempts", "3")
    assert {"group": "billing"} in roquet.rows("group", "list")
    roquet.rows("group", "update", "billing", "--no-consume")
    (shown,) = roquet.rows("group", "show", "billing")
    assert (shown["max_attempts"], shown["may_consume"], shown["members"]) == (3, False, [])
    assert roquet("group", "delete", "billing", "--yes").code == 0
    for words in (("show",), ("lag",), ("delete", "--yes"), ("update", "--consume")):
        gone = roquet("group", words[0], "billing", *words[1:])
        assert gone.code == 1 and "roquet group create billing" in gone.err


def test_lag_and_reset(roquet: Place) -> None:
    roquet.rows("topic", "create", "work", "--queues", "1")
    roquet.rows("group", "create", "workers")
    roquet.rows("send", "work", "x", "--count", "5")
    (moved,) = roquet.rows("group", "reset", "workers", "work", "--to", "earliest", "--yes")
    assert moved["offset"] == 0
    (row,) = roquet.rows("group", "lag", "workers")
    assert (row["topic"], row["lag"], row["broker_offset"]) == ("work", 5, 5)
    reset = ("group", "reset", "workers", "work", "--yes")
    (moved,) = roquet.rows(*reset, "--queue", "broker-a/0", "--offset", "3")
    assert moved["offset"] == 3
    (row,) = roquet.rows("group", "lag", "workers", "--topic", "work")
    assert row["lag"] == 2
    assert roquet(*reset, "--queue", "broker-a/0", "--offset", "77").code == 1
    assert roquet(*reset, "--to", "latest").code == 0
    assert "0 behind" in roquet("group", "lag", "workers", "--table").out


@pytest.mark.parametrize(
    "words",
    [
        ("group", "reset", "g", "t", "--yes"),
        ("group", "reset", "g", "t", "--yes", "--to", "latest", "--queue", "a/0", "--offset", "1"),
        ("group", "reset", "g", "t", "--yes", "--queue", "nonsense", "--offset", "1"),
        ("group", "reset", "g", "t", "--yes", "--to", "yesterday-ish"),
        ("topic", "create", "t", "--attribute", "nonsense"),
        ("topic", "create", "no blanks"),
        ("topic", "create", "t", "--access", "everything"),
        ("topic", "nonsense"),
    ],
)
def test_wrong_usage_is_code_2(roquet: Place, words: tuple[str, ...]) -> None:
    ran = roquet(*words)
    assert ran.code == 2 and not ran.out and ran.err


def test_no_server_is_code_3_and_says_what_to_do() -> None:
    ran = run("topic", "list", "-n", f"127.0.0.1:{free_port()}")
    assert ran.code == 3
    assert "roquet up" in ran.err and len(ran.err.splitlines()) == 1 and not ran.out


def test_the_environment_names_the_servers(roquet: Place) -> None:
    assert run("cluster", "brokers", ROQUET_NAMESRV=roquet.namesrv).rows()[0]["name"] == "broker-a"
    assert run("cluster", "brokers", NAMESRV_ADDR=roquet.namesrv).rows()[0]["role"] == "master"


def test_the_cluster(roquet: Place) -> None:
    (shown,) = roquet.rows("cluster", "show")
    assert (shown["cluster"], shown["broker"], shown["version"]) == ("DefaultCluster", "broker-a", "V5_5_0")
    assert roquet.rows("cluster", "settings", "broker-a", "--grep", "brokerName") == [
        {"key": "brokerName", "value": "broker-a"}
    ]
    assert roquet.rows("cluster", "settings", "broker-a", "fileReservedTime=47") == [
        {"key": "fileReservedTime", "value": "47"}
    ]
    assert roquet("cluster", "settings", "broker-a", "listenPort=1").code == 1
    assert roquet("cluster", "settings", "broker-z").code == 1
    roquet.rows("send", "counted", "x")
    spans = [row["span"] for row in roquet.rows("cluster", "stats", "TOPIC_PUT_NUMS", "counted")]
    assert spans == ["minute", "hour", "day"]
    assert "broker-a" in roquet("cluster", "brokers", "--table").out
