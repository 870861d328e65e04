"""Timed messages in the simulation: never early, never lost, never twice, over crashes and set clocks."""

from __future__ import annotations

import pytest

from roquet.client import Answered, Plain
from roquet.wire.codes import Code
from roquet.wire.requests.replica import GetTimerCheck, GetTimerMetrics
from roquet.wire.requests.timer import Recall, Recalled
from tests.broker.stage import BROKER, BROKER_HOST, Stage

PRECISION_MS = 1_000


async def delivered(client: Plain, topic: str = "t", queue_id: int = 0) -> list[str]:
    """Return the bodies of a queue, over links that a crash left half open."""
    found: list[str] = []
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
        found += [message.body.decode() for message in messages]


def now_ms(stage: Stage) -> int:
    return stage.world.clock(BROKER_HOST).now_ms()


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
@pytest.mark.parametrize("shift_ms", [0, 1, 500, 999])
def test_a_message_comes_at_its_time_and_within_the_precision(name: str, shift_ms: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await stage.pass_time((1000 - now_ms(stage) % 1000 + shift_ms) / 1000)
        sent_ms = now_ms(stage)
        value = {"TIMER_DELAY_SEC": 3, "TIMER_DELAY_MS": 3_000, "TIMER_DELIVER_MS": sent_ms + 3_000}[name]
        sent = await client.send("t", b"x", queue_id=0, properties={name: str(value)})
        assert sent.recall_handle
        while not await delivered(client):
            await stage.pass_time(0.01)
        (message,) = await client.read("t", 0, 0)
        assert sent_ms + 3_000 <= message.store_ms <= now_ms(stage)
        assert message.store_ms <= sent_ms + 3_000 + PRECISION_MS + 100
        assert message.properties["REAL_TOPIC"] == "t"

    Stage().play(scenario)


@pytest.mark.parametrize(
    ("properties", "code", "words"),
    [
        ({"TIMER_DELAY_SEC": "abc"}, Code.MESSAGE_ILLEGAL, "not a number"),
        ({"TIMER_DELAY_MS": "1e3"}, Code.MESSAGE_ILLEGAL, "not a number"),
        ({"TIMER_DELIVER_MS": "9" * 60}, Code.MESSAGE_ILLEGAL, "not a number"),
        ({"TIMER_DELAY_SEC": str(3 * 86_400 + 1)}, Code.MESSAGE_ILLEGAL, "timerMaxDelaySec"),
        ({"TIMER_DELAY_SEC": str(2**63 - 1)}, Code.MESSAGE_ILLEGAL, "timerMaxDelaySec"),
        ({"TIMER_DELAY_SEC": "-1", "TIMER_DEL_UNIQKEY": "k"}, Code.MESSAGE_ILLEGAL, "due already"),
    ],
)
def test_times_that_cannot_be_are_refused(properties: dict[str, str], code: Code, words: str) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        with pytest.raises(Answered, match=words) as refused:
            await client.send("t", b"x", properties=properties)
        assert refused.value.code == code

    Stage().play(scenario)


def test_a_time_that_is_over_makes_a_plain_message() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await client.send("t", b"x", queue_id=0, properties={"TIMER_DELAY_SEC": "-5"})
        assert sent.recall_handle is None
        assert await delivered(client) == ["x"]

    Stage().play(scenario)


def test_a_delay_level_wins_over_a_time() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await client.send(
            "t", b"x", queue_id=0, properties={"DELAY": "1", "TIMER_DELAY_SEC": "100000"}
        )
        assert sent.recall_handle is None
        await stage.pass_time(2)
        (message,) = await client.read("t", 0, 0)
        assert not {"TIMER_DELAY_SEC", "TIMER_OUT_MS"} & message.properties.keys()

    Stage().play(scenario)


def test_without_the_wheel_timed_messages_are_refused_and_plain_ones_are_not() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        with pytest.raises(Answered, match="timerWheelEnable") as refused:
            await client.send("t", b"x", properties={"TIMER_DELAY_SEC": "1"})
        assert refused.value.code == Code.SYSTEM_ERROR
        await client.send("t", b"x")

    Stage(store={"timer_wheel_enable": False}).play(scenario)


def test_nobody_writes_into_the_timers_own_queue() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        with pytest.raises(Answered) as refused:
            await client.send("rmq_sys_wheel_timer", b"x", queue_id=0, properties={"TIMER_OUT_MS": "1"})
        assert refused.value.code == Code.NO_PERMISSION

    Stage().play(scenario)


def test_a_slot_is_delivered_oldest_first_with_the_properties_that_apache_leaves() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        for number in range(300):
            body = f"{number}".encode()
            await client.send(
                "t",
                body,
                queue_id=0,
                tag="A",
                keys="k",
                properties={"TIMER_DELIVER_MS": str(1_700_000_060_000)},
            )
        await stage.pass_time(61)
        assert await delivered(client) == [f"{number}" for number in range(300)]
        (message,) = await client.read("t", 0, 7, count=1)
        kept = {name: message.properties[name] for name in ("TAGS", "KEYS", "REAL_TOPIC", "REAL_QID")}
        assert kept == {"TAGS": "A", "KEYS": "k", "REAL_TOPIC": "t", "REAL_QID": "0"}
        assert message.properties["TIMER_OUT_MS"] == str(1_700_000_059_000)
        assert int(message.properties["TIMER_ENQUEUE_MS"]) % PRECISION_MS == 0
        assert int(message.properties["TIMER_DEQUEUE_MS"]) >= 1_700_000_060_000
        assert [one.body for one in await client.read("t", 0, 0, tags="A", count=1)] == [b"0"]

    Stage().play(scenario)


def test_long_delays_are_rolled_and_still_come_at_their_time() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        due_ms = now_ms(stage) + 40 * 86_400_000
        await client.send("t", b"x", queue_id=0, properties={"TIMER_DELIVER_MS": str(due_ms)})
        clock = stage.world.clock(BROKER_HOST)
        while now_ms(stage) < due_ms - 5_000:
            clock.jump_ms(min(10_800_000, due_ms - 5_000 - now_ms(stage)))
            await stage.pass_time(2)
            assert await delivered(client) == []
        await stage.pass_time(8)
        (message,) = await client.read("t", 0, 0)
        assert int(message.properties["TIMER_DEQUEUE_MS"]) >= due_ms
        assert int(message.properties["TIMER_ROLL_TIMES"]) >= 18

    Stage(store={"timer_max_delay_s": 45 * 86_400, "file_reserved_hours": 10_000}).play(scenario)


def test_a_recalled_message_does_not_come_and_its_neighbours_do() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = [
            await client.send("t", f"{number}".encode(), queue_id=0, properties={"TIMER_DELAY_SEC": "10"})
            for number in range(4)
        ]
        answer = await client.ask(BROKER, Recall("t", sent[1].recall_handle or ""))
        assert Recalled.decode(answer.ext).msg_id == sent[1].transaction_id
        await client.ask(BROKER, Recall("t", sent[1].recall_handle or ""))
        assert stage.broker is not None
        await stage.pass_time(2)
        metrics = await client.ask(BROKER, GetTimerMetrics())
        assert b'"t":{"count":2' in metrics.body  # the second marker counts too, as it does with Apache
        await stage.pass_time(12)
        assert await delivered(client) == ["0", "2", "3"]
        with pytest.raises(Answered, match="timestamp invalid") as refused:
            await client.ask(BROKER, Recall("t", sent[2].recall_handle or ""))
        assert refused.value.code == Code.ILLEGAL_OPERATION

    Stage(recall_message=True).play(scenario)


def test_a_rolled_message_can_be_recalled() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        properties = {"TIMER_DELAY_SEC": "100"}
        first = await client.send("t", b"0", queue_id=0, properties=properties)
        await client.send("t", b"1", queue_id=0, properties=properties)
        await stage.pass_time(30)
        await client.ask(BROKER, Recall("t", first.recall_handle or ""))
        await stage.pass_time(100)
        assert await delivered(client) == ["1"]

    Stage(recall_message=True, store={"timer_roll_window_slots": 20}).play(scenario)


def test_recalls_that_cannot_be_are_refused() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await client.send("t", b"x", queue_id=0, properties={"TIMER_DELAY_SEC": "10"})
        await client.send("other", b"x")
        handle = sent.recall_handle or ""
        cases = [
            (Recall("t", "!!"), Code.ILLEGAL_OPERATION),
            (Recall("t", ""), Code.ILLEGAL_OPERATION),
            (Recall("t", "djEgdA=="), Code.ILLEGAL_OPERATION),
            (Recall("other", handle), Code.ILLEGAL_OPERATION),
            (Recall("unknown", handle), Code.TOPIC_NOT_EXIST),
        ]
        for request, code in cases:
            with pytest.raises(Answered) as refused:
                await client.ask(BROKER, request)
            assert refused.value.code == code

    Stage(recall_message=True).play(scenario)


def test_recall_is_off_unless_it_is_set() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await client.send("t", b"x", queue_id=0, properties={"TIMER_DELAY_SEC": "3"})
        with pytest.raises(Answered, match="recallMessageEnable") as refused:
            await client.ask(BROKER, Recall("t", sent.recall_handle or ""))
        assert refused.value.code == Code.NO_PERMISSION
        await stage.pass_time(5)
        assert await delivered(client) == ["x"]

    Stage().play(scenario)


def test_figures_tell_what_waits_and_where_the_timer_is() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        for _ in range(5):
            await client.send("t", b"x", queue_id=0, properties={"TIMER_DELAY_SEC": "100"})
        await stage.pass_time(3)
        check = await client.ask(BROKER, GetTimerCheck())
        words = [int.from_bytes(check.body[at : at + 8], "big") for at in range(0, 56, 8)]
        assert words[1:4] == [5 * 52, 5, 5]
        assert b'"t":{"count":5' in (await client.ask(BROKER, GetTimerMetrics())).body
        assert stage.broker is not None
        texts = {key: text for hook in stage.broker._hooks.runtime_texts for key, text in hook().items()}
        assert (texts["timerCongestNum"], texts["timerOffsetBehind"]) == ("5", "0")
        await stage.pass_time(100)
        texts = {key: text for hook in stage.broker._hooks.runtime_texts for key, text in hook().items()}
        assert (texts["timerCongestNum"], texts["timerReadBehind"]) == ("0", "0")

    Stage().play(scenario)
