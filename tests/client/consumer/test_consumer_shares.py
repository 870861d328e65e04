"""Members of a group share the queues: no gap, no overlap, over joins, leaves, deaths and growing topics."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from roquet.client.consumer.consumer import Consumer
from roquet.client.core.assign import averagely, by_configuration, consistent_hash, in_circle
from roquet.client.errors import Misuse
from roquet.client.message import Message
from roquet.model.route import QueueName
from roquet.wire.requests.topics import UpdateTopic
from tests.client.audience import LISTENERS, TOPIC, Hall, Notes
from tests.client.ground import BROKER


def shares(*consumers: Consumer) -> list[list[int]]:
    return [[queue.queue_id for queue in consumer.assigned] for consumer in consumers]


def test_members_share_the_queues_and_take_over_what_others_leave() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer(LISTENERS[0]) as one:
            assert shares(one) == [[0, 1, 2, 3]]
            async with hall.consumer(LISTENERS[1]) as two:
                await hall.until(lambda: shares(one, two) == [[0, 1], [2, 3]], limit_s=3)
                async with hall.consumer(LISTENERS[2]) as three:
                    await hall.until(lambda: shares(one, two, three) == [[0, 1], [2], [3]], limit_s=3)
                await hall.until(lambda: shares(one, two) == [[0, 1], [2, 3]], limit_s=3)
            await hall.until(lambda: shares(one) == [[0, 1, 2, 3]], limit_s=3)

    Hall().play(scenario)


def test_a_handover_delivers_everything_and_little_twice() -> None:
    async def scenario(hall: Hall) -> None:
        notes = [Notes(), Notes()]
        async with hall.consumer(LISTENERS[0], handler=notes[0]):
            for number in range(20):
                await hall.send(f"a{number}", number % 4)
            await hall.until(lambda: len(notes[0]) == 20)
            async with hall.consumer(LISTENERS[1], handler=notes[1]):
                for number in range(20):
                    await hall.send(f"b{number}", number % 4)
                await hall.until(lambda: len(notes[0]) + len(notes[1]) == 40)
                await hall.pass_time(5)
        got = [*notes[0].bodies, *notes[1].bodies]
        assert len(got) == len(set(got)) == 40

    Hall().play(scenario)


def test_a_member_that_dies_is_replaced() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer(LISTENERS[0], handler=(notes := Notes())) as one:
            taken: list[Message] = []

            async def other() -> None:
                two = hall.consumer(LISTENERS[1])
                await two.open()
                async for message in two:
                    taken.append(message)  # and it never ends

            hall.world.start(LISTENERS[1], other())
            await hall.until(lambda: len(one.assigned) == 2, limit_s=5)
            for number in range(8):
                await hall.send(f"m{number}", number % 4)
            await hall.until(lambda: len(notes) == len(taken) == 4)
            hall.world.kill(LISTENERS[1])
            await hall.until(lambda: len(notes) == 8, limit_s=30)
            assert sorted(notes.bodies) == [b"m%d" % number for number in range(8)]

    Hall().play(scenario)


def test_a_topic_that_grows_is_read_to_its_last_queue() -> None:
    async def scenario(hall: Hall) -> None:
        assert hall.sender is not None
        async with hall.consumer(start="latest", handler=(notes := Notes())) as one:
            await hall.sender.ask(BROKER, UpdateTopic(TOPIC, 6, 6, 6))
            for queue_id in range(6):
                await hall.send(f"q{queue_id}", queue_id)
            await hall.until(lambda: len(notes) == 6, limit_s=60)
            assert shares(one) == [[0, 1, 2, 3, 4, 5]]

    Hall().play(scenario)


def test_queues_of_several_brokers_are_shared() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.consumer(LISTENERS[0]) as one, hall.consumer(LISTENERS[1]) as two:
            await hall.until(lambda: len(one.assigned) == len(two.assigned) == 4)
            assert {queue.broker_name for queue in one.assigned} == {"broker-a"}
            assert {queue.broker_name for queue in two.assigned} == {"broker-b"}

    Hall().play(scenario, brokers=2)


def last_only(client_id: str, queues: Sequence[QueueName], members: Sequence[str]) -> Sequence[QueueName]:
    return queues[-1:]


@pytest.mark.parametrize(
    ("assign", "mine"),
    [
        (averagely, [[0, 1], [2, 3]]),
        (in_circle, [[0, 2], [1, 3]]),
        (last_only, [[3], [3]]),
        (by_configuration([QueueName("broker-a", 2, TOPIC)]), [[2], [2]]),
    ],
)
def test_the_rule_may_be_chosen_or_brought(assign: object, mine: list[list[int]]) -> None:
    async def scenario(hall: Hall) -> None:
        async with (
            hall.consumer(LISTENERS[0], assign=assign) as one,
            hall.consumer(LISTENERS[1], assign=assign) as two,
        ):
            await hall.until(lambda: shares(one, two) == mine, limit_s=3)

    Hall().play(scenario)


def test_a_ring_leaves_no_queue_out() -> None:
    async def scenario(hall: Hall) -> None:
        async with (
            hall.consumer(LISTENERS[0], assign=consistent_hash()) as one,
            hall.consumer(LISTENERS[1], assign=consistent_hash()) as two,
        ):
            await hall.until(lambda: sorted(sum(shares(one, two), [])) == [0, 1, 2, 3], limit_s=3)

    Hall().play(scenario)


def test_two_consumers_of_one_client_need_two_groups() -> None:
    async def scenario(hall: Hall) -> None:
        async with hall.cluster() as cluster, Consumer(cluster, group="a", subscribe=TOPIC) as one:
            with pytest.raises(Misuse, match="already"):
                await Consumer(cluster, group="a", subscribe=TOPIC).open()
            async with Consumer(cluster, group="b", subscribe=TOPIC) as two:
                assert shares(one, two) == [[0, 1, 2, 3], [0, 1, 2, 3]]

    Hall().play(scenario)


def test_messages_of_a_queue_that_is_gone_are_left_to_its_new_reader() -> None:
    async def scenario(hall: Hall) -> None:
        for queue_id in range(4):
            await hall.send(f"q{queue_id}", queue_id)
        async with hall.consumer(LISTENERS[0]) as one:
            stream = aiter(one)
            in_hand: list[Message] = [await anext(stream) for _ in range(4)]
            async with hall.consumer(LISTENERS[1], handler=(notes := Notes())):
                await hall.until(lambda: len(notes) == 2)
                for message in in_hand:
                    await message.ack()
                await hall.until(lambda: shares(one) == [[0, 1]])
            assert sorted(notes.bodies) == [b"q2", b"q3"]
        assert [await hall.committed(queue_id=queue_id) for queue_id in range(4)] == [1, 1, 1, 1]

    Hall().play(scenario)
