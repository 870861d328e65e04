"""What of a stored message is sent again; what members of a group do not agree on."""

from __future__ import annotations

import pytest

from roquet.client.admin.clients import View, views_that_differ
from roquet.client.admin.revival import again, first_topic
from roquet.client.errors import Misuse
from roquet.client.message import Message
from roquet.model.group import Subscription
from roquet.model.message import Draft, Host, SysFlag, format_properties, parse_properties
from roquet.store.format import record

HERE = Host(bytes([127, 0, 0, 1]), 10911)


def stored(topic: str, properties: dict[str, str], sys_flag: int = 0, tries: int = 0) -> Message:
    text = format_properties(properties).encode()
    draft = Draft(topic, 1, b"body", text, 7, sys_flag, 1_000, HERE, reconsume_times=tries)
    return Message(record.decode(record.encode(draft, 5, 4_096, 2_000, HERE)), "broker-a")


def test_orders_that_were_carried_out_are_left_behind() -> None:
    spent = {"DELAY": "3", "REAL_TOPIC": "x", "REAL_QID": "1", "TRAN_MSG": "true", "TIMER_OUT_MS": "9"}
    kept = {"UNIQ_KEY": "U", "KEYS": "k", "TAGS": "t", "color": "red"}
    message = stored("orders", kept | spent, int(SysFlag.TRANSACTION_COMMIT | SysFlag.COMPRESSED | 0x300))
    draft = again(message, "copies")
    assert parse_properties(draft.properties) == kept | {"ORIGIN_MESSAGE_ID": message.offset_id}
    assert draft.sys_flag == SysFlag.COMPRESSED | 0x300
    assert (draft.topic, draft.body, draft.flag, draft.born_ms) == ("copies", b"body", 7, 1_000)
    request = draft.request(3)
    assert (request.queue_id, request.reconsume_times, request.topic) == (3, 0, "copies")


def test_a_dead_letter_keeps_its_history() -> None:
    message = stored("%DLQ%g", {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "first"}, tries=16)
    assert first_topic(message) == "orders"
    properties = parse_properties(again(message, "orders").properties)
    assert properties["DLQ_ORIGIN_TOPIC"] == "orders"
    assert properties["DLQ_ORIGIN_MESSAGE_ID"] == properties["ORIGIN_MESSAGE_ID"] == "first"
    assert properties["RECONSUME_TIME"] == "16"


@pytest.mark.parametrize("origin", [{}, {"RETRY_TOPIC": "%RETRY%g"}, {"RETRY_TOPIC": "no blanks"}])
def test_a_dead_letter_that_does_not_say_where_it_came_from(origin: dict[str, str]) -> None:
    message = stored("%DLQ%g", origin)
    with pytest.raises(Misuse, match="resend"):
        first_topic(message)
    assert parse_properties(again(message, "mine").properties)["DLQ_ORIGIN_TOPIC"] == "mine"
    with pytest.raises(Misuse, match="no dead letters"):
        first_topic(stored("orders", {}))


def test_members_that_agree_and_members_that_do_not() -> None:
    a, b = Subscription(topic="T", sub_string="a"), Subscription(topic="T", sub_string="b")
    sql = Subscription(topic="T", sub_string="a", expression_type="SQL92")
    other = Subscription(topic="U")
    assert views_that_differ({"1": [a], "2": [a]}) == {}
    assert views_that_differ({"1": [a], "2": [b], "3": [a]}) == {
        "T": [View(("1", "3"), "a", "TAG"), View(("2",), "b", "TAG")]
    }
    assert set(views_that_differ({"1": [a], "2": [sql]})) == {"T"}
    assert views_that_differ({"1": [a, other], "2": [a]}) == {
        "U": [View(("2",), "", ""), View(("1",), "*", "TAG")]
    }
