"""What a parcel makes of its answer, and how its header looks beside one of Apache's client."""

from __future__ import annotations

import pytest

from roquet.client.message import Outgoing
from roquet.client.producer.parcel import Parcel
from roquet.model.route import QueueName
from roquet.wire.header import Frame
from roquet.wire.requests.send import SendBatch, SendV2

QUEUE = QueueName("broker-a", 3, "t")


def parcel(count: int = 1) -> Parcel:
    messages = [Outgoing(topic="orders", body=b"x", flag=7)] * count
    ids = [f"ID{n}" for n in range(count)]
    pairs = [{"UNIQ_KEY": each} for each in ids]
    form = SendBatch if count > 1 else SendV2
    return Parcel("shop%orders", messages, ids, pairs, "normal", b"x", 99, form=form)


def test_a_header_has_every_field_that_brokers_want() -> None:
    header = parcel().request("group", QUEUE, {"DELAY": "3"}).encode()
    assert header == {
        "a": "group",
        "b": "shop%orders",
        "c": "TBW102",
        "d": "4",
        "e": "3",
        "f": "0",
        "g": "99",
        "h": "7",
        "i": "UNIQ_KEY\x01ID0\x02DELAY\x013\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }


def test_a_batch_says_so_and_leaves_the_properties_to_its_items() -> None:
    header = parcel(2).request("group", QUEUE, {}).encode()
    assert (header["m"], header["i"]) == ("true", "")


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, "ok"), (10, "flush-disk-timeout"), (11, "slave-not-available"), (12, "flush-slave-timeout")],
)
def test_a_weaker_promise_is_told(code: int, status: str) -> None:
    ext = {"msgId": "PLACE", "queueId": "3", "queueOffset": "5", "TRACE_ON": "false", "MSG_REGION": "R"}
    (receipt,) = parcel().receipts("broker-a", Frame(code, ext=ext))
    assert (receipt.message_id, receipt.offset_id, receipt.topic) == ("ID0", "PLACE", "orders")
    assert (receipt.queue_id, receipt.queue_offset, receipt.status) == (3, 5, status)
    assert (receipt.region, receipt.is_traced) == ("R", False)


def test_each_message_of_a_batch_has_its_place() -> None:
    ext = {"msgId": "P0,P1,P2", "queueId": "3", "queueOffset": "5"}
    receipts = parcel(3).receipts("broker-a", Frame(0, ext=ext))
    places = [(each.message_id, each.offset_id, each.queue_offset) for each in receipts]
    assert places == [("ID0", "P0", 5), ("ID1", "P1", 6), ("ID2", "P2", 7)]


def test_a_batch_that_is_stored_as_one_record_has_one_place() -> None:
    ext = {"msgId": "P0", "queueId": "3", "queueOffset": "5"}
    receipts = parcel(2).receipts("broker-a", Frame(0, ext=ext))
    assert [each.offset_id for each in receipts] == ["P0", "P0"]
