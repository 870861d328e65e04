"""Per-topic retention and limits in the whole broker, on virtual time."""

from __future__ import annotations

import pytest

from roquet.client import Answered, Plain, connect
from roquet.wire.codes import Code
from roquet.wire.requests.offsets import GetMinOffset, OffsetFound
from roquet.wire.requests.topics import UpdateTopic
from tests.broker.stage import BROKER, NAMESRV, Stage

HOUR_S = 3_600


async def make_topic(client: Plain, attributes: str, queues: int = 2) -> None:
    request = UpdateTopic(
        topic="t", read_queue_nums=queues, write_queue_nums=queues, perm=6, attributes=attributes
    )
    await client.ask(BROKER, request)


async def first(client: Plain, queue_id: int = 0) -> int:
    answer = await client.ask(BROKER, GetMinOffset("t", queue_id))
    return OffsetFound.decode(answer.ext).offset


async def bodies(client: Plain, queue_id: int) -> list[bytes]:
    found: list[bytes] = []
    at = await first(client, queue_id)
    while messages := await client.read("t", queue_id, at):
        found += [message.body for message in messages]
        at += len(messages)
    return found


@pytest.mark.parametrize("power_cut", [None, False, True])
def test_messages_older_than_the_topic_wants_are_hidden(power_cut: bool | None) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await make_topic(client, "+reserve.time=1")
        await client.send("t", b"old", queue_id=0)
        await stage.pass_time(HOUR_S * 0.7)
        await client.send("t", b"young", queue_id=0)
        await stage.pass_time(30)
        assert await bodies(client, 0) == [b"old", b"young"]
        await stage.pass_time(HOUR_S * 0.4)
        assert await bodies(client, 0) == [b"young"]
        if power_cut is not None:
            await stage.restart(power_cut=power_cut)
            await stage.pass_time(60)
        async with connect(NAMESRV, stage.world.ports("127.0.0.6")) as fresh:
            assert await bodies(fresh, 0) == [b"young"], "what was hidden stays so after a restart"
            await make_topic(fresh, "-reserve.time")
            await stage.pass_time(HOUR_S * 0.7)
            assert await bodies(fresh, 0) == [b"young"]

    Stage().play(scenario, 10 * HOUR_S)


def test_a_topic_shows_no_more_bytes_than_it_wants_the_oldest_go_first() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await make_topic(client, "+roquet.retention.bytes=5000")
        for number in range(40):  # each message takes about 1.2 kB in the log
            await client.send("t", b"%03d" % number + bytes(1_000), queue_id=0 if number < 30 else number % 2)
        await stage.pass_time(15)
        left = sorted(await bodies(client, 0) + await bodies(client, 1))
        assert [int(body[:3]) for body in left] == list(range(40 - len(left), 40))
        assert 4 <= len(left) <= 6
        for number in range(40, 44):
            await client.send("t", b"%03d" % number + bytes(1_000), queue_id=1)
        await stage.pass_time(15)
        left = sorted(await bodies(client, 0) + await bodies(client, 1))
        assert [int(body[:3]) for body in left] == list(range(44 - len(left), 44))
        await stage.restart(power_cut=False)
        await stage.pass_time(15)
        assert sorted(await bodies(client, 0) + await bodies(client, 1)) == left

    Stage().play(scenario)


def test_size_and_time_together() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await make_topic(client, "+roquet.retention.bytes=5000,+reserve.time=1")
        for number in range(20):
            await client.send("t", b"%03d" % number + bytes(1_000), queue_id=number % 2)
            await stage.pass_time(HOUR_S / 20)
        left = sorted(await bodies(client, 0) + await bodies(client, 1))
        assert [int(body[:3]) for body in left] == list(range(20 - len(left), 20))
        assert 4 <= len(left) <= 6
        await stage.pass_time(HOUR_S)
        assert await bodies(client, 0) + await bodies(client, 1) == []

    Stage().play(scenario, 10 * HOUR_S)


def test_a_tiny_limit_never_hides_the_last_message() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await make_topic(client, "+roquet.retention.bytes=1")
        for number in range(5):
            await client.send("t", b"%d" % number, queue_id=number % 2)
        await stage.pass_time(15)
        assert await bodies(client, 0) + await bodies(client, 1) == [b"4"]

    Stage().play(scenario)


def test_a_topic_refuses_messages_that_are_too_long_or_of_another_type() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await make_topic(client, "+roquet.max.message.size=10,+message.type=DELAY")
        for body, properties, words in (
            (b"x" * 11, {"DELAY": "1"}, "11 bytes"),
            (b"x", {}, "takes DELAY messages"),
            (b"x", {"TRAN_MSG": "true", "PGROUP": "p"}, "this one is TRANSACTION"),
        ):
            with pytest.raises(Answered) as refused:
                await client.send("t", body, queue_id=0, properties=properties)
            assert refused.value.code == Code.MESSAGE_ILLEGAL
            assert words in refused.value.remark
        await client.send("t", b"x" * 10, queue_id=0, properties={"DELAY": "1"})
        await stage.pass_time(5)
        assert await bodies(client, 0) == [b"x" * 10], "what comes back from its delay is not refused"
        await make_topic(client, "-message.type,-roquet.max.message.size")
        await client.send("t", b"x" * 100, queue_id=0)

    Stage().play(scenario)


def test_types_are_not_checked_when_told_so_and_mixed_topics_need_a_setting() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await make_topic(client, "+message.type=DELAY")
        await client.send("t", b"x", queue_id=0)
        with pytest.raises(Answered) as refused:
            await make_topic(client, "+message.type=MIXED")
        assert refused.value.code == Code.INVALID_PARAMETER

    async def mixed(stage: Stage, client: Plain) -> None:
        await make_topic(client, "+message.type=MIXED")
        await client.send("t", b"x", queue_id=0)

    Stage(message_type_check=False).play(scenario)
    Stage(mixed_message_type=True).play(mixed)
