"""Timed messages through kills, power cuts, set clocks and changes of role, at random.

The rule that every run is held against: what was acknowledged is delivered once, and not before the wall
clock of its broker has reached its time.
"""

from __future__ import annotations

import asyncio
import errno
import random
from typing import Any

import pytest

from roquet.client import Answered, Message, Plain
from roquet.store.settings import FlushMode
from tests.broker.stage import BROKER_HOST, Stage

QUEUES = 4


class Diary:
    """What was sent: when each message is due, and which ones were acknowledged."""

    def __init__(self, stage: Stage, client: Plain) -> None:
        self._stage = stage
        self._client = client
        self.due_ms: dict[str, int] = {}
        self.acknowledged: set[str] = set()

    @property
    def now_ms(self) -> int:
        return self._stage.world.clock(BROKER_HOST).now_ms()

    async def send(self, delay_ms: int) -> None:
        name = f"m{len(self.due_ms)}"
        self.due_ms[name] = self.now_ms + delay_ms
        due = {"TIMER_DELIVER_MS": str(self.due_ms[name])}
        try:
            await self._client.send("t", name.encode(), queue_id=len(name) % QUEUES, properties=due)
        except (Answered, OSError):
            return
        self.acknowledged.add(name)

    async def read(self) -> list[Message]:
        """Return all deliveries, over links that a crash left half open."""
        found: list[Message] = []
        for queue_id in range(QUEUES):
            offset = failures = 0
            while True:
                try:
                    messages = await self._client.read("t", queue_id, offset)
                except OSError:
                    failures += 1
                    assert failures < 6
                    continue
                except Answered:
                    assert not self.acknowledged, "the topic is gone"
                    break
                if not messages:
                    break
                offset += len(messages)
                found += messages
        return found

    async def check(self, is_over: bool, is_tearing: bool = False) -> None:
        """Nothing early, nothing twice; nothing missing when all times are over.

        With `is_tearing`, records that lost the end of their properties in a power cut are no deliveries:
        the checksum of a record covers its body only, so recovery keeps the last one of the log even so.
        """
        messages = await self.read()
        if is_tearing:
            messages = [message for message in messages if "TIMER_DEQUEUE_MS" in message.properties]
        for message in messages:
            if "TIMER_DEQUEUE_MS" in message.properties:
                dequeued_ms = int(message.properties["TIMER_DEQUEUE_MS"])
                assert dequeued_ms >= self.due_ms[message.body.decode()], "early"
        names = [message.body.decode() for message in messages]
        assert len(names) == len(set(names)), f"twice: {sorted({n for n in names if names.count(n) > 1})}"
        if is_over:
            assert self.acknowledged <= set(names), f"lost: {sorted(self.acknowledged - set(names))}"


async def some_sends(diary: Diary, rng: random.Random, count: int) -> None:
    for _ in range(count):
        await diary.send(rng.choice([300, 1_000, 1_500, 4_000, 9_999, 30_000, 90_000]))


def play(seed: int, power_cut: bool, jumps: bool = False, **store: Any) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        rng, diary = stage.world.rng, Diary(stage, client)
        for _ in range(6):
            sending = asyncio.ensure_future(some_sends(diary, rng, rng.randrange(40)))
            await stage.pass_time(rng.random() * 8)
            if jumps:
                stage.world.clock(BROKER_HOST).jump_ms(rng.choice([-20_000, -700, 0, 3_000, 60_000]))
                await stage.pass_time(rng.random() * 3)
            await stage.restart(power_cut=power_cut)
            await sending
            await diary.check(is_over=False)
        await stage.pass_time(max(diary.due_ms.values()) / 1000 - diary.now_ms / 1000 + 5)
        await diary.check(is_over=True)
        assert len(diary.acknowledged) > 20

    small = {"timer_roll_window_slots": 20, "timer_log_file_size_bytes": 2_000}
    Stage(seed, store=small | store).play(scenario, limit_s=7_200)


@pytest.mark.parametrize("seed", range(8))
def test_a_killed_broker_delivers_all_once(seed: int) -> None:
    play(seed, power_cut=False)


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_loses_and_doubles_nothing(seed: int) -> None:
    play(seed, power_cut=True, flush_mode=FlushMode.SYNC)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_early_or_lost_when_the_clock_is_set(seed: int) -> None:
    play(seed, power_cut=seed % 2 == 0, jumps=True, flush_mode=FlushMode.SYNC)


@pytest.mark.parametrize("seed", range(8))
def test_a_delivery_that_a_power_cut_takes_back_happens_again(seed: int) -> None:
    """The message is on disk, its delivery is not yet: the wheel must not have forgotten it."""

    async def scenario(stage: Stage, client: Plain) -> None:
        rng, diary = stage.world.rng, Diary(stage, client)
        for _ in range(30):
            await diary.send(rng.choice([20_000, 21_000, 22_500]))
        await stage.pass_time(15)  # longer than the log stays unsynced
        for _ in range(3):
            await stage.pass_time(5 + rng.random() * 4)
            await stage.restart(power_cut=True)
            await diary.check(is_over=False, is_tearing=True)
        await stage.pass_time(15)
        await diary.check(is_over=True, is_tearing=True)

    Stage(seed, store={"timer_log_file_size_bytes": 2_000}).play(scenario)


@pytest.mark.parametrize("seed", range(8))
def test_a_place_in_the_log_that_a_power_cut_frees_is_filed_once(seed: int) -> None:
    """What is saved of the timer never leads to records that the log may lose: others get their places."""

    async def scenario(stage: Stage, client: Plain) -> None:
        rng, diary = stage.world.rng, Diary(stage, client)
        await client.send("t", b"the topic is there")
        for _ in range(3):
            for _ in range(5):
                await diary.send(rng.choice([25_000, 30_000, 40_000]))
            await stage.pass_time(1.5 + rng.random() * 3)  # the timer saves each second, the log each ten
            await stage.restart(power_cut=True)
            for _ in range(5):
                await diary.send(rng.choice([20_000, 26_000, 35_000]))
            await stage.pass_time(12)
        await stage.pass_time(60)
        timed = [message for message in await diary.read() if "TIMER_OUT_MS" in message.properties]
        names = [message.body for message in timed]
        assert len(names) == len(set(names)), "twice"
        assert len(names) >= 15, "those that the last cut left"

    Stage(seed).play(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_a_change_of_role_neither_loses_nor_doubles(seed: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        rng, diary = stage.world.rng, Diary(stage, client)
        assert (broker := stage.broker) is not None
        for _ in range(8):
            sending = asyncio.ensure_future(some_sends(diary, rng, 20))
            await stage.pass_time(rng.random() * 2)
            await broker.resign()
            before = await diary.read()
            await sending
            await stage.pass_time(rng.random() * 20)
            assert len(await diary.read()) == len(before), "only a master delivers"
            broker.become_master()
        await stage.pass_time(100)
        await diary.check(is_over=True)

    Stage(seed, store={"timer_roll_window_slots": 20}).play(scenario)


@pytest.mark.parametrize("hours", [5, 24 * 9, 24 * 40])
def test_what_fell_due_while_the_broker_was_down_comes_at_once(hours: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        diary = Diary(stage, client)
        for delay_ms in (5_000, 60_000, 3_600_000, 47 * 3_600_000):
            await diary.send(delay_ms)
        await stage.pass_time(2)
        stage.world.kill(BROKER_HOST)
        stage.world.clock(BROKER_HOST).jump_ms(hours * 3_600_000)
        await stage.start_broker()
        await stage.pass_time(2)
        messages = await diary.read()
        assert len(messages) == sum(due <= diary.now_ms for due in diary.due_ms.values())
        stage.world.clock(BROKER_HOST).jump_ms(48 * 3_600_000)
        await stage.pass_time(3)
        await diary.check(is_over=True)

    Stage(store={"file_reserved_hours": 10_000}).play(scenario)


def test_a_clock_set_back_by_a_turn_of_the_wheel_loses_nothing() -> None:
    """Slots of both times would be the same: the later message takes the next slot."""

    async def scenario(stage: Stage, client: Plain) -> None:
        diary = Diary(stage, client)
        turn_ms = 1_209_600 * 1_000
        await diary.send(60_500)
        await stage.pass_time(2)
        stage.world.clock(BROKER_HOST).jump_ms(-turn_ms)
        for _ in range(3):
            await diary.send(58_500)
        await stage.pass_time(70)
        assert len(await diary.read()) == 3
        stage.world.clock(BROKER_HOST).jump_ms(turn_ms)
        await stage.pass_time(3)
        await diary.check(is_over=True)

    Stage(store={"file_reserved_hours": 10_000}).play(scenario)


@pytest.mark.parametrize("where", ["timerlog", "timerwheel", "timercheck"])
@pytest.mark.parametrize("kind", ["write", "sync", "read", "open"])
def test_a_disk_that_fails_for_a_while_only_delays(where: str, kind: str) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        diary = Diary(stage, client)
        disk = stage.world.disk(BROKER_HOST)
        await diary.send(4_000)
        await stage.pass_time(1)
        disk.fail(kind, where, errno.EIO)
        for _ in range(5):
            await diary.send(3_000)
        await stage.pass_time(10)
        disk.heal()
        await stage.pass_time(10)
        await diary.check(is_over=True)
        await stage.restart(power_cut=False)
        await stage.pass_time(10)
        await diary.check(is_over=True)

    Stage(store={"flush_mode": FlushMode.SYNC}).play(scenario)


def test_files_that_lead_only_to_deleted_records_are_deleted() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        diary, disk = Diary(stage, client), stage.world.disk(BROKER_HOST)
        for _ in range(200):
            await diary.send(1_500)
        await stage.pass_time(10)
        assert len(disk.list_dir("/store/timerlog")) > 3
        assert (broker := stage.broker) is not None
        stage.world.clock(BROKER_HOST).jump_ms(200 * 3_600_000)
        await broker.store.delete_expired_log()
        await stage.pass_time(120)
        await diary.send(1_500)
        await stage.pass_time(60)
        await diary.send(1_500)
        await stage.pass_time(60)
        assert broker.store.log_min_offset > 0
        assert disk.list_dir("/store/timerlog")[0].name != "0" * 20

    Stage(store={"timer_log_file_size_bytes": 2_000, "log_file_size_bytes": 32_768}).play(scenario)
