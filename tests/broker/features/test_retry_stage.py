"""Retries and dead letters in the whole broker, in the simulation."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from roquet.broker.core.dead_letters import revive
from roquet.client import Answered, Plain
from roquet.model.group import Group, RetryPolicy
from roquet.model.message import SysFlag
from roquet.store.format import record
from roquet.store.format.record import Record
from roquet.wire.codes import Code
from roquet.wire.requests.order import LockQueues
from roquet.wire.requests.query import ViewMessage
from roquet.wire.requests.retry import SendBack
from roquet.wire.requests.send import SendV2
from tests.broker.stage import BROKER, Stage

LEVELS_MS = (1_000, 2_000, 3_000, 4_000, 5_000)
RETRY, DLQ = "%RETRY%g", "%DLQ%g"


def stage() -> Stage:
    return Stage(store={"delay_levels_ms": LEVELS_MS})


def groups(stage: Stage, **settings: object) -> None:
    assert stage.broker is not None
    stage.broker.groups.put(msgspec.structs.replace(Group(group_name="g"), **settings))


async def whole(stage: Stage, topic: str, queue_id: int = 0) -> list[Record]:
    assert stage.broker is not None
    got = await stage.broker.store.read(topic, queue_id, 0, 32, 1 << 20)
    return [record.decode(data) for data in got.records]


async def hand_back(client: Plain, failed: Record, level: int = 0, times_max: int | None = None) -> None:
    await client.ask(BROKER, SendBack(failed.log_offset, "g", level, max_reconsume_times=times_max))


def properties_of(found: Record) -> dict[str, str]:
    return dict(pair.split("\x01") for pair in found.properties.decode().split("\x02") if pair)


def test_a_message_is_tried_again_later_and_later_and_then_put_aside() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"hard", queue_id=0, tag="A", keys="k")
        (failed,) = await whole(stage, "t")
        first_id = f"7F000003{10911:08X}{failed.log_offset:016X}"
        for times, delay_s in ((0, 3), (1, 4), (2, 5)):
            await hand_back(client, failed, times_max=3)
            await stage.pass_time(delay_s - 0.1)
            assert len(await whole(stage, RETRY)) == times, "early"
            await stage.pass_time(1.2)
            failed = (await whole(stage, RETRY))[times]
            assert failed.reconsume_times == times + 1
            properties = properties_of(failed)
            assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("t", first_id)
            assert (failed.topic, properties["DELAY"], properties["TAGS"]) == (RETRY, str(times + 3), "A")
        await hand_back(client, failed, times_max=3)
        (dead,) = await whole(stage, DLQ)
        assert (dead.body, dead.reconsume_times) == (b"hard", 4)
        assert stage.broker is not None
        topic = stage.broker.topics.get(DLQ)
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
        assert [message.body for message in await client.read(DLQ, 0, 0)] == [b"hard"], "readable"
        await stage.pass_time(15)
        assert stage.broker.stats.view("SNDBCK_PUT_NUMS", "t@g") is not None
        assert stage.broker.stats.view("SNDBCK2DLQ_TIMES", "t@g") is not None

    stage().play(scenario)


def test_the_consumer_may_choose_the_level_or_give_up_at_once() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=0)
        (failed,) = await whole(stage, "t")
        await hand_back(client, failed, level=1)
        await stage.pass_time(1.3)
        assert len(await whole(stage, RETRY)) == 1
        await hand_back(client, failed, level=-1)
        (dead,) = await whole(stage, DLQ)
        assert properties_of(dead)["DELAY"] == "0"

    stage().play(scenario)


def test_the_maximum_is_the_groups_for_clients_that_say_none() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=0)
        (failed,) = await whole(stage, "t")
        groups(stage, retry_max_times=0)
        await hand_back(client, failed)
        assert len(await whole(stage, DLQ)) == 1
        await hand_back(client, failed, times_max=5)
        assert len(await whole(stage, DLQ)) == 1

    stage().play(scenario)


def test_a_groups_own_policy_decides_about_the_level() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        exponential = {"initial": 500, "max": 10_000, "multiplier": 2}
        groups(stage, group_retry_policy=RetryPolicy("EXPONENTIAL", exponential_retry_policy=exponential))
        await client.send("t", b"x", queue_id=0)
        (failed,) = await whole(stage, "t")
        await hand_back(client, failed)
        await stage.pass_time(1.3)
        (again,) = await whole(stage, RETRY)
        assert properties_of(again)["DELAY"] == "1"

    stage().play(scenario)


def test_a_group_that_wants_no_retries_gets_none() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        groups(stage, retry_queue_nums=0)
        await client.send("t", b"x", queue_id=0)
        await hand_back(client, (await whole(stage, "t"))[0])
        assert stage.broker is not None
        assert stage.broker.topics.get(RETRY) is None
        assert stage.broker.topics.get(DLQ) is None

    stage().play(scenario)


def test_several_retry_queues_are_all_used() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        groups(stage, retry_queue_nums=3)
        await client.send("t", b"x", queue_id=0)
        (failed,) = await whole(stage, "t")
        for _ in range(30):
            await hand_back(client, failed, level=1)
        await stage.pass_time(2.5)
        counts = [len(await whole(stage, RETRY, queue_id)) for queue_id in range(3)]
        assert sum(counts) == 30
        assert min(counts) > 0

    stage().play(scenario)


@pytest.mark.parametrize("offset", [-1, 0, 1, 10**15])
def test_a_message_that_does_not_exist_is_refused_in_words(offset: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=0, properties={"DELAY": "5"})
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, SendBack(offset, "g", 0))
        assert refused.value.code == Code.SYSTEM_ERROR
        assert f"look message by offset failed, {offset}" in refused.value.remark

    stage().play(scenario)  # at 0 lies the parked message: nobody can have received it yet


def test_refusals_have_apaches_codes() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        assert stage.broker is not None
        await client.send("t", b"x", queue_id=0)
        stage.broker.groups.auto_create = False
        for group, code in (("ghost", 26), ("../g", 26), ("", 26)):
            with pytest.raises(Answered) as refused:
                await client.ask(BROKER, SendBack(0, group, 0))
            assert refused.value.code == code
        groups(stage)
        read_only = dataclasses.replace(stage.broker.settings, permission=4)
        stage.broker.apply(read_only, stage.broker.store_settings)
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, SendBack(0, "g", 0))
        assert refused.value.code == Code.NO_PERMISSION

    stage().play(scenario)


def retry_send(times: int, times_max: int | None = None) -> SendV2:
    """A client's own way: it sends to the retry topic by itself."""
    properties = "RETRY_TOPIC\x01t\x02DELAY\x011\x02"
    return SendV2("g", RETRY, "TBW102", 1, 0, 0, 7, 0, properties, times, False, times_max)


@pytest.mark.parametrize(
    ("times", "times_max", "is_dead"),
    [(1, None, False), (16, None, False), (17, None, True), (3, 2, True), (2, 2, False), (17, 20, False)],
)
def test_a_client_that_sends_its_retries_itself(times: int, times_max: int | None, is_dead: bool) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        groups(stage)
        await client.ask(BROKER, retry_send(times, times_max), b"x")
        await stage.pass_time(2.5)
        assert len(await whole(stage, DLQ)) == is_dead
        assert len(await whole(stage, RETRY)) == (not is_dead)
        if is_dead:
            assert properties_of((await whole(stage, DLQ))[0])["DELAY"] == "-1"

    stage().play(scenario)


def test_what_an_orderly_group_gives_up_is_dead_at_once() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        groups(stage)
        queue = {"brokerName": "broker-a", "queueId": 0, "topic": "t"}
        lock = {"clientId": "c", "consumerGroup": "g", "mqSet": [queue]}
        await client.ask(BROKER, LockQueues(), msgspec.json.encode(lock))
        await client.ask(BROKER, retry_send(1), b"ordered")
        assert [dead.body for dead in await whole(stage, DLQ)] == [b"ordered"]
        await stage.pass_time(70)  # nobody renews the lock
        await client.ask(BROKER, retry_send(1), b"free")
        await stage.pass_time(2.5)
        assert [again.body for again in await whole(stage, RETRY)] == [b"free"]

    stage().play(scenario)


def test_a_retry_that_was_parked_before_the_group_became_orderly_still_comes() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=0)
        await hand_back(client, (await whole(stage, "t"))[0])
        queue = {"brokerName": "broker-a", "queueId": 0, "topic": "t"}
        lock = {"clientId": "c", "consumerGroup": "g", "mqSet": [queue]}
        await client.ask(BROKER, LockQueues(), msgspec.json.encode(lock))
        await stage.pass_time(5)
        assert len(await whole(stage, RETRY)) == 1

    stage().play(scenario)


@pytest.mark.parametrize("power_cut", [False, True])
def test_retries_survive_a_crash(power_cut: bool) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=0)
        (failed,) = await whole(stage, "t")
        await hand_back(client, failed)
        await stage.pass_time(1 if not power_cut else 2.9)
        await stage.restart(power_cut=power_cut)
        await stage.pass_time(20)
        found = [again.reconsume_times for again in await whole(stage, RETRY)]
        assert found == [1]

    Stage(store={"delay_levels_ms": LEVELS_MS, "flush_interval_ms": 200, "flush_least_pages": 0}).play(
        scenario
    )


def test_a_dead_letter_is_sent_again_by_plain_requests_with_its_history() -> None:
    """What a tool does: read the record, revive it, send it like a producer."""

    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=0, tag="A", keys="k", properties={"mine": "1"})
        await hand_back(client, (await whole(stage, "t"))[0], level=-1)
        (message,) = await client.read(DLQ, 0, 0)
        dead = record.decode((await client.ask(BROKER, ViewMessage(message.log_offset))).body)
        draft = revive(dead, 0)
        flags = draft.sys_flag & ~SysFlag.BORN_HOST_V6
        text = draft.properties.decode()
        request = SendV2("tool", draft.topic, "TBW102", 4, 0, flags, draft.born_ms, draft.flag, text)
        await client.ask(BROKER, request, bytes(draft.body))
        _, again = await whole(stage, "t")
        properties = properties_of(again)
        assert (again.born_ms, again.reconsume_times) == (dead.born_ms, 0)
        origin = properties_of(dead)["ORIGIN_MESSAGE_ID"]
        expected = {"mine": "1", "TAGS": "A", "KEYS": "k", "DLQ_ORIGIN_TOPIC": "t", "RECONSUME_TIME": "1"}
        expected |= {"ORIGIN_MESSAGE_ID": origin, "DLQ_ORIGIN_MESSAGE_ID": origin}
        assert expected.items() <= properties.items()
        await hand_back(client, again, times_max=3)
        await stage.pass_time(5)
        assert len(await whole(stage, RETRY)) == 1, "it has all its tries again"

    stage().play(scenario)
