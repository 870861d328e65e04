"""Transactions on a whole broker in the simulation: ends, questions, refusals, and who may say what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from roquet.client import Answered, Plain
from roquet.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TOPIC
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.offsets import OffsetFound, QueryOffset, UpdateOffset
from roquet.wire.requests.transaction import ResumeCheck
from tests.broker.features.transaction_producer import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Producer,
    bodies,
)
from tests.broker.stage import BROKER, BROKER_HOST, CLIENT_HOST, Stage

SETTINGS: dict[str, Any] = {"transaction_check_interval_ms": 10_000, "transaction_timeout_ms": 6_000}


def producer(stage: Stage, *args: Any) -> Producer:
    return Producer(stage.world.ports(CLIENT_HOST), *args)


async def offset(client: Plain, topic: str) -> int:
    """Return how far the broker itself is in one of its two queues."""
    found = await client.ask(BROKER, QueryOffset("CID_RMQ_SYS_TRANS", topic, 0))
    return OffsetFound.decode(found.ext).offset


def test_a_half_is_seen_when_it_is_committed_and_never_when_it_is_rolled_back() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        first = await mq.send_half("t", b"commit", queue_id=2, TAGS="A", KEYS="k")
        second = await mq.send_half("t", b"rollback", queue_id=2)
        assert (first.queue_id, first.queue_offset, second.queue_offset) == (2, 0, 1)
        await stage.pass_time(1)
        assert await bodies(client, "t", 2) == []
        assert (await mq.end(second, ROLLBACK)).code == Code.SUCCESS
        assert (await mq.end(first, COMMIT)).code == Code.SUCCESS
        (message,) = await client.read("t", 2, 0, tags="A")
        assert message.body == b"commit"
        assert message.properties["UNIQ_KEY"] == first.transaction_id
        assert message.properties["__transactionId__"] == first.transaction_id
        assert "REAL_TOPIC" not in message.properties
        ops = await client.read(OP_HALF_TOPIC, 0, 0)
        assert [(op.body, op.tag) for op in ops] == [(b"1,", "d"), (b"0,", "d")]
        await stage.pass_time(60)
        assert mq.asked == []
        assert (await offset(client, HALF_TOPIC), await offset(client, OP_HALF_TOPIC)) == (2, 2)

    Stage(**SETTINGS).play(scenario)


def test_ends_of_one_turn_share_one_op_record() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = [await mq.send_half("t", b"%d" % number) for number in range(40)]
        for each in sent:
            await mq.end_one_way(each, COMMIT)
        await stage.pass_time(1)
        assert len(await bodies(client, "t")) == 40
        ops = await bodies(client, OP_HALF_TOPIC)
        assert len(ops) < 10
        assert b"".join(ops) == b"".join(b"%d," % number for number in range(40))

    Stage(**SETTINGS).play(scenario)


def test_each_of_many_ends_gets_the_answer_that_it_would_get_alone() -> None:
    """All come in one breath, among sends; some wait for others, some are wrong."""

    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = [await mq.send_half("t", b"%d" % number) for number in range(4)]
        asked = [
            mq.end(sent[1], COMMIT),
            mq.send_half("t", b"between"),
            mq.end(sent[0], COMMIT),
            mq.end(sent[1], COMMIT),
            mq.end(sent[2], ROLLBACK, producer_group="other"),
            mq.end(sent[1], ROLLBACK),
            mq.end(sent[2], ROLLBACK, tran_state_table_offset=99),
            mq.end(sent[3], COMMIT, commit_log_offset=sent[3].queue_offset + 1),
            mq.send_half("t", b"between"),
            mq.end(sent[2], ROLLBACK),
            mq.end(sent[3], COMMIT, tran_state_table_offset=-1),
        ]
        answers = await asyncio.gather(*asked)
        codes = [each.code for each in answers if isinstance(each, Frame)]
        assert codes == [0, 0, 0, 1, 1, 1, 1, 0, 1]
        assert await bodies(client, "t") == [b"1", b"0"]
        assert b"".join(await bodies(client, OP_HALF_TOPIC)) == b"1,0,2,"
        assert (await mq.end(sent[3], COMMIT)).code == Code.SUCCESS
        assert await bodies(client, "t") == [b"1", b"0", b"3"]

    Stage(**SETTINGS).play(scenario)


@pytest.mark.parametrize(("first", "second"), [(COMMIT, COMMIT), (ROLLBACK, ROLLBACK)])
def test_an_end_that_comes_twice_has_one_effect(first: int, second: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = await mq.send_half("t", b"x")
        answers = await asyncio.gather(*(mq.end(sent, decision) for decision in (first, second, second)))
        assert {answer.code for answer in answers} == {Code.SUCCESS}
        await stage.pass_time(10)
        assert (await mq.end(sent, second)).code == Code.SUCCESS
        expected = [b"x"] if first == COMMIT else []
        assert await bodies(client, "t") == expected
        for power_cut in (False, True):
            await stage.restart(power_cut=power_cut)
            mq = producer(stage)
            assert (await mq.end(sent, second)).code == Code.SUCCESS
            assert await bodies(client, "t") == expected

    Stage(**SETTINGS).play(scenario)


@pytest.mark.parametrize(("first", "second"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
def test_of_two_that_disagree_the_first_wins(first: int, second: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = await mq.send_half("t", b"x")
        won, lost = await asyncio.gather(mq.end(sent, first), mq.end(sent, second))
        assert won.code == Code.SUCCESS
        assert lost.code == Code.SYSTEM_ERROR
        assert "before" in lost.remark
        assert await bodies(client, "t") == ([b"x"] if first == COMMIT else [])

    Stage(**SETTINGS).play(scenario)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"producer_group": "other"}, "producer group"),
        ({"tran_state_table_offset": 1}, "state table offset"),
        ({"commit_log_offset": 1}, "prepared transaction message"),
        ({"commit_log_offset": -1}, "prepared transaction message"),
        ({"commit_log_offset": 1 << 62}, "prepared transaction message"),
    ],
)
def test_a_forged_end_is_refused(changes: dict[str, Any], words: str) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = await mq.send_half("t", b"x")
        for decision in (COMMIT, ROLLBACK):
            answer = await mq.end(sent, decision, **changes)
            assert answer.code == Code.SYSTEM_ERROR
            assert words in answer.remark
        assert await bodies(client, "t") == []
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        assert await bodies(client, "t") == [b"x"]

    Stage(**SETTINGS).play(scenario)


def test_a_message_that_is_no_half_cannot_be_committed() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        properties = {"PGROUP": "PG", "REAL_TOPIC": "victim", "REAL_QID": "0"}
        plain = await client.send("t", b"plain", queue_id=0, properties=properties)
        answer = await mq.end(plain, COMMIT)
        assert (answer.code, "no half message" in answer.remark) == (Code.SYSTEM_ERROR, True)
        done = await mq.send_half("t", b"x")
        await mq.end(done, COMMIT)
        (committed,) = await client.read("t", 0, 1)
        changes = {"commit_log_offset": committed.log_offset, "tran_state_table_offset": 1}
        answer = await mq.end(done, COMMIT, **changes)
        assert answer.code == Code.SYSTEM_ERROR
        assert await bodies(client, "t") == [b"plain", b"x"]

    Stage(**SETTINGS).play(scenario)


@pytest.mark.parametrize("decision", [UNKNOWN, 4, 99])
def test_an_end_that_decides_nothing_gets_no_answer(decision: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = await mq.send_half("t", b"x")
        with pytest.raises(TimeoutError):
            await mq.end(sent, decision)
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS

    Stage(**SETTINGS).play(scenario)


def test_transactions_can_be_rejected() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        answer = await producer(stage).try_half("t", b"x")
        assert answer.code == Code.NO_PERMISSION
        assert "rejectTransactionMessage" in answer.remark
        await client.send("t", b"plain", queue_id=0, properties={"TRAN_MSG": "false"})
        assert await bodies(client, "t") == [b"plain"]

    Stage(reject_transaction=True).play(scenario)


def test_an_undecided_half_is_asked_about_until_its_producer_knows() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        answers = iter((UNKNOWN, UNKNOWN, COMMIT))
        mq = producer(stage, lambda body: next(answers))
        await mq.heartbeat()
        sent = await mq.send_half("t", b"x", queue_id=1)
        await stage.pass_time(5)
        assert mq.asked == []
        for _ in range(6):
            await stage.pass_time(10)
            await mq.heartbeat()
        assert len(mq.asked) == 3
        for request, half in mq.asked:
            assert (half.topic, half.queue_id, half.body) == ("t", 1, b"x")
            assert request.transaction_id == sent.transaction_id
            assert (half.queue_offset, half.log_offset) == (
                request.tran_state_table_offset,
                request.commit_log_offset,
            )
        assert await bodies(client, "t", 1) == [b"x"]
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        assert await bodies(client, "t", 1) == [b"x"]
        await stage.pass_time(100)
        assert len(mq.asked) == 3

    Stage(**SETTINGS).play(scenario)


def test_a_late_end_of_a_half_that_was_asked_about_counts_once() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.heartbeat()
        sent = await mq.send_half("t", b"x")
        await stage.pass_time(25)
        assert len(mq.asked) >= 1
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        mq.listener = lambda body: COMMIT
        await mq.heartbeat()
        asked = len(mq.asked)
        await stage.pass_time(100)
        assert len(mq.asked) == asked
        assert await bodies(client, "t") == [b"x"]

    Stage(**SETTINGS).play(scenario)


def test_another_producer_of_the_group_answers_for_one_that_died() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.heartbeat()
        await mq.send_half("t", b"x")
        mq.close()
        await stage.pass_time(60)
        stranger = producer(stage, lambda body: ROLLBACK, "another-group")
        await stranger.heartbeat()
        await stage.pass_time(30)
        assert await bodies(client, TRANS_CHECK_MAX_TOPIC) == [], "nobody was asked, so nothing counts"
        heir = producer(stage, lambda body: COMMIT)
        await heir.heartbeat()
        await stage.pass_time(30)
        assert await bodies(client, "t") == [b"x"]
        assert stranger.asked == []

    # The topic exists from the first send on, that of given-up halves only when there is one.
    async def with_topic(stage: Stage, client: Plain) -> None:
        assert stage.broker is not None
        stage.broker.topics.create(TRANS_CHECK_MAX_TOPIC, 1, False)
        await stage.pass_time(1)
        await scenario(stage, client)

    Stage(**SETTINGS, transaction_check_max=3).play(with_topic)


def test_producers_of_a_group_are_asked_in_turn() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        group = [producer(stage), producer(stage)]
        for mq in group:
            await mq.heartbeat()
        for number in range(10):
            await group[0].send_half("t", b"%d" % number)
        await stage.pass_time(15)
        assert [len(mq.asked) for mq in group] == [5, 5]

    Stage(**SETTINGS).play(scenario)


def test_what_nobody_can_decide_is_given_up_and_can_be_resumed() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.heartbeat()
        sent = await mq.send_half("t", b"x", queue_id=1)
        for _ in range(30):
            await stage.pass_time(10)
            await mq.heartbeat()
        assert len(mq.asked) == 3
        await client.route(TRANS_CHECK_MAX_TOPIC)
        (lost,) = await client.read(TRANS_CHECK_MAX_TOPIC, 0, 0)
        assert (lost.body, lost.properties["REAL_TOPIC"]) == (b"x", "t")
        answer = await mq.end(sent, COMMIT)
        assert (answer.code, "given up" in answer.remark) == (Code.SYSTEM_ERROR, True)
        place = f"{sent.msg_id[:-16]}{lost.log_offset:016X}"
        for wrong in (sent.msg_id, "xyz", "", f"{sent.msg_id[:-16]}{1:016X}"):
            with pytest.raises(Answered) as refused:
                await client.ask(BROKER, ResumeCheck(TRANS_CHECK_MAX_TOPIC, wrong))
            assert refused.value.code == Code.SYSTEM_ERROR
        mq.listener = lambda body: COMMIT
        for _ in range(2):  # a tool that asks again makes no second transaction
            await client.ask(BROKER, ResumeCheck(TRANS_CHECK_MAX_TOPIC, place))
        await stage.pass_time(20)
        assert await bodies(client, "t", 1) == [b"x"]

    # The administrator's request comes from another host in this world.
    Stage(**SETTINGS, transaction_check_max=3, admin_from_anywhere=True).play(scenario)


def test_a_half_may_ask_for_more_time_but_then_its_end_must_come_within_it() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.heartbeat()
        early = await mq.send_half("t", b"early", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        late = await mq.send_half("t", b"late", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        await stage.pass_time(55)
        assert mq.asked == []
        assert (await mq.end(early, COMMIT)).code == Code.SUCCESS
        await stage.pass_time(10)
        for decision in (COMMIT, ROLLBACK):
            assert (await mq.end(late, decision)).code == Code.ILLEGAL_OPERATION
        mq.listener = lambda body: COMMIT
        await mq.heartbeat()
        await stage.pass_time(20)
        assert sorted(await bodies(client, "t")) == [b"early", b"late"]

    Stage(**SETTINGS).play(scenario)


def test_an_undecided_half_does_not_hold_the_offsets_back_for_ever() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        old = await mq.send_half("t", b"old", CHECK_IMMUNITY_TIME_IN_SECONDS="90000")
        for number in range(5):
            await mq.end(await mq.send_half("t", b"%d" % number), COMMIT)
        await stage.pass_time(100)
        assert await offset(client, HALF_TOPIC) == 0
        await stage.pass_time(2_000)
        assert await offset(client, HALF_TOPIC) == 6
        await stage.restart(power_cut=False)
        mq = producer(stage)
        assert (await mq.end(old, COMMIT)).code == Code.SUCCESS
        assert (await mq.end(old, COMMIT)).code == Code.SUCCESS
        assert (await bodies(client, "t"))[5:] == [b"old"]

    Stage(**SETTINGS).play(scenario, 10_000)


@pytest.mark.parametrize("jump_ms", [-10 * 86_400_000, -5_000, 5_000, 86_400_000])
def test_jumps_of_the_clock_lose_nothing_and_hurry_nothing(jump_ms: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.heartbeat()
        sent = [await mq.send_half("t", b"%d" % number) for number in range(3)]
        stage.world.clock(BROKER_HOST).jump_ms(jump_ms)
        await stage.pass_time(4)
        assert mq.asked == []
        assert (await mq.end(sent[0], COMMIT)).code == Code.SUCCESS
        mq.listener = lambda body: COMMIT if body == b"1" else ROLLBACK
        await stage.pass_time(30)
        assert sorted(await bodies(client, "t")) == [b"0", b"1"]
        assert len(mq.asked) == 2

    Stage(**SETTINGS).play(scenario)


def test_offsets_that_somebody_else_moves_are_put_right() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.send_half("t", b"x")
        await stage.pass_time(10)
        await client.ask(BROKER, UpdateOffset("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0, 1_000))
        await stage.pass_time(10)
        await stage.restart(power_cut=True)
        heir = producer(stage, lambda body: COMMIT)
        await heir.heartbeat()
        await stage.pass_time(30)
        assert await bodies(client, "t") == [b"x"]

    Stage(**SETTINGS).play(scenario)


def test_a_transaction_that_is_also_delayed_waits_after_its_commit() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = await mq.send_half("t", b"x", DELAY="3")  # ten seconds
        await stage.pass_time(20)
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        await stage.pass_time(8)
        assert await bodies(client, "t") == []
        await stage.pass_time(4)
        assert await bodies(client, "t") == [b"x"]
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        await stage.pass_time(12)
        assert await bodies(client, "t") == [b"x"]

    Stage(**SETTINGS).play(scenario)


def test_only_a_master_ends_and_asks_and_a_new_one_knows_what_was_open() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        assert stage.broker is not None
        mq = producer(stage)
        await mq.heartbeat()
        done, undecided = await mq.send_half("t", b"done"), await mq.send_half("t", b"undecided")
        await mq.end(done, COMMIT)
        await stage.broker.resign()
        assert (await mq.end(undecided, COMMIT)).code == Code.SLAVE_NOT_AVAILABLE
        await stage.pass_time(60)
        assert mq.asked == []
        stage.broker.become_master()
        await mq.heartbeat()
        assert (await mq.end(done, COMMIT)).code == Code.SUCCESS
        await stage.pass_time(15)
        assert [half.body for _, half in mq.asked] == [b"undecided"]
        assert (await mq.end(undecided, COMMIT)).code == Code.SUCCESS
        assert await bodies(client, "t") == [b"done", b"undecided"]

    Stage(**SETTINGS).play(scenario)


def test_how_many_are_open_is_kept_as_apache_keeps_it() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = [await mq.send_half("t", b"x") for _ in range(3)]
        await mq.end(sent[0], COMMIT)
        await stage.pass_time(30)
        text = stage.world.disk(BROKER_HOST).read_file("/store/config/transactionMetrics").decode()
        assert '"transactionCount"' in text
        assert '"count":2' in text.replace(" ", "")

    Stage(**SETTINGS).play(scenario)
