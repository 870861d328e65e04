"""Transactions: halves go in, their producers decide, messages come out; the wiring of the feature.

    send with TRAN_MSG ─▶ before_append ─▶ half topic, which no consumer of a user's topic reads
    37 commit, rollback ─▶ checks ─▶ desk (message and op record in one append) ─▶ answer
    every second ─▶ ledger reads on, saves its offsets        every interval ─▶ `checking` asks producers (39)

The ledger lives as long as the broker is master and is built from the two queues each time. Reference:
EndTransactionProcessor and TransactionalMessageServiceImpl, 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from roquet.broker.core.offsets import Offsets
from roquet.broker.core.pipeline import Pipeline, Rewrite
from roquet.broker.core.redraft import draft_of
from roquet.broker.core.sessions import Sessions
from roquet.broker.core.table_hook import TableHook
from roquet.broker.core.topics import Topics
from roquet.broker.features.transaction import reading, shapes
from roquet.broker.features.transaction.checking import CheckRules, Checks
from roquet.broker.features.transaction.desk import Desk, PutCounter
from roquet.broker.features.transaction.halves import Half, Halves, Progress
from roquet.broker.features.transaction.metrics import Metrics
from roquet.model.ids import parse_offset_id
from roquet.model.message import Draft, Entry, Host, parse_properties
from roquet.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TOPIC
from roquet.model.status import Appended, Got, PutStatus
from roquet.ports import Clock
from roquet.store.format.record import Record, decode
from roquet.store.logscan import Stretch
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.codes import Code
from roquet.wire.reply import NOTHING, OK, Outcome, Refusal, Reply
from roquet.wire.requests.transaction import EndTransaction, ResumeCheck
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker")

GROUP: Final = "CID_RMQ_SYS_TRANS"

STEP_SECONDS: Final = 1.0
YOUNG_SECONDS: Final = 2.0
"""Halves are left unread for so long: nearly all are ended by then."""

COMMITS_SEEN_MAX: Final = 20_000
"""Commits remembered while the log is recovered: more than lie between a message and its op record."""

_CODES: Final = {
    PutStatus.SERVICE_NOT_AVAILABLE: Code.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: Code.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: Code.MESSAGE_ILLEGAL,
}


HALF_BYTES_HOT: Final = 4 * 1024
"""More is asked of the store for no half: the first record comes whole, however large it is."""


class LogStore(reading.Queues, Protocol):
    """What the feature needs of the store besides reading."""

    @property
    def log_max_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int: ...

    def read_hot(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int, max_bytes: int
    ) -> Got | None: ...


class Rules(NamedTuple):
    """The settings of transactions."""

    is_rejected: bool
    timeout_ms: int
    check: CheckRules


class _Term(NamedTuple):
    """The work of a master, from one election to the next."""

    halves: Halves
    desk: Desk
    checks: Checks


class Transaction:
    """Half messages of one broker."""

    def __init__(
        self,
        clock: Clock,
        store: LogStore,
        pipeline: Pipeline,
        topics: Topics,
        offsets: Offsets,
        sessions: Sessions,
        stats: PutCounter,
        store_host: Host,
        rules: Callable[[], Rules],
    ) -> None:
        self._clock = clock
        self._store = store
        self._pipeline = pipeline
        self._topics = topics
        self._offsets = offsets
        self._sessions = sessions
        self._stats = stats
        self._host = store_host
        self._rules = rules
        self._metrics = Metrics(clock.now_ms)
        self._commits_seen: deque[tuple[int, str]] = deque(maxlen=COMMITS_SEEN_MAX)
        self._is_master = False
        self._term: _Term | None = None
        self._turned = asyncio.Event()
        """Set when the ledger is there, or will not come."""

    # hooks

    def routes(self) -> dict[type[Header], Handler]:
        return {EndTransaction: self.end, ResumeCheck: self.resume}

    def tables(self) -> Sequence[TableHook]:
        return (self._metrics.hook(),)

    marks = frozenset({shapes.PREPARED})

    def before_append(self, draft: Draft, properties: Mapping[str, str]) -> Draft | Rewrite:
        """Turn what opens a transaction into a half; raises Refusal where transactions are not taken."""
        if shapes.PREPARED not in properties or not shapes.is_half(draft, properties):
            return draft
        if self._rules().is_rejected:
            name = self._topics.identity.broker_name
            raise Refusal(
                Code.NO_PERMISSION,
                f"the broker[{name}] sending transaction message is forbidden: rejectTransactionMessage=true",
            )
        return shapes.half(draft, properties)

    def on_entries(self, entries: Sequence[Entry]) -> None:
        """Remember committed messages, while another wrote them: this broker before a crash, or a master."""
        if self._is_master:
            return
        if isinstance(entries, Stretch) and not entries.survey.sys_flags & shapes.COMMIT:
            return  # a start reads millions of records, and most logs have no transactions
        for entry in entries:
            if entry.sys_flag & shapes.BITS == shapes.COMMIT:
                properties = parse_properties(entry.properties.decode(errors="replace"))
                key = properties.get(shapes.UNIQUE_KEY, "")
                self._commits_seen.append((entry.prepared_log_offset, key))

    async def run(self) -> None:
        """Work as a master: build the ledger, then keep it and ask producers."""
        self._is_master = True
        try:
            self._term = await self._begin()
            self._turn()
            await self._work(self._term)
        finally:
            self._is_master = False
            term, self._term = self._term, None
            self._turn()
            if term is not None:
                await term.desk.drain()
                self._commit(term.halves.progress())

    # requests

    async def end(self, request: EndTransaction, call: Call) -> Outcome:
        """Commit or roll back; whoever comes first decides, and saying it again changes nothing."""
        decision = request.commit_or_rollback
        if decision not in (shapes.COMMIT, shapes.ROLLBACK):
            return NOTHING
        term = await self._current_term()
        record = await self._half_record(request)
        prepared, properties = draft_of(record)
        self._check_end(request, record, properties)
        half = self._find(term.halves, record, properties)
        while half is not None and half.is_busy:
            await term.desk.changed()
            half = self._find(term.halves, record, properties)
        if half is None:
            return _repeated(term.halves.decision(request.tran_state_table_offset), decision)
        if decision == shapes.COMMIT:
            draft, properties = shapes.commit(prepared, properties, half.log_offset)
            messages: tuple[Draft, ...] = (self._pipeline.prepare(draft, properties).draft,)
        else:
            messages = ()
        if self._term is not term:
            raise _not_master()
        return _answer(await term.desk.end(half, decision, messages))

    async def resume(self, request: ResumeCheck, call: Call) -> Outcome:
        """Make a half again of what was given up, as if nobody had been asked."""
        try:
            _, log_offset = parse_offset_id(request.msg_id or "")
        except ValueError as error:
            raise Refusal(Code.SYSTEM_ERROR, str(error)) from None
        data = await self._store.record_at(log_offset)
        record = None if data is None else decode(data)
        if record is None or record.topic != TRANS_CHECK_MAX_TOPIC:
            raise Refusal(
                Code.SYSTEM_ERROR, f"{request.msg_id} is no message of {TRANS_CHECK_MAX_TOPIC} on this broker"
            )
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._pipeline.append((shapes.resumed(record),), future.set_result)
        return _answer(await future)

    async def _current_term(self) -> _Term:
        """Return the ledger's term, waiting for it after a start; raises Refusal on a slave."""
        if self._is_master and self._term is None:
            await self._turned.wait()
        if self._term is None:
            raise _not_master()
        return self._term

    async def _half_record(self, request: EndTransaction) -> Record:
        # Most halves are ended within moments: the queue leads to them without a wait, and in one read.
        got = self._store.read_hot(HALF_TOPIC, 0, request.tran_state_table_offset, 1, HALF_BYTES_HOT)
        if got is not None and got.records:
            record = decode(got.records[0])
            if record.log_offset == request.commit_log_offset:
                return record
        data = await self._store.record_at(request.commit_log_offset)
        if data is None:
            raise Refusal(Code.SYSTEM_ERROR, "Find prepared transaction message failed")
        record = decode(data)
        if record.topic != HALF_TOPIC or record.queue_id != 0:
            # Without this, anybody could have any stored message stored again.
            raise Refusal(Code.SYSTEM_ERROR, f"no half message lies at {request.commit_log_offset}")
        return record

    def _check_end(self, request: EndTransaction, record: Record, properties: Mapping[str, str]) -> None:
        """Raise Refusal unless the request is about this half and comes from its group, in time."""
        if properties.get(shapes.IMMUNITY) and not request.from_transaction_check:
            age_ms = self._clock.now_ms() - record.born_ms
            allowed_ms = shapes.immunity_ms(properties, self._rules().timeout_ms)
            if age_ms > allowed_ms:
                remark = f"the end came {age_ms} ms after the send, later than the {allowed_ms} ms that its "
                raise Refusal(Code.ILLEGAL_OPERATION, remark + f"{shapes.IMMUNITY} allows; wait to be asked")
        if properties.get(shapes.GROUP) != request.producer_group:
            raise Refusal(Code.SYSTEM_ERROR, "The producer group wrong")
        if record.queue_offset != request.tran_state_table_offset:
            raise Refusal(Code.SYSTEM_ERROR, "The transaction state table offset wrong")
        if shapes.is_torn(properties):
            raise Refusal(Code.SYSTEM_ERROR, "the half is damaged: it does not say where it shall go")

    def _find(self, halves: Halves, record: Record, properties: Mapping[str, str]) -> Half | None:
        """Return the undecided half of a record; None when it is decided."""
        if halves.is_unread(record.queue_offset):
            halves.add(reading.entry_of(record, properties, self._terms()))
        return halves.find(record.queue_offset)

    # the work of a master

    async def _begin(self) -> _Term:
        """Build the ledger; a disk that cannot be read now is tried again."""
        while True:
            try:
                loaded = await reading.load(
                    self._store,
                    self._offsets.query(GROUP, HALF_TOPIC, 0),
                    self._offsets.query(GROUP, OP_HALF_TOPIC, 0),
                    dict(self._commits_seen),
                    self._terms(),
                )
                break
            except OSError as error:
                log.error("the half messages cannot be read: %s; tried again", error)
                await self._clock.sleep_until(self._clock.monotonic() + STEP_SECONDS)
        self._commits_seen.clear()
        halves = loaded.halves
        desk = Desk(halves, self._pipeline, self._stats, self._clock, self._host)
        checks = Checks(
            halves,
            desk,
            self._store,
            self._sessions,
            self._topics,
            self._clock,
            self._host,
            lambda: self._rules().check,
        )
        if loaded.to_mend:
            log.info("%d half records were done before the start", len(loaded.to_mend))
            await desk.mend(loaded.to_mend)
        return _Term(halves, desk, checks)

    async def _work(self, term: _Term) -> None:
        clock = self._clock
        next_round = clock.monotonic() + self._rules().check.interval_ms / 1000
        seen: deque[tuple[float, int]] = deque()
        saving = _Saving(term.halves.progress(), self._store.log_max_offset)
        while True:
            await clock.sleep_until(clock.monotonic() + STEP_SECONDS)
            now = clock.monotonic()
            seen.append((now, self._store.max_offset(HALF_TOPIC, 0)))
            try:
                while seen and seen[0][0] <= now - YOUNG_SECONDS:
                    await reading.read_on(self._store, term.halves, seen.popleft()[1], self._terms)
                if now >= next_round:
                    next_round = now + self._rules().check.interval_ms / 1000
                    await term.checks.run_round()
            except OSError as error:
                log.error("half messages cannot be read: %s; the next round tries again", error)
            saving = self._save(term, saving)
            self._metrics.take(term.halves.counts())

    def _save(self, term: _Term, saving: _Saving) -> _Saving:
        """Put the offsets into the table of offsets once everything that they stand for is on disk.

        Until then a power cut could take a commit back, and its half must be found again.
        """
        if self._store.flushed_offset < saving.log_offset:
            return saving
        self._commit(saving.progress)
        return _Saving(term.halves.progress(), self._store.log_max_offset)

    def _commit(self, progress: Progress) -> None:
        """Put offsets into the table; asked each time whether they are still there: whoever moves those of
        this group by hand would lose transactions."""
        for topic, queue_offset in zip((HALF_TOPIC, OP_HALF_TOPIC), progress, strict=True):
            if (self._offsets.query(GROUP, topic, 0) or 0) != queue_offset:
                self._offsets.commit(GROUP, topic, 0, queue_offset)

    def _terms(self) -> reading.Terms:
        rules = self._rules()
        return reading.Terms(
            self._clock.monotonic(), self._clock.now_ms(), rules.timeout_ms, rules.check.interval_ms
        )

    def _turn(self) -> None:
        self._turned.set()
        self._turned = asyncio.Event()


class _Saving(NamedTuple):
    """Progress that may be saved once the log is on disk up to an offset."""

    progress: Progress
    log_offset: int


def _not_master() -> Refusal:
    remark = "this broker is no master now: end the transaction on the master"
    return Refusal(Code.SLAVE_NOT_AVAILABLE, remark)


def _repeated(first: int | None, second: int) -> Reply:
    """Return the answer to an end of what is decided: fine, unless it contradicts the first decision."""
    if first is None or first == second:
        return Reply(remark="the transaction was ended before; nothing changes")
    names = {shapes.COMMIT: "committed", shapes.ROLLBACK: "rolled back"}
    was = names.get(first, "given up after too many checks")
    return Reply(Code.SYSTEM_ERROR, remark=f"the transaction was {was} before; that stays")


def _answer(result: Appended) -> Reply:
    if result.log_offsets:
        return OK
    code = _CODES.get(result.status, Code.SYSTEM_ERROR)
    return Reply(code, remark=f"{result.reason}; the transaction stays open and will be asked about")
