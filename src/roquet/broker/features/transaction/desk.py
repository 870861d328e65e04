"""Where decisions about halves are written down: every append of the feature happens here.

    commits, roll-backs, give-ups of one turn ─▶ [message, message, …, op] ─▶ one append ─▶ ledger closed
    halves that are asked about ───────────────▶ [half, half, …, op for the old ones] ──▶ ledger moved

The op record lies in the same append as the messages that it speaks of, behind them: a crash leaves both,
or the message without the op (which the next start sees), or neither; never an op without its message.
The ledger changes when the store says done, whether or not anybody still waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from roquet.broker.core.pipeline import Log
from roquet.broker.features.transaction import shapes
from roquet.broker.features.transaction.halves import Half, Halves
from roquet.model.message import Draft, Host
from roquet.model.status import Appended, PutStatus
from roquet.ports import Clock

GIVEN_UP: Final = 0
"""The decision about a half that nobody decided; the others are those of END_TRANSACTION."""

APPEND_COUNT_MAX: Final = 64
APPEND_BYTES_MAX: Final = 64 * 1024
"""Bodies in one append: far less than a log file, which an append never leaves."""

_ILLEGAL: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


class PutCounter(Protocol):
    """What is counted of committed messages."""

    def put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None: ...


Told = Callable[[Appended], None]


class Ending(NamedTuple):
    """One decision: the half, how it ends, the messages that this stores (one, or none), who is told."""

    half: Half
    decision: int
    messages: tuple[Draft, ...]
    told: Told


class Moving(NamedTuple):
    """A half that is stored again."""

    half: Half
    draft: Draft


class Desk:
    """Writes for one ledger, as long as the broker is master."""

    def __init__(self, halves: Halves, log: Log, stats: PutCounter, clock: Clock, host: Host) -> None:
        self._halves = halves
        self._log = log
        self._stats = stats
        self._clock = clock
        self._host = host
        self.endings = 0
        """Decisions that are not written down yet."""
        self._waiting: list[Ending] = []
        self._under_way = 0
        self._changed = asyncio.Event()

    def end(self, half: Half, decision: int, messages: tuple[Draft, ...], told: Told) -> None:
        """Write a decision down together with the others of this turn; the half must not be busy."""
        assert not half.is_busy
        half.is_busy = True
        self._waiting.append(Ending(half, decision, messages, told))
        self.endings += 1
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._end_turn)

    async def ended(self, half: Half, decision: int, messages: tuple[Draft, ...]) -> Appended:
        """The same, waiting for what comes of it."""
        outcome: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self.end(half, decision, messages, lambda result: _tell(outcome, result))
        return await outcome

    async def move(self, movings: Sequence[Moving]) -> Appended:
        """Store halves again, all or none."""
        outcome: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        old = [moving.half.queue_offset for moving in movings]
        for moving in movings:
            assert not moving.half.is_busy
            moving.half.is_busy = True

        def done(result: Appended) -> None:
            now = self._clock.monotonic()
            if result.log_offsets:
                self._halves.op_stored(old)
            for number, moving in enumerate(movings):
                moving.half.is_busy = False
                if result.log_offsets:
                    # All lie in one queue, one behind the other.
                    place = result.log_offsets[number]
                    self._halves.move(moving.half, result.queue_offset + number, place, now)
            _tell(outcome, result)

        self._append([*(moving.draft for moving in movings), self._op(old)], done)
        return await outcome

    async def mend(self, half_queue_offsets: Sequence[int]) -> Appended:
        """Write the op record that a crash has left out."""
        outcome: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

        def done(result: Appended) -> None:
            if result.log_offsets:
                self._halves.op_stored(half_queue_offsets)
            _tell(outcome, result)

        self._append([self._op(half_queue_offsets)], done)
        return await outcome

    async def changed(self) -> None:
        """Wait until some append has ended."""
        await self._changed.wait()

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        while self._waiting or self._under_way:
            await self._changed.wait()

    def _end_turn(self) -> None:
        waiting, self._waiting = self._waiting, []
        batch: list[Ending] = []
        size = 0
        for ending in waiting:
            more = sum(len(message.body) for message in ending.messages)
            if batch and (len(batch) >= APPEND_COUNT_MAX or size + more > APPEND_BYTES_MAX):
                self._write(batch)
                batch, size = [], 0
            batch.append(ending)
            size += more
        self._write(batch)

    def _write(self, batch: list[Ending]) -> None:
        messages = [message for ending in batch for message in ending.messages]
        offsets = [ending.half.queue_offset for ending in batch]

        def done(result: Appended) -> None:
            if not result.log_offsets and len(batch) > 1 and result.status in _ILLEGAL:
                for ending in batch:  # one of them cannot be stored; the others need not suffer
                    self._write([ending])
                return
            if result.log_offsets:
                self._halves.op_stored(offsets)
                self._count(messages, result)
            self.endings -= len(batch)
            for ending in batch:
                ending.half.is_busy = False
                if result.log_offsets:
                    self._halves.close(ending.half, ending.decision)
                ending.told(result)

        self._append([*messages, self._op(offsets)], done)

    def _op(self, half_queue_offsets: Sequence[int]) -> Draft:
        return shapes.op(half_queue_offsets, self._clock.now_ms(), self._host)

    def _append(self, drafts: Sequence[Draft], done: Callable[[Appended], None]) -> None:
        self._under_way += 1

        def ended(result: Appended) -> None:
            self._under_way -= 1
            done(result)
            self._changed.set()
            self._changed = asyncio.Event()

        self._log.append(drafts, ended)

    def _count(self, messages: Sequence[Draft], result: Appended) -> None:
        for number, message in enumerate(messages):
            # The op record is the last one, so each message has one behind it.
            size = result.log_offsets[number + 1] - result.log_offsets[number]
            self._stats.put(message.topic, message.queue_id, 1, size)


def _tell(outcome: asyncio.Future[Appended], result: Appended) -> None:
    if not outcome.done():
        outcome.set_result(result)
