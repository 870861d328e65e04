"""What brokers ask of a consumer, through the requests that tools send."""

from __future__ import annotations

import msgspec
import pytest

from roquet.client import Answered
from roquet.client.message import Message
from roquet.model.route import QueueName
from roquet.wire.bodies import loose_json
from roquet.wire.requests.client import ConsumeDirectly, GetRunningInfo
from roquet.wire.requests.offsets import GetConsumerStatus, ResetOffset
from tests.client.audience import LISTENERS, TOPIC, Hall, Notes
from tests.client.ground import BROKER


def test_a_tool_sees_the_running_state() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        for number in range(3):
            await hall.send(f"m{number}", 2)
        async with hall.consumer(subscribe={TOPIC: "*"}) as consumer:
            await (await anext(aiter(consumer))).ack()
            await hall.pass_time(6)
            client_id = consumer._cluster.client_id
            answer = await hall.sender.ask(BROKER, GetRunningInfo("billing", client_id))
            info = loose_json.loads(answer.body)
            assert isinstance(info, dict)
            queues = {
                key["queueId"]: state for key, state in info["mqTable"].items() if key["topic"] == TOPIC
            }
            assert sorted(queues) == [0, 1, 2, 3]
            assert (queues[2]["commitOffset"], queues[2]["cachedMsgCount"], queues[2]["droped"]) == (
                1,
                2,
                False,
            )
            assert {each["topic"] for each in info["subscriptionSet"]} == {TOPIC, "%RETRY%billing"}
            assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert info["properties"]["PROP_NAMESERVER_ADDR"] == "127.0.0.2:9876;"
            assert info["statusTable"][TOPIC]["consumeOKTPS"] >= 0

    Hall().play(scenario)


def test_a_tool_asks_how_far_the_members_are() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        await hall.send("x", 1)
        async with hall.consumer(handler=(notes := Notes())) as consumer:
            await hall.until(lambda: len(notes) == 1)
            answer = await hall.sender.ask(BROKER, GetConsumerStatus(TOPIC, "billing"))
            states = loose_json.loads(answer.body)
            assert isinstance(states, dict)
            mine = states["consumerTable"][consumer._cluster.client_id]
            assert {key["queueId"]: offset for key, offset in mine.items()} == {0: 0, 1: 1, 2: 0, 3: 0}

    Hall().play(scenario)


@pytest.mark.parametrize(("server_side", "again"), [(True, [b"m1", b"m2"]), (False, [b"m0", b"m1", b"m2"])])
def test_a_reset_reaches_a_running_consumer_either_way(server_side: bool, again: list[bytes]) -> None:
    """The newer way names an offset, the older one only a time."""

    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        for number in range(3):
            await hall.send(f"m{number}")
        async with hall.consumer(handler=(notes := Notes())):
            await hall.until(lambda: len(notes) == 3)
            await hall.pass_time(6)
            reset = ResetOffset(TOPIC, "billing", 0, True, queue_id=0, offset=1)
            await hall.sender.ask(BROKER, reset)
            await hall.until(lambda: notes.bodies[3:] == again, limit_s=30)
            await hall.pass_time(6)
            assert await hall.committed() == 3

    Hall(use_server_side_reset=server_side).play(scenario)


def test_a_tool_hands_one_message_to_one_member() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None

        def fail(message: Message) -> None:
            if message.body == b"bad" and len(notes) > 2:
                raise ValueError("no good")

        for body in ("good", "bad"):
            await hall.send(body)
        async with hall.consumer(handler=(notes := Notes(fail))) as consumer:
            await hall.until(lambda: len(notes) == 2)
            results = []
            for message in list(notes.messages):
                request = ConsumeDirectly(
                    "billing", consumer._cluster.client_id, message.offset_id, "broker-a"
                )
                answer = await hall.sender.ask(BROKER, request)
                results.append(msgspec.json.decode(answer.body))
            assert [result["consumeResult"] for result in results] == ["CR_SUCCESS", "CR_THROW_EXCEPTION"]
            assert results[1]["remark"] == "ValueError: no good"
            assert notes.bodies == [b"good", b"bad", b"good", b"bad"]
        assert await hall.committed() == 2

    Hall().play(scenario)


def test_a_message_handed_over_reaches_loops_too_and_has_its_time() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        await hall.send("x")
        async with hall.consumer(ordered=True) as consumer:
            stream = aiter(consumer)
            message = await anext(stream)
            await message.ack()
            request = ConsumeDirectly("billing", consumer._cluster.client_id, message.offset_id, "broker-a")
            results = []
            for what in ("ack", "retry", "dead_letter", ""):
                asked = hall.world.loop.create_task(hall.sender.ask(BROKER, request), name="tool")
                again = await anext(stream)
                assert again.body == b"x"
                if what:
                    await getattr(again, what)()
                results.append(msgspec.json.decode((await asked).body))
            outcomes = [result["consumeResult"] for result in results]
            assert outcomes == ["CR_SUCCESS", "CR_LATER", "CR_LATER", "CR_LATER"]
            assert [result["order"] for result in results] == [True] * 4

    Hall().play(scenario)


def test_what_is_asked_of_another_group_is_passed_on() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        async with hall.consumer(LISTENERS[0]) as consumer:
            client_id = consumer._cluster.client_id
            try:
                await hall.sender.ask(BROKER, GetRunningInfo("others", client_id))
            except Answered as answered:
                assert answered.code
            else:
                raise AssertionError("nobody of that group is here")
            assert consumer.assigned[0] == QueueName("broker-a", 0, TOPIC)

    Hall().play(scenario)
