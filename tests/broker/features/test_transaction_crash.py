"""Transactions over crashes in the simulation: what was decided is decided once, what was not is asked about.

The checker of the random runs reads every queue of the users' topic: a message that its producer meant to
commit is there once, one that it meant to roll back never, and none is there before its producer said so.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.broker.core.redraft import draft_of
from roquet.broker.features.transaction import shapes
from roquet.client import Plain
from roquet.model.message import Draft, Host
from roquet.model.names import HALF_TOPIC, OP_HALF_TOPIC
from roquet.model.status import Appended
from roquet.store.format import record
from roquet.store.settings import FlushMode
from roquet.wire.codes import Code
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound, QueryOffset
from roquet.wire.requests.send import SendV2, Sent
from tests.broker.features.transaction_producer import COMMIT, ROLLBACK, UNKNOWN, Producer, bodies, messages
from tests.broker.stage import BROKER, BROKER_HOST, CLIENT_HOST, Stage

SETTINGS: dict[str, Any] = {"transaction_check_interval_ms": 5_000, "transaction_timeout_ms": 3_000}


def producer(stage: Stage, *args: Any) -> Producer:
    return Producer(stage.world.ports(CLIENT_HOST), *args)


async def append(stage: Stage, draft: Draft) -> Appended:
    """Put a record into the broker's log behind its back."""
    assert stage.broker is not None
    future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
    stage.broker.store.append((draft,), future.set_result)
    return await future


async def half_record(stage: Stage, sent: Sent) -> record.Record:
    assert stage.broker is not None
    data = await stage.broker.store.record_at(int(sent.msg_id[-16:], 16))
    assert data is not None
    return record.decode(data)


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_commit_whose_op_record_is_missing_is_not_repeated(power_cut: bool) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await producer(stage).send_half("t", b"x")
        half = await half_record(stage, sent)
        await append(stage, shapes.commit(*draft_of(half), half.log_offset))
        await stage.pass_time(0 if not power_cut else 30)  # a power cut leaves what was synced
        await stage.restart(power_cut=power_cut)
        mq = producer(stage, lambda body: COMMIT)
        await mq.heartbeat()
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        await stage.pass_time(30)
        assert await bodies(client, "t") == [b"x"]
        assert mq.asked == []
        assert await bodies(client, OP_HALF_TOPIC) == [b"0,"], "the op record is written after all"

    Stage(**SETTINGS).play(scenario)


def test_a_message_that_pretends_to_be_a_commit_ends_nothing() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        sent = await mq.send_half("t", b"x")
        assert int(sent.msg_id[-16:], 16) == 0, "the half lies where messages without a half point to"
        await client.ask(BROKER, SendV2("p", "t", "TBW102", 4, 0, 8, 0, 0), b"forged")
        await stage.restart(power_cut=False)
        mq = producer(stage)
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        assert await bodies(client, "t") == [b"forged", b"x"]

    Stage(**SETTINGS).play(scenario)


@pytest.mark.parametrize("body", [b"0", b"0,", b"7,0,"])
def test_op_records_of_other_releases_count(body: bytes) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await producer(stage).send_half("t", b"x")
        await append(stage, shapes.op([], 0, Host(bytes(4), 0))._replace(body=body))
        await stage.restart(power_cut=False)
        mq = producer(stage, lambda body: COMMIT)
        await mq.heartbeat()
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        await stage.pass_time(30)
        assert mq.asked == []
        assert await bodies(client, "t") == []

    Stage(**SETTINGS).play(scenario)


def test_a_half_that_was_stored_again_is_one_transaction_after_a_crash_too() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.heartbeat()
        sent = await mq.send_half("t", b"x")
        await stage.pass_time(13)
        assert len(mq.asked) >= 1
        await stage.restart(power_cut=False)
        mq = producer(stage, lambda body: COMMIT)
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        await mq.heartbeat()
        await stage.pass_time(60)
        assert mq.asked == []
        assert await bodies(client, "t") == [b"x"]

    Stage(**SETTINGS).play(scenario)


@pytest.mark.parametrize("is_ours", [True, False], ids=["stored again by us", "by Apache"])
def test_the_commit_of_the_newest_record_ends_the_older_ones_too(is_ours: bool) -> None:
    """Neither the saved offsets nor an op record say that the first record is done: a crash took them."""

    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await producer(stage).send_half("t", b"x")
        half = await half_record(stage, sent)
        draft = shapes.again(half, 0, 1)
        if not is_ours:
            text = draft.properties.decode().replace("ROQUET_HALF_OFFSET\x010\x02", "")
            draft = draft._replace(properties=text.encode())
        copy = await append(stage, draft)
        await append(stage, shapes.commit(*draft_of(half), copy.log_offsets[0]))
        await stage.restart(power_cut=False)
        mq = producer(stage, lambda body: COMMIT)
        await mq.heartbeat()
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        await stage.pass_time(30)
        assert await bodies(client, "t") == [b"x"]
        assert mq.asked == []
        assert await bodies(client, OP_HALF_TOPIC) == [b"0,1,"]

    Stage(**SETTINGS).play(scenario)


def test_a_half_that_apache_stored_again_is_one_transaction() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        sent = await producer(stage).send_half("t", b"x")
        half = await half_record(stage, sent)
        text = shapes.again(half, 0, 1).properties.decode().replace("ROQUET_HALF_OFFSET\x010\x02", "")
        await append(stage, shapes.again(half, 0, 1)._replace(properties=text.encode()))
        await stage.restart(power_cut=False)
        mq = producer(stage, lambda body: COMMIT)
        await mq.heartbeat()
        assert (await mq.end(sent, COMMIT)).code == Code.SUCCESS
        await stage.pass_time(30)
        assert (mq.asked, await bodies(client, "t")) == ([], [b"x"])

    Stage(**SETTINGS).play(scenario)


def test_halves_that_a_power_cut_took_make_room_for_new_ones() -> None:
    """The saved offset may be ahead of what is left of the half queue."""

    async def scenario(stage: Stage, client: Plain) -> None:
        mq = producer(stage)
        await mq.end(await mq.send_half("t", b"a"), COMMIT)
        await stage.pass_time(20)
        assert stage.broker is not None
        stage.broker.offsets.commit("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0, 50)
        stage.broker.offsets.commit("CID_RMQ_SYS_TRANS", OP_HALF_TOPIC, 0, 50)
        stage.broker._save_offsets()
        await stage.restart(power_cut=True)
        mq = producer(stage, lambda body: COMMIT)
        await mq.heartbeat()
        await mq.send_half("t", b"b")
        await stage.pass_time(20)
        assert await bodies(client, "t") == [b"a", b"b"]

    Stage(**SETTINGS).play(scenario)


class Trial:
    """A random run: transactions, ends that come twice or never, crashes; and what must hold at its end."""

    def __init__(self, stage: Stage, client: Plain) -> None:
        self.stage = stage
        self.client = client
        self.rng = stage.world.rng
        self.meant: dict[bytes, int] = {}
        self.acknowledged: set[bytes] = set()
        self.is_over = False
        self._count = 0
        self.producers: list[Producer] = []

    def decide(self, body: bytes) -> int:
        """Answer the broker: not always at the first question while the run goes on."""
        if not self.is_over and self.rng.random() < 0.3:
            return UNKNOWN
        return self.meant[body]

    async def work(self, mq: Producer) -> None:
        """Send halves and end them as producers do, until the broker goes away."""
        while True:
            self._count += 1
            body = b"%d" % self._count
            self.meant[body] = COMMIT if self.rng.random() < 0.7 else ROLLBACK
            sent = await mq.send_half("t", body, queue_id=self.rng.randrange(4))
            self.acknowledged.add(body)
            way = self.rng.random()
            if way < 0.3:
                await mq.end_one_way(sent, self.meant[body])
                await mq.end_one_way(sent, self.meant[body])
            elif way < 0.7:
                await mq.end(sent, self.meant[body])
            elif way < 0.8:
                await asyncio.gather(*(mq.end(sent, self.meant[body]) for _ in range(3)))
            await self.stage.pass_time(self.rng.random() * 0.3)

    async def live(self, seconds: float) -> None:
        """One life of the broker."""
        self.producers = [producer(self.stage, self.decide) for _ in range(3)]
        for mq in self.producers:
            await mq.heartbeat()
        working = [asyncio.ensure_future(self.work(mq)) for mq in self.producers]
        await self.stage.pass_time(seconds)
        for task in working:
            task.cancel()
        ends = await asyncio.gather(*working, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends

    async def settle(self) -> None:
        """Let everything be decided."""
        self.is_over = True
        mq = producer(self.stage, self.decide)
        for _ in range(10):
            await mq.heartbeat()
            await self.stage.pass_time(10)

    async def check(self, is_all_kept: bool) -> None:
        found = [message for queue_id in range(4) for message in await messages(self.client, "t", queue_id)]
        # A power cut may leave the last record with a torn end when it was not synced; its half is asked
        # about again, and the whole message follows.
        whole = [each for each in found if each.properties.get(shapes.TRANSACTION_ID)]
        assert is_all_kept <= (whole == found)
        seen = [message.body for message in whole]
        assert len(seen) == len(set(seen)), "committed once"
        assert all(self.meant[body] == COMMIT for body in seen), "rolled back, or never decided"
        if is_all_kept:
            wanted = {body for body in self.acknowledged if self.meant[body] == COMMIT}
            assert wanted <= set(seen), "nothing is lost"
        for topic in (HALF_TOPIC, OP_HALF_TOPIC):
            end = await self.client.ask(BROKER, GetMaxOffset(topic, 0))
            at = await self.client.ask(BROKER, QueryOffset("CID_RMQ_SYS_TRANS", topic, 0))
            assert OffsetFound.decode(at.ext).offset == OffsetFound.decode(end.ext).offset, topic


def play(seed: int, flush: FlushMode, power_cut: bool, jumps: bool = False) -> int:
    counts: list[int] = []

    async def scenario(stage: Stage, client: Plain) -> None:
        trial = Trial(stage, client)
        for life in range(4):
            await trial.live(1 + trial.rng.random() * 12)
            if jumps:
                stage.world.clock(BROKER_HOST).jump_ms(trial.rng.randrange(200_000) - 100_000)
            if life == 2 and not power_cut:
                assert stage.broker is not None
                await stage.broker.resign()
                stage.broker.become_master()
            else:
                await stage.restart(power_cut=power_cut)
        await trial.settle()
        await trial.check(flush is FlushMode.SYNC or not power_cut)
        counts.append(len(trial.acknowledged))

    Stage(seed, store={"flush_mode": flush}, **SETTINGS).play(scenario)
    return counts[0]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("flush", "power_cut"), [(FlushMode.SYNC, True), (FlushMode.ASYNC, False), (FlushMode.ASYNC, True)]
)
def test_crashes_decide_nothing(seed: int, flush: FlushMode, power_cut: bool) -> None:
    assert play(seed, flush, power_cut) > 50


@settings(max_examples=3, deadline=None)
@given(st.integers(100, 1_000_000))
def test_crashes_and_jumps_of_the_clock(seed: int) -> None:
    play(seed, FlushMode.SYNC, power_cut=True, jumps=True)
