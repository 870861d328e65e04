"""`roquet send`, `consume`, `tail`, `message`, `dlq` and `bench` against a real broker."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from roquet.client.consumer.consumer import Consumer
from roquet.testing import ThreadedBroker
from tests.cli.place import Place


def test_a_message_is_sent_and_found(roquet: Place) -> None:
    words = ("--tag", "created", "--key", "42", "--key", "eu", "--property", "color=red")
    (receipt,) = roquet.rows("send", "orders", '{"id": 42}', *words)
    assert (receipt["topic"], receipt["status"]) == ("orders", "ok")
    (found,) = roquet.rows("message", "get", receipt["offset_id"])
    assert (found["body"], found["tag"], found["keys"]) == ('{"id": 42}', "created", ["42", "eu"])
    assert found["properties"]["color"] == "red"
    (same,) = roquet.rows("message", "get", receipt["message_id"], "--topic", "orders")
    assert same == found
    assert [row["message_id"] for row in roquet.rows("message", "key", "orders", "42")] == [
        found["message_id"]
    ]
    assert roquet.rows("message", "time", "orders", "--from", "1h") == [found]
    place = f"{found['broker']}/{found['queue_id']}"
    assert roquet.rows("message", "offset", "orders", place, str(found["queue_offset"])) == [found]
    assert roquet("message", "key", "orders", "absent").code == 1
    assert roquet("message", "get", "0" * 32, "--topic", "orders").code == 1
    assert roquet("message", "get", "0" * 32).code == 2
    assert "created" in roquet("message", "key", "orders", "42", "--table").out
    (copy,) = roquet.rows("message", "resend", receipt["offset_id"], "--to", "copies")
    assert copy["topic"] == "copies"


def test_bodies_come_from_arguments_files_and_stdin(roquet: Place, tmp_path: Path) -> None:
    file = tmp_path / "body.bin"
    file.write_bytes(b"\xff\x00")
    roquet.rows("topic", "create", "bodies", "--queues", "1")
    roquet.rows("send", "bodies", "--file", str(file))
    roquet.rows("send", "bodies", "-", stdin="from stdin")
    assert len(roquet.rows("send", "bodies", "--lines", "--batch", "2", stdin="a\nb\nc\n")) == 3
    found = roquet.rows("tail", "bodies", "--from", "earliest", "--max", "5")
    assert [row.get("body") or row["body_base64"] for row in found] == ["/wA=", "from stdin", "a", "b", "c"]


def test_many_messages_and_their_order(roquet: Place) -> None:
    sent = roquet.rows("send", "many", "--ordering-key", "k", "--lines", stdin="\n".join("abcdef"))
    assert len({row["queue_id"] for row in sent}) == 1
    assert [row["queue_offset"] for row in sent] == list(range(6))
    assert roquet("send", "many", "x", "--count", "20", "--table").out == "Sent 20 messages to many.\n"
    assert len(roquet.rows("send", "many", "x", "--count", "10", "--batch", "4")) == 10


def test_delays(roquet: Place, broker: ThreadedBroker) -> None:
    roquet.rows("topic", "create", "later", "--queues", "1")
    (receipt,) = roquet.rows("send", "later", "in two hours", "--delay", "2h")
    assert receipt["recall_handle"]
    assert roquet.rows("tail", "later", "--from", "earliest", "--wait", "300ms") == []
    broker.advance(timedelta(hours=2, seconds=1))
    (found,) = roquet.rows("tail", "later", "--from", "earliest", "--max", "1")
    assert found["body"] == "in two hours"


@pytest.mark.parametrize(
    "words",
    [
        ("t", "x", "--delay", "1h", "--at", "10:30"),
        ("t", "x", "--delay", "soon"),
        ("t", "x", "--at", "tea time"),
        ("t", "x", "--batch", "2", "--delay", "1h"),
        ("t", "x", "--property", "nonsense"),
    ],
)
def test_wrong_usage_of_send(roquet: Place, words: tuple[str, ...]) -> None:
    assert roquet("send", *words).code == 2


def test_consuming_as_a_group(roquet: Place) -> None:
    roquet.rows("topic", "create", "jobs", "--queues", "2")
    for number in range(3):
        roquet.rows("send", "jobs", f"job {number}", "--tag", "a" if number else "b")
    consume = ("consume", "jobs", "--group", "workers", "--from", "earliest")
    looked = roquet.rows(*consume, "--max", "3", "--no-ack")
    assert {row["body"] for row in looked} == {"job 0", "job 1", "job 2"}
    assert sum(row["lag"] for row in roquet.rows("group", "lag", "workers", "--topic", "jobs")) == 3
    taken = roquet.rows(*consume, "--max", "3")
    assert {row["body"] for row in taken} == {"job 0", "job 1", "job 2"}
    assert sum(row["lag"] for row in roquet.rows("group", "lag", "workers", "--topic", "jobs")) == 0
    assert roquet.rows(*consume, "--wait", "300ms") == []
    tagged = roquet.rows("tail", "jobs", "--from", "earliest", "--tag", "a", "--max", "2")
    assert {row["body"] for row in tagged} == {"job 1", "job 2"}
    (found,) = roquet.rows("tail", "jobs", "--from", "earliest", "--sql", "TAGS = 'b'", "--max", "1")
    assert found["body"] == "job 0"
    assert roquet("tail", "jobs", "--tag", "a", "--sql", "b = 1").code == 2
    assert roquet("tail", "absent-topic", "--max", "1").code == 1


async def bury(namesrv: str, group: str, topic: str, count: int) -> None:
    """Give messages up, one after another."""
    async with Consumer(namesrv, group=group, subscribe=topic, start="earliest") as consumer:
        async for message in consumer:
            await message.dead_letter()
            count -= 1
            if not count:
                return


def test_dead_letters(roquet: Place) -> None:
    roquet.rows("topic", "create", "parcels", "--queues", "1")
    roquet.rows("send", "parcels", "--lines", "--ordering-key", "k", stdin="letter 0\nletter 1\nletter 2\n")
    asyncio.run(bury(roquet.namesrv, "carriers", "parcels", 3))
    assert {"group": "carriers", "letters": 3, "not_replayed": 3} in roquet.rows("dlq", "list")
    assert [row["body"] for row in roquet.rows("dlq", "peek", "carriers", "--max", "1")] == ["letter 2"]
    (first,) = roquet.rows("dlq", "replay", "carriers", "--max", "1")
    assert first["topic"] == "parcels"
    assert roquet("dlq", "replay", "carriers", "--table").out == "Replayed 2 dead letters of carriers.\n"
    assert roquet.rows("dlq", "replay", "carriers") == []
    assert {"group": "carriers", "letters": 3, "not_replayed": 0} in roquet.rows("dlq", "list")
    assert roquet("dlq", "peek", "nobody").code == 1


def test_bench(roquet: Place) -> None:
    (sent,) = roquet.rows("bench", "send", "--count", "300", "--topic", "load", "--senders", "8")
    assert (sent["messages"], sent["failed"], sent["topic"]) == (300, 0, "load")
    assert sent["per_second"] > 0 and sent["p99_ms"] >= sent["p50_ms"] > 0
    (batched,) = roquet.rows("bench", "send", "--count", "300", "--topic", "load", "--batch", "50")
    assert batched["messages"] == 300
    (got,) = roquet.rows("bench", "receive", "--count", "500", "--topic", "load")
    assert got["messages"] >= 500


def test_what_a_message_holds_cannot_steer_a_terminal(roquet: Place) -> None:
    roquet.rows("topic", "create", "evil", "--queues", "1")
    (receipt,) = roquet.rows("send", "evil", "\x1b[2J[red]gone[/red]\x07", "--property", "x=[bold]\x1b[0m")
    for words in (
        ("tail", "evil", "--from", "earliest", "--max", "1"),
        ("message", "get", receipt["offset_id"]),
    ):
        out = roquet(*words, "--table").out
        assert "\x1b" not in out and "\x07" not in out
        assert "[red]gone[/red]" in out
    (row,) = roquet.rows("tail", "evil", "--from", "earliest", "--max", "1")
    assert row["body"] == "\x1b[2J[red]gone[/red]\x07"
