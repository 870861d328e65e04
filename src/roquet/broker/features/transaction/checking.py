"""Asking back: which undecided halves a round of checks asks about, moves on, or gives up.

    due, a producer of its group is connected ─▶ stored again with one more check, then asked (39)
    due, nobody of its group is connected ─────▶ left alone: nobody was asked, so it does not count
    asked transactionCheckMax times, or older than the log may get ─▶ TRANS_CHECK_MAX_TIME_TOPIC
    undecided for long, asked or not ──────────▶ stored again, so that the offsets can pass it

Knows nothing of END_TRANSACTION: the answers come to the feature. Unlike Apache's, a round does not count
a check that reached no producer, and waits longer from check to check. Reference:
TransactionalMessageServiceImpl.check, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from roquet.broker.core.sessions import Sessions
from roquet.broker.core.topics import Topics
from roquet.broker.features.transaction import shapes
from roquet.broker.features.transaction.desk import (
    APPEND_BYTES_MAX,
    APPEND_COUNT_MAX,
    GIVEN_UP,
    Desk,
    Moving,
)
from roquet.broker.features.transaction.halves import Half, Halves
from roquet.broker.features.transaction.reading import Queues, backoff_ms
from roquet.model.ids import offset_id
from roquet.model.message import Host, parse_properties
from roquet.model.names import TRANS_CHECK_MAX_TOPIC
from roquet.ports import Clock
from roquet.store.format.record import Record, decode
from roquet.transport.link import Link
from roquet.wire.requests.transaction import CheckTransaction

log = logging.getLogger("roquet.broker")

HELD_SECONDS_MAX: Final = 1_800.0
"""How long one half may keep the saved offsets back, and with them what a restart reads."""

GRACE_SECONDS: Final = 3_600.0
"""How long producers have to come back before an old half that nobody was asked about is given up."""


class CheckRules(NamedTuple):
    """The settings of a round."""

    interval_ms: int
    checks_max: int
    age_ms_max: int


class _Asking(NamedTuple):
    """A half that goes on: what is stored, and whom it is asked of (nobody when it only moves on)."""

    half: Half
    record: Record
    moving: Moving
    link: Link | None


class Checks:
    """The rounds of one ledger."""

    def __init__(
        self,
        halves: Halves,
        desk: Desk,
        store: Queues,
        sessions: Sessions,
        topics: Topics,
        clock: Clock,
        host: Host,
        rules: Callable[[], CheckRules],
    ) -> None:
        self._halves = halves
        self._desk = desk
        self._store = store
        self._sessions = sessions
        self._topics = topics
        self._clock = clock
        self._host = host
        self._rules = rules
        self._turns = 0

    async def run_round(self) -> None:
        """Look at every half whose time has come, the oldest first."""
        now = self._clock.monotonic()
        chosen = [half for half in self._halves.open.values() if half.due <= now or self._holds(half, now)]
        chosen.sort(key=lambda half: half.queue_offset)
        asking: list[_Asking] = []
        size = 0
        for half in chosen:
            going = await self._look_at(half, now)
            if going is None:
                continue
            if asking and (
                len(asking) == APPEND_COUNT_MAX or size + len(going.record.body) > APPEND_BYTES_MAX
            ):
                await self._ask(asking)
                asking, size = [], 0
            asking.append(going)
            size += len(going.record.body)
        if asking:
            await self._ask(asking)

    async def _look_at(self, half: Half, now: float) -> _Asking | None:
        """Return how a half goes on; None when it is decided, given up or left alone."""
        data = await self._store.record_at(half.log_offset)
        if half.is_busy or self._halves.open.get(half.queue_offset) is not half:
            return None
        if data is None:
            log.warning("the half at %d of %s is no longer in the log: given up", half.log_offset, half.topic)
            self._halves.close(half, GIVEN_UP)
            return None
        record = decode(data)
        properties = parse_properties(bytes(record.properties).decode(errors="replace"))
        rules = self._rules()
        first = half.offsets[0]
        if half.due > now:
            return _Asking(half, record, Moving(half, shapes.again(record, first, half.check_times)), None)
        link = self._choose(properties.get(shapes.GROUP, ""))
        is_old = self._clock.now_ms() - record.born_ms > rules.age_ms_max
        had_its_chance = half.check_times > 0 or now - half.known_since > GRACE_SECONDS
        is_hopeless = shapes.is_torn(properties)
        if is_hopeless or half.check_times >= rules.checks_max or (is_old and had_its_chance):
            await self._give_up(half, record)
            return None
        if link is None:
            half.due = now + rules.interval_ms / 1000
            if not self._holds(half, now):
                return None
            return _Asking(half, record, Moving(half, shapes.again(record, first, half.check_times)), None)
        return _Asking(half, record, Moving(half, shapes.again(record, first, half.check_times + 1)), link)

    async def _ask(self, asking: list[_Asking]) -> None:
        """Store the halves again and send the questions; when the log refuses, the next round tries again."""
        # While the records of the others were read, an end may have come for some of these.
        asking = [each for each in asking if self._is_free(each.half)]
        if not asking:
            return
        result = await self._desk.move([each.moving for each in asking])
        if not result.log_offsets:
            log.error("%d halves could not be stored again: %s", len(asking), result.reason)
            return
        interval_ms = self._rules().interval_ms
        for each in asking:
            if each.link is not None:
                half = each.half
                half.check_times += 1
                half.due = self._clock.monotonic() + backoff_ms(half.check_times, interval_ms) / 1000
                self._send(each, each.link, result.store_ms)

    def _send(self, asked: _Asking, link: Link, store_ms: int) -> None:
        half, draft = asked.half, asked.moving.draft
        unique_key = parse_properties(draft.properties.decode(errors="replace")).get(shapes.UNIQUE_KEY)
        request = CheckTransaction(
            half.queue_offset,
            half.log_offset,
            asked.record.topic,
            unique_key,
            unique_key,
            offset_id(self._host, half.log_offset),
            self._topics.identity.broker_name,
        )
        link.send_one_way(
            request, shapes.question(draft, half.queue_offset, half.log_offset, store_ms, self._host)
        )

    async def _give_up(self, half: Half, record: Record) -> None:
        self._topics.create(TRANS_CHECK_MAX_TOPIC, 1, False)
        log.warning(
            "the transaction at %d for %s, asked about %d times, is given up; it lies in %s, to be resumed",
            half.log_offset, half.topic, half.check_times, TRANS_CHECK_MAX_TOPIC,
        )  # fmt: skip
        await self._desk.ended(half, GIVEN_UP, (shapes.given_up(record),))

    def _choose(self, group: str) -> Link | None:
        """Return a connected producer of the group that reads what it is sent, each in turn."""
        links = [link for link in self._sessions.producers.get(group, ()) if isinstance(link, Link)]
        ready = [link for link in links if link.is_open and not link.is_congested]
        self._turns += 1
        return ready[self._turns % len(ready)] if ready else None

    def _is_free(self, half: Half) -> bool:
        return not half.is_busy and self._halves.open.get(half.queue_offset) is half

    def _holds(self, half: Half, now: float) -> bool:
        return now - half.stored_at > HELD_SECONDS_MAX
