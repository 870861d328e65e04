"""Roquet's own requests: many halves stored at once (STAGE_HALVES) and ended at once (END_HALVES)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest

from roquet.client import Plain
from roquet.model.ids import parse_offset_id
from roquet.model.message import format_properties
from roquet.model.names import HALF_TOPIC, OP_HALF_TOPIC
from roquet.wire.bodies.batch import join_item
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.send import Sent, StageHalves
from roquet.wire.requests.transaction import EndHalves
from tests.broker.features.transaction_producer import (
    COMMIT,
    GROUP,
    ROLLBACK,
    UNKNOWN,
    Producer,
    bodies,
    messages,
)
from tests.broker.stage import BROKER, CLIENT_HOST, Stage

SETTINGS: dict[str, Any] = {"transaction_check_interval_ms": 10_000, "transaction_timeout_ms": 6_000}


def place(sent: Sent) -> tuple[int, int]:
    return sent.queue_offset, parse_offset_id(sent.msg_id)[1]


async def end(mq: Producer, sent: Sequence[Sent], decision: int, group: str = GROUP) -> Frame:
    body = b"".join(struct.pack(">qq", *place(each)) for each in sent)
    return await mq._dialer.call(BROKER, EndHalves(group, decision, "t"), 5, body)


HALF = {"TRAN_MSG": "true", "PGROUP": GROUP}


async def staged(mq: Producer, topic: str, *items: tuple[bytes, dict[str, str]]) -> Frame:
    pairs = [(body, {"UNIQ_KEY": f"K{number}"} | more) for number, (body, more) in enumerate(items)]
    data = b"".join(join_item(0, body, format_properties(more).encode()) for body, more in pairs)
    return await mq._dialer.call(BROKER, StageHalves(GROUP, topic, "TBW102", 4, 2, 4, 0, 0), 5, data)


def places(answer: Frame) -> list[Sent]:
    """Return the places of staged halves as single sends would have told them."""
    assert answer.code == Code.SUCCESS, answer.remark
    sent = Sent.decode(answer.ext)
    ids = sent.msg_id.split(",")
    return [Sent(each, sent.queue_id, sent.queue_offset + number) for number, each in enumerate(ids)]


def producer(stage: Stage) -> Producer:
    return Producer(stage.world.ports(CLIENT_HOST))


def test_many_halves_become_visible_in_their_order() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = [await mq.send_half("t", b"%d" % number) for number in range(300)]
        back = list(reversed(sent))
        assert (await end(mq, back[:290], COMMIT)).code == Code.SUCCESS
        assert (await end(mq, back[290:], ROLLBACK)).code == Code.SUCCESS
        assert await bodies(client, "t") == [b"%d" % number for number in range(299, 9, -1)]
        await stage.pass_time(60)
        assert mq.asked == []
        assert len(await bodies(client, OP_HALF_TOPIC)) < 12

    Stage(**SETTINGS).play(scenario)


def test_ending_them_again_changes_nothing() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = [await mq.send_half("t", b"%d" % number) for number in range(30)]
        for some in (sent[:20], sent, sent, [*sent[5:9], *sent[5:9]]):
            assert (await end(mq, some, COMMIT)).code == Code.SUCCESS
        assert await bodies(client, "t") == [b"%d" % number for number in range(30)]
        answer = await end(mq, sent[3:6], ROLLBACK)
        assert answer.code == Code.SYSTEM_ERROR
        assert "3 of 3 halves are not ended, the first since the transaction was committed" in answer.remark
        await stage.pass_time(60)
        assert len(await bodies(client, "t")) == 30

    Stage(**SETTINGS).play(scenario)


def test_one_half_twice_in_one_request_counts_once() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = await mq.send_half("t", b"one")
        assert (await end(mq, [sent, sent, sent], COMMIT)).code == Code.SUCCESS
        assert await bodies(client, "t") == [b"one"]

    Stage(**SETTINGS).play(scenario)


def test_those_that_can_be_ended_are() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = [await mq.send_half("t", b"%d" % number) for number in range(3)]
        wrong = sent[1].__class__(sent[1].msg_id, sent[1].queue_id, 77)
        answer = await end(mq, [sent[0], wrong, sent[2]], COMMIT)
        assert answer.code == Code.SYSTEM_ERROR
        assert answer.remark.startswith("1 of 3 halves are not ended, the first since ")
        assert sorted(await bodies(client, "t")) == [b"0", b"2"]
        assert (await end(mq, sent[1:2], COMMIT, group="another")).code == Code.SYSTEM_ERROR
        assert (await end(mq, sent[1:2], COMMIT)).code == Code.SUCCESS
        assert len(await bodies(client, "t")) == 3

    Stage(**SETTINGS).play(scenario)


@pytest.mark.parametrize("body", [b"x" * 15, b"x" * 17, bytes(16 * 16_385)])
def test_what_is_no_list_of_places_is_refused(body: bytes) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        answer = await producer(stage)._dialer.call(BROKER, EndHalves(GROUP, COMMIT, "t"), 5, body)
        assert answer.code == Code.SYSTEM_ERROR
        assert "are not places of at most" in answer.remark

    Stage(**SETTINGS).play(scenario)


def test_an_empty_list_asks_whether_the_request_is_known_and_a_decision_is_needed_for_others() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        assert (await end(mq, [], UNKNOWN)).code == Code.SUCCESS
        answer = await end(mq, [await mq.send_half("t", b"a")], UNKNOWN)
        assert (answer.code, await bodies(client, "t")) == (Code.SYSTEM_ERROR, [])

    Stage(**SETTINGS).play(scenario)


def test_a_batch_of_halves_is_seen_when_it_is_committed_in_the_queue_that_it_was_for() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.send_half("t", b"before")
        sent = places(await staged(mq, "t", *((b"%d" % number, HALF) for number in range(100))))
        assert len(sent) == 100
        assert await bodies(client, "t") == []
        assert (await end(mq, sent[:40], ROLLBACK)).code == Code.SUCCESS
        assert (await end(mq, sent[40:], COMMIT)).code == Code.SUCCESS
        found = await messages(client, "t", 2)
        assert [message.body for message in found] == [b"%d" % number for number in range(40, 100)]
        assert [message.properties["UNIQ_KEY"] for message in found][:2] == ["K40", "K41"]

    Stage(**SETTINGS).play(scenario)


@pytest.mark.parametrize("plain", [{}, {"TRAN_MSG": "false", "PGROUP": GROUP}])
def test_nothing_is_staged_when_a_message_would_be_visible_at_once(plain: dict[str, str]) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        answer = await staged(producer(stage), "t", (b"a", HALF), (b"b", plain), (b"c", HALF))
        assert answer.code == Code.MESSAGE_ILLEGAL
        assert answer.remark.startswith("message 1 of 3 opens no transaction")
        assert await bodies(client, "t") == await bodies(client, HALF_TOPIC) == []

    Stage(**SETTINGS).play(scenario)


def test_a_broker_that_takes_no_transactions_stages_nothing() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        answer = await staged(producer(stage), "t", (b"a", HALF))
        assert answer.code == Code.NO_PERMISSION
        assert "rejectTransactionMessage" in answer.remark
        assert await bodies(client, "t") == []

    Stage(**SETTINGS, reject_transaction=True).play(scenario)
