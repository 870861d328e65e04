"""Delay levels in the whole broker, in the simulation: on time, through crashes, role changes, set clocks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import NamedTuple

import msgspec
import pytest

from roquet.client import Answered, Plain
from roquet.model.message import parse_properties
from roquet.store.format import record
from roquet.store.settings import FlushMode
from roquet.wire.bodies import loose_json
from roquet.wire.codes import Code
from roquet.wire.requests.replica import GetDelayOffsets
from roquet.wire.requests.settings import GetRuntimeInfo
from tests.broker.stage import BROKER, BROKER_HOST, Stage

LEVELS_MS = (1_000, 2_000, 5_000)
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
FILE = "/store/config/delayOffset.json"


def stage(seed: int = 1, flush_mode: FlushMode = FlushMode.ASYNC) -> Stage:
    return Stage(seed, store={"delay_levels_ms": LEVELS_MS, "flush_mode": flush_mode})


class Stored(NamedTuple):
    """What the checks need of a record."""

    body: bytes
    properties: dict[str, str]
    store_ms: int
    born_ms: int
    prepared_log_offset: int

    @property
    def is_whole(self) -> bool:
        return self.properties.keys() >= {"UNIQ_KEY", "REAL_TOPIC", "REAL_QID", "DELAY", "CLUSTER"}


async def records(stage: Stage, topic: str) -> list[Stored]:
    """Return everything in a topic, from the broker's own store."""
    assert stage.broker is not None
    store = stage.broker.store
    found = []
    for queue_id in store.queues_of(topic):
        offset = store.min_offset(topic, queue_id)
        while offset < store.max_offset(topic, queue_id):
            got = await store.read(topic, queue_id, offset, 32, 1 << 20)
            for data in got.records:
                read = record.decode(data)
                properties = parse_properties(read.properties.decode())
                found.append(
                    Stored(read.body, properties, read.store_ms, read.born_ms, read.prepared_log_offset)
                )
            offset = got.next_offset
    return found


async def delayed(client: Plain, body: bytes, level: int, queue_id: int = 0) -> None:
    await client.send("t", body, queue_id=queue_id, properties={"DELAY": str(level)})


async def check(stage: Stage) -> None:
    """Each parked message was delivered, once, and not before its time."""
    # A power cut may leave the last record without the end of its properties: those do not count.
    parked = {one.properties["UNIQ_KEY"]: one for one in await records(stage, SCHEDULE) if one.is_whole}
    delivered = [one for one in await records(stage, "t") if one.is_whole]
    times = Counter(one.properties["UNIQ_KEY"] for one in delivered)
    assert set(times) == set(parked), "lost, or never parked"
    assert {key: count for key, count in times.items() if count > 1} == {}, "delivered twice"
    for one in delivered:
        waiting = parked[one.properties["UNIQ_KEY"]]
        delay_ms = LEVELS_MS[int(one.properties["DELAY"]) - 1]
        assert one.store_ms >= waiting.store_ms + delay_ms, "early"


def test_a_delayed_message_comes_at_its_time_as_it_was_sent() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await stage.pass_time(3)
        properties = {"DELAY": "2", "mine": "x"}
        sent = await client.send("t", b"later", tag="A", queue_id=3, properties=properties)
        assert (sent.queue_id, sent.queue_offset) == (3, 0)
        await stage.pass_time(1.9)
        assert await client.read("t", 3, 0) == []
        await stage.pass_time(0.2)
        (message,) = await client.read("t", 3, 0, tags="A")
        assert message.body == b"later"
        kept = {"DELAY": "2", "REAL_TOPIC": "t", "REAL_QID": "3", "TAGS": "A", "mine": "x"}
        assert kept.items() <= message.properties.items()
        assert message.properties["UNIQ_KEY"] == sent.transaction_id
        (parked,), (delivered,) = await records(stage, SCHEDULE), await records(stage, "t")
        assert parked.properties == delivered.properties
        assert parked.born_ms == delivered.born_ms
        assert 0 <= delivered.store_ms - parked.store_ms - 2_000 <= 20

    stage().play(scenario)


def test_levels_do_not_wait_for_each_other() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        for level in (3, 2, 1, 99):
            await delayed(client, str(level).encode(), level)
        await stage.pass_time(10)
        assert [one.body for one in await records(stage, "t")] == [b"1", b"2", b"3", b"99"]
        await check(stage)

    stage().play(scenario)


@pytest.mark.parametrize("value", ["0", "-3"])
def test_no_level_is_no_delay(value: str) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"now", queue_id=0, properties={"DELAY": value})
        assert len(await client.read("t", 0, 0)) == 1

    stage().play(scenario)


def test_what_is_no_level_is_refused() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        with pytest.raises(Answered) as refused:
            await client.send("t", b"x", properties={"DELAY": "soon"})
        assert refused.value.code == Code.MESSAGE_ILLEGAL
        assert "from 1 to 3" in refused.value.remark

    stage().play(scenario)


def test_progress_is_shown_and_saved_as_apache_does() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        for number in range(5):
            await delayed(client, b"%d" % number, 1)
        await delayed(client, b"late", 3)
        await stage.pass_time(2)
        info = msgspec.json.decode((await client.ask(BROKER, GetRuntimeInfo())).body)["table"]
        assert (info["scheduleMessageOffset_1"], info["scheduleMessageOffset_3"]) == ("5,5", "0,1")
        body = (await client.ask(BROKER, GetDelayOffsets())).body
        assert b'"offsetTable":{1:5}' in body
        await stage.pass_time(25)
        saved = loose_json.loads(stage.world.disk(BROKER_HOST).read_file(FILE))
        assert isinstance(saved, dict)
        assert saved["offsetTable"] == {1: 5, 3: 1}

    stage().play(scenario)


@pytest.mark.parametrize("flush_mode", list(FlushMode))
@pytest.mark.parametrize("seed", range(6))
def test_crashes_neither_lose_nor_double_nor_hurry(seed: int, flush_mode: FlushMode) -> None:
    """What the log still has of the parked messages is delivered once, whatever was cut off and when."""

    async def scenario(stage: Stage, client: Plain) -> None:
        rng = stage.world.rng
        for life in range(6):
            for number in range(rng.randrange(40)):
                try:
                    await delayed(client, b"%d.%d" % (life, number), 1 + rng.randrange(3), rng.randrange(4))
                except (OSError, Answered):
                    continue  # the link to the dead broker; the next one is new
                await stage.pass_time(rng.random() / 4)
            await stage.pass_time(rng.random() * 6)
            await stage.restart(power_cut=rng.random() < 0.5)
        await stage.pass_time(20)
        await check(stage)
        assert len(await records(stage, "t")) > 5

    stage(seed, flush_mode).play(scenario)


def test_a_killed_broker_that_never_saved_knows_what_it_delivered() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await stage.pass_time(2)  # the first save; the next one would come 10 s later
        for number in range(20):
            await delayed(client, b"%d" % number, 1)
        await stage.pass_time(2)
        assert len(await records(stage, "t")) == 20
        await stage.restart(power_cut=False)
        await stage.pass_time(5)
        await check(stage)

    stage().play(scenario)


def test_a_file_of_apache_is_taken_as_it_stands() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await stage.pass_time(2)
        for number in range(3):
            await delayed(client, b"%d" % number, 1)
        stage.world.kill(BROKER_HOST)
        version = b'{"counter":1,"stateVersion":0,"timestamp":5}'
        stage.world.disk(BROKER_HOST).write_file(FILE, b'{"dataVersion":%b,"offsetTable":{1:2\n}}' % version)
        await stage.start_broker()
        await stage.pass_time(5)
        assert [one.body for one in await records(stage, "t")] == [b"2"]

    stage().play(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_a_role_change_neither_loses_nor_doubles(seed: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        rng, broker = stage.world.rng, stage.broker
        assert broker is not None
        for _ in range(8):
            for number in range(rng.randrange(30)):
                await delayed(client, b"%d" % number, 1 + rng.randrange(3))
            await stage.pass_time(rng.random() * 3)
            await broker.resign()
            before = len(await records(stage, "t"))
            await stage.pass_time(rng.random() * 3)
            assert len(await records(stage, "t")) == before, "only a master delivers"
            broker.become_master()
        await stage.pass_time(10)
        await check(stage)

    stage(seed).play(scenario)


def test_a_clock_set_back_makes_a_message_wait_its_delay_once_more_at_most() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await stage.pass_time(2)
        for number in range(50):
            await delayed(client, b"%d" % number, 3)
        stage.world.clock(BROKER_HOST).jump_ms(-3_600_000)
        await stage.pass_time(4.9)
        assert await records(stage, "t") == []
        await stage.pass_time(2)
        assert len(await records(stage, "t")) == 50

    stage().play(scenario)


def test_a_clock_set_forward_is_noticed_within_a_second() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await stage.pass_time(2)
        await delayed(client, b"x", 3)
        await stage.pass_time(1)
        stage.world.clock(BROKER_HOST).jump_ms(60_000)
        await stage.pass_time(1.1)
        assert len(await records(stage, "t")) == 1

    stage().play(scenario)


def test_a_message_that_became_too_large_waits_until_it_may_go() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        broker = stage.broker
        assert broker is not None
        await stage.pass_time(2)
        for body in (b"a", b"b" * 5_000, b"c"):
            await delayed(client, body, 1)
        small = dataclasses.replace(broker.store_settings, message_size_bytes_max=1_000)
        large = broker.store_settings
        broker.apply(broker.settings, small)
        await stage.pass_time(15)
        assert [one.body for one in await records(stage, "t")] == [b"a"]
        broker.apply(broker.settings, large)
        await stage.pass_time(15)
        await check(stage)

    stage().play(scenario)


def test_nothing_runs_while_nothing_waits() -> None:
    """An idle hour costs no reads and saves nothing."""

    async def scenario(stage: Stage, client: Plain) -> None:
        await delayed(client, b"x", 1)
        await stage.pass_time(60)
        before = stage.world.disk(BROKER_HOST).stat(FILE)
        await stage.pass_time(1_800)
        assert stage.world.disk(BROKER_HOST).stat(FILE) == before

    stage().play(scenario)
