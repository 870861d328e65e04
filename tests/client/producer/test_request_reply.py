"""The small parts of request and reply: where a reply goes first, and whom it is for."""

from __future__ import annotations

import pytest

from roquet.client.errors import Misuse
from roquet.client.message import Message
from roquet.client.producer.request_reply import _host, answer_to, first_at
from roquet.model.message import Host, format_properties
from roquet.model.route import QueueName
from roquet.store.format.record import Record

QUEUES = tuple(QueueName(broker, queue_id, "t") for broker in ("a", "b", "c") for queue_id in range(2))


def message(**properties: str) -> Message:
    host = Host(bytes(4), 0)
    text = format_properties(properties).encode()
    return Message(Record(0, 0, 0, 0, 0, 0, 0, 0, host, 0, host, 0, 0, b"?", "t", text), "a")


def test_a_reply_goes_to_the_broker_of_the_request_and_then_to_the_others() -> None:
    pick = first_at("b")
    assert [pick(QUEUES).broker_name for _ in range(4)] == ["b", "a", "a", "c"]


def test_a_broker_that_is_gone_is_passed_over() -> None:
    assert first_at("x")(QUEUES).broker_name == "a"


def test_a_reply_carries_what_finds_the_asker() -> None:
    request = message(CORRELATION_ID="C", REPLY_TO_CLIENT="me@1", TTL="500", CLUSTER="East")
    assert answer_to(request) == (
        "East_REPLY_TOPIC",
        {"CORRELATION_ID": "C", "REPLY_TO_CLIENT": "me@1", "TTL": "500", "MSG_TYPE": "reply"},
    )


def test_a_plain_message_wants_no_reply() -> None:
    with pytest.raises(Misuse, match="lacks CORRELATION_ID, REPLY_TO_CLIENT, CLUSTER"):
        answer_to(message(x="1"))


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("127.0.0.1:80", Host(b"\x7f\0\0\1", 80)),
        ("/127.0.0.1:80", Host(b"\x7f\0\0\1", 80)),
        ("[::1]:80", Host(bytes(15) + b"\1", 80)),
        ("somewhere:80", Host(bytes(4), 0)),
        ("", Host(bytes(4), 0)),
    ],
)
def test_hosts_as_brokers_write_them(text: str, host: Host) -> None:
    assert _host(text) == host
