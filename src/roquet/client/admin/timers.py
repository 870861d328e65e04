"""Messages that wait for their time: how many, which ones, and taking one back.

    delay level ─▶ SCHEDULE_TOPIC_XXXX, queue level − 1, from the offset that 45 tells on
    own time    ─▶ rmq_sys_wheel_timer, queue 0: everything whose TIMER_OUT_MS lies ahead and that no
                   marker (TIMER_DEL_UNIQKEY) cancels; a message that was filed again counts once

Both are ordinary queues, so pending messages are listed by reading them; with very many that takes its
time. Codes 45, 60, 61, 370.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from roquet.client.admin.answered import BadAnswer, head, read
from roquet.client.admin.reach import NOT_SUPPORTED, Reach
from roquet.client.admin.reading import Queues
from roquet.client.admin.revival import GROUP
from roquet.client.errors import NotFound, Refused
from roquet.client.message import Message
from roquet.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from roquet.model.route import QueueName
from roquet.store.format.timer_check import BODY_BYTES, TimerCheck, decode_check
from roquet.wire.bodies import answers
from roquet.wire.requests import replica as rows
from roquet.wire.requests.timer import Recall, Recalled

CANCELS: Final = "TIMER_DEL_UNIQKEY"
OUT: Final = "TIMER_OUT_MS"


class Pending(NamedTuple):
    """A message that waits. `level` is 0 for one with a time of its own, whose time is then `due`."""

    message: Message
    topic: str
    message_id: str
    level: int
    due: datetime | None


class Timers:
    """Looks at messages that wait for their time."""

    def __init__(self, reach: Reach, queues: Queues) -> None:
        self._reach = reach
        self._queues = queues

    async def counts(self, broker: str) -> dict[str, int]:
        """Return how many messages with a time of their own wait at a broker, by topic."""
        return read(answers.decode_timer_counts, await self._reach.ask(broker, rows.GetTimerMetrics()))

    async def check(self, broker: str) -> TimerCheck:
        """Return how far the timer of a broker is: the numbers of its checkpoint."""
        answer = await self._reach.ask(broker, rows.GetTimerCheck())
        if len(answer.body) < BODY_BYTES:
            raise BadAnswer(f"{broker} sent {len(answer.body)} bytes of a checkpoint, not {BODY_BYTES}")
        return decode_check(bytes(answer.body))[0]

    async def level_offsets(self, broker: str) -> dict[int, int]:
        """Return up to where each delay level is delivered."""
        answer = await self._reach.ask(broker, rows.GetDelayOffsets())
        return read(lambda body: answers.by_number(answers.members(body).get("offsetTable")), answer)

    async def pending(self, topic: str = "", *, broker: str = "") -> AsyncIterator[Pending]:
        """Yield what waits, of one topic or of all, at one broker or at all."""
        for name, address in (await self._reach.masters(broker=broker)).items():
            async for each in self._at_levels(name, address):
                if topic in ("", each.topic):
                    yield each
            async for each in self._at_times(name, address):
                if topic in ("", each.topic):
                    yield each

    async def _at_levels(self, broker: str, address: str) -> AsyncIterator[Pending]:
        delivered = await self.level_offsets(address)
        for level in sorted(delivered.keys() | set(range(1, 19))):
            queue = QueueName(broker, level - 1, SCHEDULE_TOPIC)
            async for message in self._queues.messages(address, queue, delivered.get(level, 0)):
                yield Pending(
                    message, message.properties.get("REAL_TOPIC", ""), message.message_id, level, None
                )

    async def _at_times(self, broker: str, address: str) -> AsyncIterator[Pending]:
        queue = QueueName(broker, 0, TIMER_TOPIC)
        now_ms = self._reach.cluster.ports.clock.now_ms()
        waiting: dict[tuple[str, str], Pending] = {}
        try:
            async for message in self._queues.messages(address, queue):
                _note(waiting, message, now_ms)
        except (NotFound, Refused) as error:
            if isinstance(error, NotFound) or error.code in NOT_SUPPORTED:
                return  # a broker before 5.0 has no timer
            raise
        for each in sorted(waiting.values(), key=lambda each: (each.due, each.message_id)):
            yield each

    async def recall(self, topic: str, handle: str, *, broker: str = "") -> str:
        """Take back a message by the handle that its send was answered with; returns its id.

        Without a broker each one of the topic is asked: only the one that keeps it agrees.
        """
        request = Recall(topic, handle, GROUP)
        if broker:
            masters = await self._reach.masters(broker=broker)
        else:
            masters = await self._reach.masters_of(topic)
        refused: Refused | None = None
        for address in masters.values():
            try:
                return head(await self._reach.cluster.ask(address, request), Recalled).msg_id
            except Refused as error:
                refused = refused or error
        assert refused is not None
        raise refused


def _note(waiting: dict[tuple[str, str], Pending], message: Message, now_ms: int) -> None:
    """Take one record of the timer's queue into account, in the order of the queue."""
    properties = message.properties
    topic, out_text = properties.get("REAL_TOPIC", ""), properties.get(OUT, "")
    cancelled = properties.get(CANCELS)
    if cancelled:
        waiting.pop((topic, cancelled.removeprefix(f"{topic}+")), None)
    elif out_text.isdecimal() and int(out_text) > now_ms:
        due = datetime.fromtimestamp(int(out_text) / 1000, UTC)
        waiting[topic, message.message_id] = Pending(message, topic, message.message_id, 0, due)
