"""END_TRANSACTION (37): find the half, check who asks, decide once.

    ends that came together ─▶ their halves in few reads ─▶ checks ─▶ desk ─▶ answers     `end_run`
    one that must wait (for the ledger, the disk, another decision) ─▶ the same, as a task  `end`

Whoever comes first decides, and saying it again changes nothing. What is stored, and with what else, is
the desk's affair. Reference: EndTransactionProcessor, 5.5.0.
"""

from __future__ import annotations

import asyncio
import struct
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from roquet.broker.core.pipeline import Pipeline
from roquet.broker.core.redraft import Stored, reopen
from roquet.broker.features.transaction import reading, shapes
from roquet.broker.features.transaction.checking import Checks
from roquet.broker.features.transaction.desk import Desk
from roquet.broker.features.transaction.halves import Half, Halves
from roquet.model.message import Draft
from roquet.model.names import HALF_TOPIC
from roquet.model.status import Appended, PutStatus
from roquet.transport.link import Call, Link
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.reply import NOTHING, OK, Outcome, Refusal, Reply
from roquet.wire.requests.transaction import EndHalves, EndTransaction
from roquet.wire.row import FieldError

RUN_COUNT_MAX: Final = 64
"""Ends that are taken together."""

ENDINGS_MAX: Final = 10_000
"""Ends that may wait for the disk; more take the long way, which has a bound and words for it."""

HALF_BYTES_HOT: Final = 4 * 1024
"""More is asked of the store for no single half: the first record comes whole, however large it is."""

MANY_MAX: Final = 16_384
"""Halves that one request may end."""

MANY_AT_ONCE: Final = 256
"""Of them, what is done before others have their turn: some two milliseconds."""

_PLACE: Final = struct.Struct(">qq")

_DECISIONS: Final = (shapes.COMMIT, shapes.ROLLBACK)

_CODES: Final = {
    PutStatus.SERVICE_NOT_AVAILABLE: Code.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: Code.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: Code.MESSAGE_ILLEGAL,
}


class Term(NamedTuple):
    """The work of a master, from one election to the next."""

    halves: Halves
    desk: Desk
    checks: Checks


class Ends:
    """Takes the ends of one broker."""

    def __init__(
        self,
        store: reading.Queues,
        pipeline: Pipeline,
        term: Callable[[], Term | None],
        current_term: Callable[[], Awaitable[Term]],
        terms: Callable[[], reading.Terms],
    ) -> None:
        """`term` is the ledger's, None while there is none; `current_term` waits for it or raises Refusal."""
        self._store = store
        self._pipeline = pipeline
        self._term = term
        self._current_term = current_term
        self._terms = terms

    def end_run(self, link: Link, frames: list[Frame], start: int) -> int:
        """Take ends that came together, up to the first that has to wait for something; return how many."""
        term = self._term()
        if term is None or term.desk.endings >= ENDINGS_MAX:
            return 0
        some = frames[start : start + RUN_COUNT_MAX]
        offsets = [_offset_of(frame) for frame in some]
        found = self._hot_halves(offsets)
        now = self._terms()
        for number, frame in enumerate(some):
            stored = found.pop(offsets[number], None)
            if stored is None or not self._end_now(term, link, frame, stored, now):
                return number
        return len(some)

    async def end(self, request: EndTransaction, call: Call) -> Outcome:
        """Commit or roll back, waiting for whatever that takes."""
        decision = request.commit_or_rollback
        if decision not in _DECISIONS:
            return NOTHING
        term = await self._current_term()
        stored = await self._half(request)
        half = self._undecided(term, request, stored, self._terms())
        while half is not None and half.is_busy:
            await term.desk.changed()
            half = term.halves.find(stored.queue_offset)
        if half is None:
            return _repeated(term.halves.decision(stored.queue_offset), decision)
        messages = self._messages(half, decision, stored)
        if self._term() is not term:
            raise not_master()
        return answer(await term.desk.ended(half, decision, messages))

    async def end_many(self, request: EndHalves, call: Call) -> Outcome:
        """Commit or roll back halves in their order; answers with the first reason why one was not."""
        places = _places(call.frame.body)
        if not places:
            return OK
        if request.commit_or_rollback not in _DECISIONS:
            raise Refusal(Code.SYSTEM_ERROR, f"{request.commit_or_rollback} is neither commit nor rollback")
        failures: list[Reply] = []
        for start in range(0, len(places), MANY_AT_ONCE):
            term = await self._current_term()
            some = [
                EndTransaction(request.producer_group, *place, request.commit_or_rollback, "", None, True)
                for place in places[start : start + MANY_AT_ONCE]
            ]
            for outcome in await self._end_some(term, some, call):
                if isinstance(outcome, Reply) and outcome.code != Code.SUCCESS:
                    failures.append(outcome)
        if not failures:
            return OK
        remark = (
            f"{len(failures)} of {len(places)} halves are not ended, the first since {failures[0].remark}"
        )
        return Reply(failures[0].code, remark=remark)

    async def _end_some(
        self, term: Term, requests: Sequence[EndTransaction], call: Call
    ) -> Sequence[Outcome]:
        """End halves together, those that must wait for something after the others."""
        outcomes: list[Outcome | None] = [None] * len(requests)
        waiting: list[asyncio.Future[Appended]] = []
        found = self._hot_halves([request.tran_state_table_offset for request in requests])
        now = self._terms()
        for number, request in enumerate(requests):
            stored = found.pop(request.tran_state_table_offset, None)
            if stored is None or stored.log_offset != request.commit_log_offset:
                continue
            try:
                half = self._undecided(term, request, stored, now)
                if half is None:
                    first = term.halves.decision(stored.queue_offset)
                    outcomes[number] = _repeated(first, request.commit_or_rollback)
                elif not half.is_busy:
                    outcome = asyncio.get_running_loop().create_future()
                    messages = self._messages(half, request.commit_or_rollback, stored)
                    term.desk.end(half, request.commit_or_rollback, messages, _teller(outcome))
                    waiting.append(outcome)
                    outcomes[number] = OK
            except Refusal as refusal:
                outcomes[number] = refusal.reply
        ended = [answer(await each) for each in waiting]
        late = [await self._answered(requests[n], call) for n, each in enumerate(outcomes) if each is None]
        return [*ended, *late, *(each for each in outcomes if each is not None)]

    async def _answered(self, request: EndTransaction, call: Call) -> Outcome:
        try:
            return await self.end(request, call)
        except Refusal as refusal:
            return refusal.reply

    def _end_now(self, term: Term, link: Link, frame: Frame, stored: Stored, now: reading.Terms) -> bool:
        """Take one end whose half is at hand; False when it goes the long way."""
        try:
            request = EndTransaction.decode(frame.ext)
        except FieldError:
            return False
        decision = request.commit_or_rollback
        if decision not in _DECISIONS or stored.log_offset != request.commit_log_offset:
            return False
        try:
            half = self._undecided(term, request, stored, now)
            if half is None:
                link.send_reply(frame, _repeated(term.halves.decision(stored.queue_offset), decision))
                return True
            if half.is_busy:
                return False
            messages = self._messages(half, decision, stored)
        except Refusal as refusal:
            link.send_reply(frame, refusal.reply)
            return True
        term.desk.end(half, decision, messages, lambda result: link.send_reply(frame, answer(result)))
        return True

    def _hot_halves(self, offsets: Sequence[int]) -> dict[int, Stored]:
        """Return the halves at these queue offsets that need no wait: most are ended within moments."""
        found: dict[int, Stored] = {}
        wanted = set(offsets)
        wanted.discard(-1)
        left = sorted(wanted)
        at = 0
        while at < len(left):
            first = left[at]
            last = left[bisect_left(left, first + reading.READ_COUNT, at) - 1]
            got = self._store.read_hot(HALF_TOPIC, 0, first, last - first + 1, reading.READ_BYTES)
            for data in () if got is None else got.records:
                if int.from_bytes(data[20:28], "big") in wanted:
                    stored = reopen(data)
                    found[stored.queue_offset] = stored
            at = bisect_left(left, first + 1 if got is None else max(got.next_offset, first + 1), at)
        return found

    async def _half(self, request: EndTransaction) -> Stored:
        """Return the half that a request names; raises Refusal."""
        got = self._store.read_hot(HALF_TOPIC, 0, request.tran_state_table_offset, 1, HALF_BYTES_HOT)
        if got is not None and got.records:
            stored = reopen(got.records[0])
            if stored.log_offset == request.commit_log_offset:
                return stored
        data = await self._store.record_at(request.commit_log_offset)
        if data is None:
            raise Refusal(Code.SYSTEM_ERROR, "Find prepared transaction message failed")
        stored = reopen(data)
        if stored.draft.topic != HALF_TOPIC or stored.draft.queue_id != 0:
            # Without this, anybody could have any stored message stored again.
            raise Refusal(Code.SYSTEM_ERROR, f"no half message lies at {request.commit_log_offset}")
        return stored

    def _undecided(
        self, term: Term, request: EndTransaction, stored: Stored, now: reading.Terms
    ) -> Half | None:
        """Return the half that a request is about, None when it is decided; raises Refusal."""
        _check(request, stored, now)
        halves = term.halves
        if halves.is_unread(stored.queue_offset):
            halves.add(reading.half_of(stored, now))
        return halves.find(stored.queue_offset)

    def _messages(self, half: Half, decision: int, stored: Stored) -> tuple[Draft, ...]:
        """Return what a decision stores besides its op record. Uses the properties up."""
        if decision != shapes.COMMIT:
            return ()
        draft = shapes.commit(stored.draft, stored.properties, half.log_offset)
        ready = self._pipeline.prepare(draft, stored.properties).draft
        return (ready if ready is draft else shapes.parked(ready),)


def _places(body: bytes) -> list[tuple[int, int]]:
    """Return queue offset and log offset of each half that a request names; raises Refusal."""
    if len(body) % _PLACE.size or len(body) > MANY_MAX * _PLACE.size:
        what = f"{len(body)} bytes are not places of at most {MANY_MAX} halves, {_PLACE.size} bytes each"
        raise Refusal(Code.SYSTEM_ERROR, what)
    return [(queue_offset, log_offset) for queue_offset, log_offset in _PLACE.iter_unpack(body)]


def _teller(outcome: asyncio.Future[Appended]) -> Callable[[Appended], None]:
    def tell(result: Appended) -> None:
        if not outcome.done():
            outcome.set_result(result)

    return tell


def _offset_of(frame: Frame) -> int:
    """Return the queue offset that an end names; -1 when it takes more than a glance to say."""
    text = frame.ext.get("tranStateTableOffset", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else -1


def _check(request: EndTransaction, stored: Stored, now: reading.Terms) -> None:
    """Raise Refusal unless the request is about this half and comes from its group, in time."""
    properties: Mapping[str, str] = stored.properties
    if properties.get(shapes.IMMUNITY) and not request.from_transaction_check:
        age_ms = now.now_ms - stored.draft.born_ms
        allowed_ms = shapes.immunity_ms(properties, now.timeout_ms)
        if age_ms > allowed_ms:
            remark = f"the end came {age_ms} ms after the send, later than the {allowed_ms} ms that its "
            raise Refusal(Code.ILLEGAL_OPERATION, remark + f"{shapes.IMMUNITY} allows; wait to be asked")
    if properties.get(shapes.GROUP) != request.producer_group:
        raise Refusal(Code.SYSTEM_ERROR, "The producer group wrong")
    if stored.queue_offset != request.tran_state_table_offset:
        raise Refusal(Code.SYSTEM_ERROR, "The transaction state table offset wrong")
    if shapes.is_torn(properties):
        raise Refusal(Code.SYSTEM_ERROR, "the half is damaged: it does not say where it shall go")


def not_master() -> Refusal:
    remark = "this broker is no master now: end the transaction on the master"
    return Refusal(Code.SLAVE_NOT_AVAILABLE, remark)


def _repeated(first: int | None, second: int) -> Reply:
    """Return the answer to an end of what is decided: fine, unless it contradicts the first decision."""
    if first is None or first == second:
        return Reply(remark="the transaction was ended before; nothing changes")
    names = {shapes.COMMIT: "committed", shapes.ROLLBACK: "rolled back"}
    was = names.get(first, "given up after too many checks")
    return Reply(Code.SYSTEM_ERROR, remark=f"the transaction was {was} before; that stays")


def answer(result: Appended) -> Reply:
    """Return what a producer is told once its decision is stored, or is not."""
    if result.log_offsets:
        return OK
    code = _CODES.get(result.status, Code.SYSTEM_ERROR)
    return Reply(code, remark=f"{result.reason}; the transaction stays open and will be asked about")
