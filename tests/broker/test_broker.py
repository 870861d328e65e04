"""The whole broker in the simulation: sends and pulls over the network, on virtual time and a faulty disk."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from roquet.client import Answered, Plain
from roquet.store.settings import FlushMode
from roquet.transport.link import LinkClosed
from roquet.wire.codes import Code
from roquet.wire.requests.client import GetConsumerList, Heartbeat, UnregisterClient
from roquet.wire.requests.offsets import GetMaxOffset, GetMinOffset, OffsetFound, QueryOffset, UpdateOffset
from roquet.wire.requests.order import LockQueues, UnlockQueues
from roquet.wire.requests.pull import Pull
from roquet.wire.requests.send import SendBatch, SendV2, Sent
from tests.broker.stage import BROKER, NAMES_HOST, Stage


def test_what_is_sent_is_read_again() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await client.send("orders", b"hello", tag="A", keys="k1 k2", queue_id=2)
        assert (sent.queue_id, sent.queue_offset) == (2, 0)
        (message,) = await client.read("orders", 2, 0)
        assert message.body == b"hello"
        assert message.properties["TAGS"] == "A"
        assert message.properties["CLUSTER"] == "DefaultCluster"
        assert message.properties["UNIQ_KEY"] == sent.transaction_id
        assert (await client.send("orders", b"again", queue_id=2)).queue_offset == 1

    Stage().play(scenario)


def test_a_first_send_creates_the_topic_and_the_name_server_learns_of_it_at_once() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        with pytest.raises(Answered) as refused:
            await client.route("fresh")
        assert refused.value.code == Code.TOPIC_NOT_EXIST
        await client.send("fresh", b"x")
        await stage.pass_time(1)
        route = await client.route("fresh")
        assert [(queue.broker_name, queue.write_queue_nums) for queue in route.queues] == [("broker-a", 4)]

    Stage().play(scenario)


@pytest.mark.parametrize(
    ("topic", "queue_id", "code"),
    [
        ("../x", 0, Code.INVALID_PARAMETER),
        ("a\0b", 0, Code.INVALID_PARAMETER),
        ("t" * 300, 0, Code.INVALID_PARAMETER),
        ("SCHEDULE_TOPIC_XXXX", 0, Code.NO_PERMISSION),
        ("BenchmarkTest", 1024, Code.INVALID_PARAMETER),
    ],
)
def test_sends_that_cannot_be_are_refused(topic: str, queue_id: int, code: Code) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        request = SendV2("p", topic, "TBW102", 4, queue_id, 0, 0, 0)
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, request, b"x")
        assert refused.value.code == code

    Stage().play(scenario)


def test_without_automatic_creation_an_unknown_topic_is_refused_with_advice() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, SendV2("p", "t", "TBW102", 4, 0, 0, 0, 0), b"x")
        assert refused.value.code == Code.TOPIC_NOT_EXIST
        assert "updateTopic" in refused.value.remark

    Stage(auto_create_topic=False).play(scenario)


def test_a_body_over_the_limit_is_refused_and_the_next_one_is_stored() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        with pytest.raises(Answered) as refused:
            await client.send("t", b"x" * 2000)
        assert refused.value.code == Code.MESSAGE_ILLEGAL
        assert "maxMessageSize" in refused.value.remark
        await client.send("t", b"x" * 1000)

    Stage(store={"message_size_bytes_max": 1000}).play(scenario)


def batch(*bodies: bytes, properties: bytes = b"") -> bytes:
    parts = []
    for body in bodies:
        rest = b"\0" * 8 + (7).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
        rest += len(properties).to_bytes(2, "big") + properties
        parts.append((4 + len(rest)).to_bytes(4, "big") + rest)
    return b"".join(parts)


def test_a_batch_is_stored_whole_with_one_id_each() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        request = SendBatch("p", "t", "TBW102", 4, 1, 0, 5, 0, "UNIQ_KEY\x01ABC\x02", batch=True)
        answer = await client.ask(BROKER, request, batch(b"a", b"b", b"c", properties=b"TAGS\x01T\x02"))
        sent = Sent.decode(answer.ext)
        assert sent.msg_id.count(",") == 2
        messages = await client.read("t", 1, 0)
        assert [message.body for message in messages] == [b"a", b"b", b"c"]
        assert messages[0].properties == {"TAGS": "T"}

    Stage().play(scenario)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"\x7f" + b[1:], lambda b: b""]
)
def test_a_damaged_batch_stores_nothing(damage: object) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        request = SendBatch("p", "t", "TBW102", 4, 1, 0, 5, 0, batch=True)
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, request, damage(batch(b"a", b"b")))  # type: ignore[operator]
        assert refused.value.code == Code.MESSAGE_ILLEGAL
        assert OffsetFound.decode((await client.ask(BROKER, GetMaxOffset("t", 1))).ext).offset == 0

    Stage().play(scenario)


def test_a_pull_waits_for_the_message_and_is_woken_by_it() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"first", queue_id=0)
        waiting = asyncio.ensure_future(client.read("t", 0, 1, wait_ms=15_000))
        await stage.pass_time(5)
        assert not waiting.done()
        await client.send("t", b"second", queue_id=0)
        await stage.pass_time(1)
        assert [message.body for message in waiting.result()] == [b"second"]

    Stage().play(scenario)


def test_a_pull_that_nobody_wakes_ends_after_its_time() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"first", queue_id=0)
        clock = stage.world.clock("127.0.0.4")
        before = clock.monotonic()
        assert await client.read("t", 0, 1, wait_ms=3_000) == []
        assert 3.0 <= clock.monotonic() - before < 4.0

    Stage().play(scenario)


def test_only_a_message_with_the_right_tag_wakes_a_pull() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"0", queue_id=0, tag="A")
        waiting = asyncio.ensure_future(client.read("t", 0, 1, wait_ms=20_000, tags="B || C"))
        await stage.pass_time(1)
        await client.send("t", b"1", queue_id=0, tag="A")
        await stage.pass_time(2)
        assert not waiting.done()
        await client.send("t", b"2", queue_id=0, tag="C")
        await stage.pass_time(1)
        assert [message.body for message in waiting.result()] == [b"2"]

    Stage().play(scenario)


async def read_all(client: Plain, topic: str, queue_id: int) -> dict[int, bytes]:
    """Return every message of a queue by its offset, over links that a crash left half open."""
    found: dict[int, bytes] = {}
    failures = 0
    while True:
        try:
            messages = await client.read(topic, queue_id, len(found))
        except OSError:
            failures += 1
            assert failures < 5
            continue
        if not messages:
            return found
        found |= {message.queue_offset: message.body for message in messages}


@pytest.mark.parametrize("flush_mode", [FlushMode.SYNC, FlushMode.ASYNC])
def test_what_was_acknowledged_survives_as_the_flush_mode_promises(flush_mode: FlushMode) -> None:
    """SYNC survives a power cut, ASYNC a killed process; sends go on while it happens."""

    async def scenario(stage: Stage, client: Plain) -> None:
        acknowledged: dict[int, bytes] = {}
        for life in range(4):
            stopping = asyncio.Event()

            async def write(number: int, life: int = life, stopping: asyncio.Event = stopping) -> None:
                for count in range(200):
                    body = f"{life}-{number}-{count}".encode()
                    try:
                        sent = await client.send("t", body, queue_id=0)
                    except (Answered, OSError):
                        if stopping.is_set():
                            return
                        continue
                    acknowledged[sent.queue_offset] = body

            writers = [asyncio.ensure_future(write(number)) for number in range(4)]
            await stage.pass_time(0.02 + stage.world.rng.random() * 0.2)
            stopping.set()
            await stage.restart(power_cut=flush_mode is FlushMode.SYNC)
            await asyncio.gather(*writers)
            found = await read_all(client, "t", 0)
            assert list(found) == list(range(len(found))), "queue offsets are dense"
            assert acknowledged.items() <= found.items()
        assert len(acknowledged) > 100

    for seed in range(3):
        Stage(seed, store={"flush_mode": flush_mode}).play(scenario)


def test_topics_groups_and_offsets_survive_a_power_cut() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=3)
        await client.ask(BROKER, Heartbeat(), heartbeat("g", "t"))
        await client.ask(BROKER, UpdateOffset("g", "t", 3, 1))
        await stage.pass_time(10)
        broker = await stage.restart(power_cut=True)
        assert broker.topics.get("t") is not None
        assert broker.groups.get("g") is not None
        assert broker.offsets.query("g", "t", 3) == 1

    Stage().play(scenario)


def heartbeat(group: str, topic: str, client_id: str = "c1", version: int = 1) -> bytes:
    subscription = {"topic": topic, "subString": "*", "subVersion": version, "codeSet": [], "tagsSet": []}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    body = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "p"}]}
    return msgspec.json.encode(body)


def test_a_member_is_listed_until_its_heartbeats_stay_away() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        answer = await client.ask(BROKER, Heartbeat(), heartbeat("g", "t"))
        assert answer.ext["IS_SUPPORT_HEART_BEAT_V2"] == "true"
        members = await client.ask(BROKER, GetConsumerList("g"))
        assert msgspec.json.decode(members.body) == {"consumerIdList": ["c1"]}
        assert stage.broker is not None and stage.broker.topics.get("%RETRY%g") is not None
        for _ in range(3):  # the link stays busy, but the group's heartbeat does not come
            await stage.pass_time(35)
            await client.ask(BROKER, GetConsumerList("g"))
        await stage.pass_time(35)
        with pytest.raises((Answered, LinkClosed)):
            await client.ask(BROKER, GetConsumerList("g"))

    Stage().play(scenario)


def test_unregistering_leaves_the_group_at_once() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.ask(BROKER, Heartbeat(), heartbeat("g", "t"))
        await client.ask(BROKER, UnregisterClient("c1", "p", "g"))
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, GetConsumerList("g"))
        assert refused.value.code == Code.SYSTEM_ERROR

    Stage().play(scenario)


def test_pulls_of_a_group_follow_its_heartbeat() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=0)

        async def pull(version: int) -> int:
            request = Pull("g", "t", 0, 0, 32, 0, 0, 0, version)
            return (await client._dialer.call(BROKER, request, 5)).code

        assert await pull(1) == Code.SUBSCRIPTION_NOT_EXIST
        await client.ask(BROKER, Heartbeat(), heartbeat("g", "other"))
        assert await pull(1) == Code.SUBSCRIPTION_NOT_EXIST
        await client.ask(BROKER, Heartbeat(), heartbeat("g", "t", version=2))
        assert await pull(3) == Code.SUBSCRIPTION_NOT_LATEST
        assert await pull(2) == Code.SUCCESS

    Stage().play(scenario)


def test_a_new_group_on_a_young_queue_starts_at_zero() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"x", queue_id=0)
        assert OffsetFound.decode((await client.ask(BROKER, QueryOffset("g", "t", 0))).ext).offset == 0
        with pytest.raises(Answered) as refused:
            await client.ask(BROKER, QueryOffset("g", "t", 0, False))
        assert refused.value.code == Code.QUERY_NOT_FOUND
        await client.ask(BROKER, UpdateOffset("g", "t", 0, 7))
        assert OffsetFound.decode((await client.ask(BROKER, QueryOffset("g", "t", 0, False))).ext).offset == 7
        for request, code in (
            (UpdateOffset("g", "absent", 0, 7), Code.TOPIC_NOT_EXIST),
            (UpdateOffset("../g", "t", 0, 7), Code.SUBSCRIPTION_GROUP_NOT_EXIST),
        ):
            with pytest.raises(Answered) as refused:
                await client.ask(BROKER, request)
            assert refused.value.code == code

    Stage().play(scenario)


def test_asking_for_queues_that_do_not_exist_makes_none() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        for topic in ("absent", "../../etc", "a/b"):
            for request in (GetMaxOffset(topic, 0), GetMinOffset(topic, 99999)):
                assert OffsetFound.decode((await client.ask(BROKER, request)).ext).offset == 0
        assert stage.broker is not None and stage.broker.store.topics() == []

    Stage().play(scenario)


def lock_body(client_id: str, *queue_ids: int) -> bytes:
    queues = [{"brokerName": "broker-a", "queueId": queue_id, "topic": "t"} for queue_id in queue_ids]
    return msgspec.json.encode({"clientId": client_id, "consumerGroup": "g", "mqSet": queues})


def test_a_queue_is_locked_by_one_client_until_it_is_given_back_or_the_lock_ends() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        async def lock(client_id: str, *queue_ids: int) -> list[int]:
            answer = await client.ask(BROKER, LockQueues(), lock_body(client_id, *queue_ids))
            return [queue["queueId"] for queue in msgspec.json.decode(answer.body)["lockOKMQSet"]]

        assert await lock("a", 0, 1) == [0, 1]
        assert await lock("b", 0, 1, 2) == [2]
        await client.ask(BROKER, UnlockQueues(), lock_body("b", 0))  # not b's: stays
        await client.ask(BROKER, UnlockQueues(), lock_body("a", 1))
        assert await lock("b", 0, 1) == [1]
        await stage.pass_time(40)
        assert await lock("a", 0) == [0]
        await stage.pass_time(40)
        assert await lock("b", 0, 2) == [2]
        await stage.pass_time(61)
        assert await lock("b", 0) == [0]

    Stage().play(scenario)


def test_the_broker_goes_on_while_every_name_server_is_gone() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"before", queue_id=0)
        await stage.pass_time(1)
        await client.route("t")
        stage.world.kill(NAMES_HOST)
        await stage.pass_time(300)
        await client.send("t", b"after", queue_id=0)
        assert [message.body for message in await client.read("t", 0, 0)] == [b"before", b"after"]
        stage.start_names()
        await stage.pass_time(60)
        assert (await client.route("t")).queues

    Stage().play(scenario)


def test_two_runs_with_one_seed_are_the_same() -> None:
    def run() -> str:
        stage = Stage(7)

        async def scenario(stage: Stage, client: Plain) -> None:
            for number in range(20):
                await client.send("t", str(number).encode())

        stage.play(scenario)
        return stage.world.trace_hash()

    assert run() == run()
