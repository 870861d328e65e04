"""Who is connected, and questions that the broker passes on to live consumers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from roquet.model.group import Group
from roquet.model.topic import Topic
from roquet.transport.link import Call
from roquet.wire.reply import Reply
from roquet.wire.requests.client import (
    ConsumeDirectly,
    GetAllProducers,
    GetConsumerConnections,
    GetProducerConnections,
    GetRunningInfo,
)
from roquet.wire.requests.groups import QuerySubscription
from roquet.wire.requests.offsets import GetConsumerStatus
from tests.broker.handlers.desk import Desk


def test_members_of_a_consumer_group_are_shown() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            link = await desk.member("obsG", "obsT", client_id="127.0.0.1@obs")
            address = f"{link.peer[0]}:{link.peer[1]}".encode()
            shown = await desk.ask(GetConsumerConnections("obsG"))
            assert shown.body == (
                b'{"connectionSet":[{"clientAddr":"%s","clientId":"127.0.0.1@obs","language":"JAVA",'
                b'"version":513}],"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
                b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"obsT":'
                b'{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":7,'
                b'"tagsSet":[],"topic":"obsT"}}}' % address
            )
            offline = await desk.ask(GetConsumerConnections("ghost"))
            assert (offline.code, offline.remark) == (206, "the consumer group[ghost] not online")

        desk.run(scenario())


def test_producers_are_shown_by_group_and_all_together() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            link = await desk.member("g")
            desk.sessions.join_producer("obsP", link, "127.0.0.1@obs", "GO", 317, desk.clock.monotonic())
            seen_ms = desk.clock.now_ms()
            await desk.pass_time(30)
            one = json.loads((await desk.ask(GetProducerConnections("obsP"))).body)
            address = f"{link.peer[0]}:{link.peer[1]}"
            assert one == {
                "connectionSet": [
                    {"clientAddr": address, "clientId": "127.0.0.1@obs", "language": "GO", "version": 317}
                ]
            }
            everyone = json.loads((await desk.ask(GetAllProducers())).body)["data"]["obsP"]
            assert everyone[0]["remoteIP"] == f"/{address}"
            assert abs(everyone[0]["lastUpdateTimestamp"] - seen_ms) <= 1
            absent = await desk.ask(GetProducerConnections("ghost"))
            assert (absent.code, absent.remark) == (1, "the producer group[ghost] not exist")

        desk.run(scenario())


def test_a_subscription_is_shown_while_its_group_lives() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await desk.member("g", "orders")
            live = json.loads((await desk.ask(QuerySubscription("g", "orders"))).body)
            assert live["subscriptionData"]["topic"] == "orders"
            assert (await desk.ask(QuerySubscription("g", "other"))).body == b'{"group":"g","topic":"other"}'
            assert (await desk.ask(QuerySubscription("ghost"))).body == b'{"group":"ghost"}'

        desk.run(scenario())


def test_running_info_is_relayed_both_ways() -> None:
    asked: list[dict[str, str]] = []

    def answer(call: Call) -> None:
        asked.append(dict(call.frame.ext))
        call.answer(Reply(body=b'{"properties":{}}', remark="as it came"))

    with Desk() as desk:

        async def scenario() -> None:
            await desk.member("g", "orders", client_id="c1")
            desk.on_call = answer
            relayed = await desk.ask_frame(
                307, {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true", "extra": "kept"}
            )
            assert (relayed.code, relayed.body, relayed.remark) == (0, b'{"properties":{}}', "as it came")
            assert asked == [
                {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true", "extra": "kept"}
            ]

        desk.run(scenario())


def _silent(call: Call) -> None:
    """Never answer."""


@pytest.mark.parametrize(
    ("version", "client_id", "on_call", "code", "words"),
    [
        (513, "ghost", _silent, 1, "The Consumer <g> <ghost> not online"),
        (61, "c1", _silent, 1, "too low to finish"),
        (513, "c1", _silent, 207, "consumer <g> <c1> Timeout"),
    ],
)
def test_a_member_that_cannot_be_asked(
    version: int, client_id: str, on_call: Callable[[Call], None], code: int, words: str
) -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await desk.member("g", client_id="c1", version=version)
            desk.on_call = on_call
            answer = await desk.ask(GetRunningInfo("g", client_id))
            assert answer.code == code
            assert words in answer.remark

        desk.run(scenario())


def test_a_stored_message_is_handed_to_one_member() -> None:
    seen: list[Call] = []

    def consume(call: Call) -> None:
        seen.append(call)
        call.answer(Reply(body=b'{"consumeResult":"CR_SUCCESS"}'))

    with Desk() as desk:

        async def scenario() -> None:
            place = (await desk.append("orders", 0, b"again")).log_offsets[0]
            desk.topics.put(Topic(topic_name="orders", topic_sys_flag=1))
            desk.groups.put(Group(group_name="g", group_sys_flag=2))
            await desk.member("g", "orders", client_id="c1")
            desk.on_call = consume
            msg_id = f"7F00000300002A9F{place:016X}"
            answer = await desk.ask(ConsumeDirectly("g", "c1", msg_id, None, "orders"))
            assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
            (call,) = seen
            assert b"again" in call.frame.body
            assert call.frame.ext["brokerName"] == "broker-a"
            assert (call.frame.ext["topicSysFlag"], call.frame.ext["groupSysFlag"]) == ("1", "2")
            for wrong in (None, "", "nonsense", "7F", f"7F00000300002A9F{place + 1:016X}"):
                refused = await desk.ask(ConsumeDirectly("g", "c1", wrong))
                assert refused.code == 1
                assert "offset id" in refused.remark
            assert len(seen) == 1

        desk.run(scenario())


TABLE = b'{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:3}'


@pytest.mark.parametrize(
    ("reply", "states"),
    [
        (Reply(body=b'{"consumerTable":{},"messageQueueTable":' + TABLE + b"}"), b'{"c1":' + TABLE + b"}"),
        (Reply(1, remark="no such group"), b"{}"),
        (Reply(body=b"nonsense"), b"{}"),
        (Reply(), b"{}"),
    ],
)
def test_members_are_asked_how_far_they_are(reply: Reply, states: bytes) -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await desk.member("g", "orders", client_id="c1")
            desk.on_call = lambda call: call.answer(reply)
            answer = await desk.ask(GetConsumerStatus("orders", "g"))
            assert answer.body == b'{"consumerTable":' + states + b',"messageQueueTable":{}}'
            other = await desk.ask(GetConsumerStatus("orders", "g", "c2"))
            assert other.body == b'{"consumerTable":{},"messageQueueTable":{}}'

        desk.run(scenario())


def test_a_member_that_does_not_answer_is_left_out() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await desk.member("g", "orders", client_id="c1")
            answer = await desk.ask(GetConsumerStatus("orders", "g"))
            assert answer.body == b'{"consumerTable":{},"messageQueueTable":{}}'

        desk.run(scenario())


def test_nobody_online_or_too_old_to_be_asked() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            nobody = await desk.ask(GetConsumerStatus("orders", "ghost"))
            assert (nobody.code, nobody.remark) == (
                1,
                "No Any Consumer online in the consumer group: [ghost]",
            )
            await desk.member("g", "orders", version=27)
            assert (await desk.ask(GetConsumerStatus("orders", "g"))).code == 1

        desk.run(scenario())
