"""The clients of a trial of kinds: senders that are producers too, a reader, holders of locks.

They tell the oracle what they tried and what they saw. An answer that does not come is no mistake here:
brokers die all the time. A sender that does not hear how its send ended never sends that message again.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import msgspec

from roquet.client.plain import Answered, Plain
from roquet.model.message import format_properties
from roquet.sim.attempts import Wrong
from roquet.sim.kinds_checkers import FOREVER, HARD, MIXED, RETRY, Intent, Letter, Seen, Wait
from roquet.sim.kinds_stand import ADDRESS, LEVELS_MS, LOCK_LIVE_MS, NAME, QUEUES, TIMES_MAX, Stand, decode
from roquet.store.format import record
from roquet.store.settings import FlushMode
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call
from roquet.wire.codes import Code
from roquet.wire.requests.client import Heartbeat
from roquet.wire.requests.order import LockQueues, UnlockQueues
from roquet.wire.requests.pull import LitePull, PullFlag
from roquet.wire.requests.retry import SendBack
from roquet.wire.requests.send import SendV2, Sent
from roquet.wire.requests.transaction import CheckTransaction, EndTransaction
from roquet.wire.row import row_of

ANSWER_S_MAX = 2.0
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
DECISIONS = {Intent.COMMIT: COMMIT, Intent.ROLLBACK: ROLLBACK, Intent.SILENCE: UNKNOWN}
PRODUCERS, WORKERS = "producers", "workers"


class Client:
    """Something that asks the broker; an answer that does not come is no mistake here."""

    def __init__(self, stand: Stand, seed: int, number: int) -> None:
        self.stand = stand
        self.host = f"127.0.0.{21 + number}"
        self.rng = random.Random(f"{seed}/kinds client {number}")
        self.mq = Plain("127.0.0.1:9876", stand.world.ports(self.host))  # no routes are asked for

    def close(self) -> None:
        self.mq.close()

    async def drive(self, step: Callable[[], Awaitable[None]], pace_s: float, until: float = FOREVER) -> None:
        """Do something again and again, whatever breaks meanwhile."""
        while not self.stand.is_over and self.stand.now() < until:
            try:
                await step()
            except (OSError, Answered) as error:
                self.stand.world.trace.note(self.host, type(error).__name__)
            await self.stand.sleep(pace_s * (0.5 + self.rng.random()))

    async def pull(self, topic: str, queue_id: int, queue_offset: int) -> list[Seen]:
        flags = int(PullFlag.SUBSCRIPTION)
        request = LitePull(WORKERS, topic, queue_id, queue_offset, 32, flags, 0, 0, 0, "*", "TAG")
        answer = await self.mq.ask(ADDRESS, request, timeout_s=ANSWER_S_MAX)
        return decode(answer.body)


class Sender(Client):
    """Sends messages of all kinds; those of transactions through its producer's connection."""

    def __init__(self, stand: Stand, seed: int, number: int) -> None:
        super().__init__(stand, seed, number)
        ports = stand.world.ports(self.host)
        self.dialer = Dialer(ports.net, ports.clock, self._asked)

    def close(self) -> None:
        super().close()
        self.dialer.close()

    async def send(self) -> None:
        """Send one message; of any kind, to any queue."""
        rng, stand = self.rng, self.stand
        topic = rng.choice((MIXED, MIXED, HARD))
        kind = rng.choice(("plain", "level", "span", "moment"))
        wait = Wait()
        if kind == "level":
            wait = Wait(level=rng.randrange(1, len(LEVELS_MS) + 1))
        elif kind == "span":
            wait = Wait(delay_ms=rng.choice((1, 700, 1_000, 3_500, 9_000)))
        elif kind == "moment":
            wait = Wait(deliver_ms=stand.walls.at(stand.now()) + rng.choice((-500, 500, 2_000, 8_000)))
        intent = rng.choice((Intent.DIRECT, Intent.DIRECT, Intent.DIRECT, *DECISIONS))
        letter = stand.diary.begin(topic, rng.randrange(QUEUES[topic]), wait, intent, stand.now())
        life = stand.life
        answer = await self.dialer.call(ADDRESS, self._request(letter), ANSWER_S_MAX, letter.body)
        if answer.code != Code.SUCCESS:
            raise Answered(answer.code, answer.remark)
        # With ASYNC flush an answer that outlived the machine promises nothing.
        if stand.life == life or stand.plan.flush_mode is FlushMode.SYNC:
            stand.diary.stored(letter, stand.now())
        if intent is not Intent.DIRECT:
            await self._end(letter, Sent.decode(answer.ext))

    def _request(self, letter: Letter) -> SendV2:
        pairs = {"UNIQ_KEY": f"{letter.number:032X}", "WAIT": "true"}
        if letter.intent is not Intent.DIRECT:
            pairs |= {"TRAN_MSG": "true", "PGROUP": PRODUCERS}
        names = ("DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
        pairs |= {name: str(value) for name, value in zip(names, letter.wait, strict=True) if value}
        now_ms = self.stand.walls.at(self.stand.now())
        flag = 4 if letter.intent is not Intent.DIRECT else 0
        text = format_properties(pairs)
        return SendV2(PRODUCERS, letter.topic, "TBW102", 2, letter.queue_id, flag, now_ms, 0, text)

    async def _end(self, letter: Letter, sent: Sent) -> None:
        """Decide at once, after a while, twice, or wait to be asked."""
        way = self.rng.choice(("now", "later", "twice", "asked"))
        if way == "asked" or letter.intent is Intent.SILENCE:
            return
        if way == "later":
            await self.stand.sleep(self.rng.random() * 6)
        place, key = int(sent.msg_id[-16:], 16), sent.transaction_id or ""
        decision = self._decide(letter)
        request = EndTransaction(PRODUCERS, sent.queue_offset, place, decision, key)
        for _ in range(2 if way == "twice" else 1):
            await self.dialer.call(ADDRESS, request, ANSWER_S_MAX)

    def _decide(self, letter: Letter) -> int:
        if letter.intent is Intent.COMMIT:
            self.stand.diary.deciding(letter, self.stand.now())
        return DECISIONS[letter.intent]

    async def heartbeat(self) -> None:
        body = {"clientID": self.host, "consumerDataSet": [], "producerDataSet": [{"groupName": PRODUCERS}]}
        await self.dialer.call(ADDRESS, Heartbeat(), ANSWER_S_MAX, msgspec.json.encode(body))

    def _asked(self, call: Call) -> None:
        """Answer a question about a half; sometimes one does not know yet."""
        if call.frame.code != row_of(CheckTransaction).code:
            return
        asked = CheckTransaction.decode(call.frame.ext)
        letter = self.stand.diary.letters[bytes(record.decode(call.frame.body).body)]
        if letter.intent is Intent.DIRECT:
            raise Wrong(f"{letter} is no half, and somebody was asked about it")
        decision = UNKNOWN if self.rng.random() < 0.3 else self._decide(letter)
        place = (asked.tran_state_table_offset, asked.commit_log_offset)
        request = EndTransaction(PRODUCERS, *place, decision, asked.msg_id or "", from_transaction_check=True)
        call.link.send_one_way(request)


class Reader(Client):
    """Reads every queue to its end, from the beginning after each crash, and hands back what is hard."""

    def __init__(self, stand: Stand, seed: int, number: int) -> None:
        super().__init__(stand, seed, number)
        self._life = 0
        self._offsets: dict[tuple[str, int], int] = {}

    async def look(self) -> None:
        """Read on in each queue."""
        if self._life != self.stand.life:
            self._life = self.stand.life
            self._offsets.clear()
        for topic, queues in QUEUES.items():
            for queue_id in range(queues):
                await self._look_at(topic, queue_id)

    async def _look_at(self, topic: str, queue_id: int) -> None:
        stand, life = self.stand, self.stand.life
        at = self._offsets.get((topic, queue_id), 0)
        try:
            messages = await self.pull(topic, queue_id, at)
        except Answered as no:
            if no.code in (Code.PULL_NOT_FOUND, Code.PULL_OFFSET_MOVED, Code.TOPIC_NOT_EXIST):
                return
            raise
        for seen in messages:
            if stand.life != life:
                return
            stand.diary.seen(seen, stand.now())
            if topic in (HARD, RETRY):
                await self._hand_back(seen)
            self._offsets[topic, queue_id] = seen.queue_offset + 1

    async def _hand_back(self, seen: Seen) -> None:
        diary, life = self.stand.diary, self.stand.life
        letter = diary.letters[seen.body]
        known = letter.turns.get(seen.times)
        if known is not None and known.firm_since < FOREVER:
            return
        turn = diary.handing_back(seen, self.stand.now())
        level = -1 if letter.is_hopeless else 0
        request = SendBack(seen.log_offset, WORKERS, level, max_reconsume_times=TIMES_MAX)
        await self.mq.ask(ADDRESS, request, timeout_s=ANSWER_S_MAX)
        if self.stand.life == life:
            diary.handed_back(turn, self.stand.now())


class Holder(Client):
    """Locks queues for a consumer of its own."""

    async def lock(self) -> None:
        """Lock a queue, and perhaps give it back."""
        stand, queue_id = self.stand, self.rng.randrange(QUEUES[MIXED])
        key, life, asked_at = (WORKERS, MIXED, queue_id), stand.life, stand.now()
        queue = {"brokerName": NAME, "queueId": queue_id, "topic": MIXED}
        body = msgspec.json.encode({"clientId": self.host, "consumerGroup": "holders", "mqSet": [queue]})
        answer = await self.mq.ask(ADDRESS, LockQueues(), body, ANSWER_S_MAX)
        if stand.life != life or not msgspec.json.decode(answer.body)["lockOKMQSet"]:
            return
        stand.locks.locked(key, self.host, asked_at, LOCK_LIVE_MS / 1000, stand.now())
        if self.rng.random() < 0.5:
            await stand.sleep(self.rng.random())
            stand.locks.unlocked(key, self.host)
            await self.mq.ask(ADDRESS, UnlockQueues(), body, ANSWER_S_MAX)
