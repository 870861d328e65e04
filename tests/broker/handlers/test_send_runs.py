"""Sends that came together: what the lane stores and answers is what the long way does, for every kind."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
import pytest

from roquet.client import Answered, Plain
from roquet.model.message import Entry, format_properties, parse_properties
from roquet.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from roquet.transport.dialer import Dialer
from roquet.wire.bodies.batch import join_item
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.send import Send, SendBatch, SendV2, Sent
from tests.broker.stage import BROKER, CLIENT_HOST, Stage

BORN_MS = 1_700_000_000_000
SEEN_NAMES = ("msgId", "queueId", "queueOffset", "transactionId", "recallHandle", "MSG_REGION", "TRACE_ON")


class Case(NamedTuple):
    """A message: what its properties are besides the usual, and what comes of it."""

    properties: dict[str, str]
    topic: str
    sys_flag: int = 0
    code: int = Code.SUCCESS


HALF = {"TRAN_MSG": "true", "PGROUP": "PG"}
CASES = [
    Case({}, "t"),
    Case({"DELAY": "3", "TAGS": "A"}, SCHEDULE_TOPIC),
    Case({"DELAY": "99", "TIMER_DELAY_SEC": "9"}, SCHEDULE_TOPIC),
    Case({"DELAY": "0"}, "t"),
    Case({"DELAY": "x"}, "", 0, Code.MESSAGE_ILLEGAL),
    Case({"TIMER_DELAY_SEC": "10", "KEYS": "a b"}, TIMER_TOPIC),
    Case({"TIMER_DELIVER_MS": "1"}, "t"),
    Case({"TIMER_DELAY_MS": str(10**15)}, "", 0, Code.MESSAGE_ILLEGAL),
    Case(HALF, HALF_TOPIC, 4),
    Case({**HALF, "DELAY": "2", "TRANSACTION_CHECK_TIMES": "9"}, HALF_TOPIC, 4),
    Case({**HALF, "TRAN_MSG": "false"}, "t"),
    Case({"REAL_TOPIC": "forged", "REAL_QID": "7", "DELAY": "1"}, SCHEDULE_TOPIC),
    Case({"DELAY": "1", "long": "x" * 32_700}, "", 0, Code.MESSAGE_ILLEGAL),
    Case({"DELAY": "1", "long": "x" * 32_000}, SCHEDULE_TOPIC),
    Case({}, "t"),
]


class Outcome(NamedTuple):
    answers: list[tuple[int, dict[str, str], str]]
    records: list[tuple[Any, ...]]


def told(answer: Frame) -> tuple[int, dict[str, str], str]:
    ext = {name: answer.ext[name] for name in SEEN_NAMES if name in answer.ext}
    return answer.code, ext, answer.remark


def laid_down(entry: Entry) -> tuple[Any, ...]:
    properties = parse_properties(entry.properties.decode())
    return (*entry[:6], entry.sys_flag, entry.prepared_log_offset, entry.keys, properties)


def play(kind: type[Send] | type[SendV2]) -> Outcome:
    """Send all cases in one breath and return what was answered and what is in the log."""
    outcomes: list[Outcome] = []

    async def scenario(stage: Stage, client: Plain) -> None:
        ports = stage.world.ports(CLIENT_HOST)
        await client.send("t", b"first", queue_id=0)  # the topic is there from now on
        link = await Dialer(ports.net, ports.clock, lambda call: None).link(BROKER)
        calls = []
        for number, case in enumerate(CASES):
            text = format_properties({"UNIQ_KEY": f"K{number}", "WAIT": "true", **case.properties})
            request = kind("PG", "t", "TBW102", 4, number % 4, case.sys_flag, BORN_MS, number, text)
            calls.append(link.call(request, 5, b"body %d" % number))
        answers = await asyncio.gather(*calls)
        assert stage.broker is not None
        records = [entry for entries in stage.broker.store.walk(0) for entry in entries]
        outcomes.append(Outcome([told(answer) for answer in answers], list(map(laid_down, records))[1:]))

    Stage().play(scenario)
    return outcomes[0]


@pytest.mark.parametrize("kind", [Send, SendV2])
def test_every_kind_goes_where_it_belongs(kind: type[Send] | type[SendV2]) -> None:
    answers, records = play(kind)
    assert [code for code, _, _ in answers] == [case.code for case in CASES]
    stored = [case for case in CASES if case.topic]
    # A refused one goes the long way, so nothing may have overtaken anything.
    assert [record[2] for record in records] == [case.topic for case in stored]
    assert [record[8][0] for record in records] == [f"K{CASES.index(case)}" for case in stored[:-1]] + [
        f"K{len(CASES) - 1}"
    ]
    for (code, ext, _), (number, case) in zip(answers, enumerate(CASES), strict=True):
        if code == Code.SUCCESS:
            sent = Sent.decode(ext)
            assert (sent.queue_id, sent.transaction_id) == (number % 4, f"K{number}")
            assert (sent.recall_handle is not None) == (case.topic == TIMER_TOPIC)


def test_a_run_is_stored_and_answered_like_single_messages() -> None:
    together, alone = play(SendV2), play(Send)
    assert together.answers == alone.answers
    assert together.records == alone.records


def items(*properties: dict[str, str]) -> bytes:
    return b"".join(
        join_item(0, b"body %d" % number, format_properties(each).encode())
        for number, each in enumerate(properties)
    )


def batch_to(topic: str) -> SendBatch:
    return SendBatch("PG", topic, "TBW102", 4, 1, 0, BORN_MS, 0, "UNIQ_KEY\x01ABC\x02", batch=True)


def test_the_messages_of_a_batch_go_where_each_belongs() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        body = items({"UNIQ_KEY": "K0", "TAGS": "A"}, {"UNIQ_KEY": "K1", "DELAY": "3"}, {"KEYS": "ü b"}, {})
        sent = Sent.decode((await client.ask(BROKER, batch_to("t"), body)).ext)
        assert stage.broker is not None
        entries = [entry for entries in stage.broker.store.walk(0) for entry in entries]
        assert [entry.topic for entry in entries] == ["t", SCHEDULE_TOPIC, "t", "t"]
        assert [entry.keys for entry in entries] == [("K0", "T#A"), ("K1",), ("ü", "b"), ()]
        assert [entry.queue_offset for entry in entries] == [0, 0, 1, 2]
        assert [int(each[-16:], 16) for each in sent.msg_id.split(",")] == [
            entry.log_offset for entry in entries
        ]
        assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (1, 0, "ABC")
        assert [message.body for message in await client.read("t", 1, 0)] == [b"body 0", b"body 2", b"body 3"]

    Stage().play(scenario)


def test_one_message_that_is_refused_refuses_its_batch() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        for wrong in ({"DELAY": "x"}, {"long": "x" * 32_750}):
            body = items({}, wrong, {})
            with pytest.raises(Answered) as refused:
                await client.ask(BROKER, batch_to("t"), body)
            assert refused.value.code == Code.MESSAGE_ILLEGAL
        assert stage.broker is not None
        assert stage.broker.store.log_max_offset == 0

    Stage(store={"append_property_crc": True}).play(scenario)


def test_a_topic_of_one_kind_looks_at_every_message_of_a_batch() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"first", queue_id=1)
        assert stage.broker is not None
        topics = stage.broker.topics
        topic = msgspec.structs.replace(topics.table["t"], attributes={"message.type": "FIFO"})
        topics.put(topic)
        await client.ask(BROKER, batch_to("t"), items({}, {"__SHARDINGKEY": "a"}))
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, batch_to("t"), items({}, {"TRAN_MSG": "true"}))
        assert "takes FIFO messages" in str(refused.value)
        assert len(await client.read("t", 1, 0)) == 3

    Stage().play(scenario)
