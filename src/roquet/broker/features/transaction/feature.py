"""Transactions: halves go in, their producers decide, messages come out; the wiring of the feature.

    send with TRAN_MSG ─▶ before_append ─▶ half topic, which no consumer of a user's topic reads
    37 commit, rollback ─▶ `ending` ─▶ desk (message and op record in one append) ─▶ answer
    every second ─▶ ledger reads on, saves its offsets        every interval ─▶ `checking` asks producers (39)

The ledger lives as long as the broker is master and is built from the two queues each time. Reference:
TransactionalMessageServiceImpl, 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from roquet.broker.core.offsets import Offsets
from roquet.broker.core.pipeline import Pipeline, Rewrite
from roquet.broker.core.sessions import Sessions
from roquet.broker.core.table_hook import TableHook
from roquet.broker.core.topics import Topics
from roquet.broker.features.transaction import reading, shapes
from roquet.broker.features.transaction.checking import CheckRules, Checks
from roquet.broker.features.transaction.desk import Desk, PutCounter
from roquet.broker.features.transaction.ending import Ends, Term, answer, not_master
from roquet.broker.features.transaction.halves import Progress
from roquet.broker.features.transaction.metrics import Metrics
from roquet.model.ids import parse_offset_id
from roquet.model.message import Draft, Entry, Host, parse_properties
from roquet.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TOPIC
from roquet.ports import Clock
from roquet.store.format.record import decode
from roquet.store.logscan import Stretch
from roquet.transport.link import Call
from roquet.transport.router import Handler, RunHandler
from roquet.wire.codes import Code
from roquet.wire.reply import Outcome, Refusal, Reply
from roquet.wire.requests.transaction import EndHalves, EndTransaction, ResumeCheck
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker")

GROUP: Final = "CID_RMQ_SYS_TRANS"

STEP_SECONDS: Final = 1.0
YOUNG_SECONDS: Final = 2.0
"""Halves are left unread for so long: nearly all are ended by then."""

COMMITS_SEEN_MAX: Final = 20_000
"""Commits remembered while the log is recovered: more than lie between a message and its op record."""

RESUMED_MAX: Final = 10_000
"""Transactions remembered as resumed: a tool that asks twice must not make two of one."""


class LogStore(reading.Queues, Protocol):
    """What the feature needs of the store besides reading."""

    @property
    def log_max_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int: ...


class Rules(NamedTuple):
    """The settings of transactions."""

    timeout_ms: int
    check: CheckRules


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
        is_rejected: Callable[[], bool],
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
        self._is_rejected = is_rejected
        self._rules = rules
        self._metrics = Metrics(clock.now_ms)
        self._commits_seen: deque[tuple[int, str]] = deque(maxlen=COMMITS_SEEN_MAX)
        self._resumed: dict[int, None] = {}
        self._is_master = False
        self._term: Term | None = None
        self._turned = asyncio.Event()
        """Set when the ledger is there, or will not come."""
        self._ends = Ends(store, pipeline, lambda: self._term, self._current_term, self._terms)

    # hooks

    def routes(self) -> dict[type[Header], Handler]:
        return {
            EndTransaction: self._ends.end,
            EndHalves: self._ends.end_many,
            ResumeCheck: self.resume,
        }

    def runs(self) -> dict[type[Header], RunHandler]:
        return {EndTransaction: self._ends.end_run}

    def tables(self) -> Sequence[TableHook]:
        return (self._metrics.hook(),)

    marks = frozenset({shapes.PREPARED})

    def before_append(self, draft: Draft, properties: Mapping[str, str]) -> Draft | Rewrite:
        """Turn what opens a transaction into a half; raises Refusal where transactions are not taken."""
        if shapes.PREPARED not in properties or not shapes.is_half(draft, properties):
            return draft
        if self._is_rejected():
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
        if log_offset in self._resumed:
            return Reply(remark="the transaction was resumed before; nothing changes")
        self._resumed[log_offset] = None
        result = await self._pipeline.store(shapes.resumed(record))
        if not result.log_offsets:
            self._resumed.pop(log_offset, None)
        while len(self._resumed) > RESUMED_MAX:
            del self._resumed[next(iter(self._resumed))]
        return answer(result)

    async def _current_term(self) -> Term:
        """Return the ledger's term, waiting for it after a start; raises Refusal on a slave."""
        if self._is_master and self._term is None:
            await self._turned.wait()
        if self._term is None:
            raise not_master()
        return self._term

    # the work of a master

    async def _begin(self) -> Term:
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
        return Term(halves, desk, checks)

    async def _work(self, term: Term) -> None:
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

    def _save(self, term: Term, saving: _Saving) -> _Saving:
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
