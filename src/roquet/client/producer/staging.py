"""Halves in bulk: messages that stay invisible until somebody, perhaps in another process, ends them.

    stage ─▶ halves at brokers ─▶ their places ─▶ (a commit point of the caller's) ─▶ end: commit, rollback

Unlike `transaction`, nobody here answers a broker that asks: the halves carry a time in which it does not
(CHECK_IMMUNITY_TIME_IN_SECONDS), and end by their places alone. A Roquet broker takes and ends many halves
in one request, and ending one twice has one effect; Apache's takes them singly and a second commit there
stores the message again, which is why `end` tries a commit again only where that is harmless.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple, TypeVar

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.bulk import pair
from roquet.client.core.choose import always
from roquet.client.core.sending import HALF_FLAG, transaction_pairs
from roquet.client.errors import Busy, Refused, RoquetError, TimedOut, TransactionUnsettled, Unreachable
from roquet.client.producer.bulk import Bulk
from roquet.client.producer.parcel import Parcel
from roquet.client.producer.transaction import NUMBERS
from roquet.model.ids import parse_offset_id
from roquet.model.names import HALF_TOPIC
from roquet.model.route import QueueName
from roquet.wire.codes import Code
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound
from roquet.wire.requests.send import StageHalves
from roquet.wire.requests.transaction import EndHalves, EndTransaction

Outcome = Literal["commit", "rollback"]

STAGERS_MAX: Final = 64
"""Requests that stage, or end single halves, under way at once."""

LOG_OFFSET_CHARS: Final = 16
"""The end of an offset id."""

HALVES_MAX: Final = 4_096
"""Halves that one request of ours ends."""

PAUSE_S: Final = 0.2
CATCH_UP_S: Final = 60
IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"

_PLACE: Final = struct.Struct(">qq")

Item = TypeVar("Item")


class Place(NamedTuple):
    """Where a half lies at its broker."""

    queue_offset: int
    """its offset in the broker's queue of halves"""
    log_offset: int


class Staged(NamedTuple):
    """A half that a broker has."""

    broker: str
    place: Place


class _Load(NamedTuple):
    """Halves that go together, and which rows they are."""

    parcel: Parcel
    target: QueueName | None
    rows: Sequence[int]


class Staging:
    """Stages and ends halves of one producer group."""

    def __init__(self, bulk: Bulk, group: str, *, timeout_s: float, retries: int) -> None:
        self._bulk = bulk
        self._cluster: Cluster = bulk.cluster
        self._clock = self._cluster.ports.clock
        self._group = group
        self._timeout_s = timeout_s
        self._retries = retries
        self._many: dict[str, bool] = {}

    async def stage(
        self,
        topic: str,
        bodies: Sequence[bytes],
        texts: Sequence[str],
        targets: Sequence[QueueName | None],
        immunity_s: int,
        found: dict[int, Staged],
    ) -> None:
        """Send halves and note in `found` which row lies where, as the answers come.

        `targets` are the queues that rows must go to; empty when any will do for all of them. Raises the
        first error once nothing is under way any more: what is in `found` then can be ended.
        """
        own = "".join(pair(name, value) for name, value in transaction_pairs(self._group).items())
        own += pair(IMMUNITY, str(immunity_s))
        texts = [own + text for text in texts]
        brokers = {queue.broker_name for queue in await self._bulk.queues(topic)}
        if all([await self.ends_many(broker, topic) for broker in sorted(brokers)]):
            await self._stage_many(topic, bodies, texts, targets, found)
            return

        async def one(row: int) -> None:
            parcel = self._bulk.pack_one(topic, bodies[row], texts[row], flag=HALF_FLAG)
            target = targets[row] if targets else None
            receipt = await self._bulk.post(parcel, None if target is None else always(target))
            _, log_offset = parse_offset_id(receipt.offset_id)
            found[row] = Staged(receipt.broker, Place(receipt.queue_offset, log_offset))

        await _each(range(len(bodies)), one)

    async def _stage_many(
        self,
        topic: str,
        bodies: Sequence[bytes],
        texts: Sequence[str],
        targets: Sequence[QueueName | None],
        found: dict[int, Staged],
    ) -> None:
        by_target: dict[QueueName | None, list[int]] = {} if targets else {None: list(range(len(bodies)))}
        for row, target in enumerate(targets):
            by_target.setdefault(target, []).append(row)
        loads: list[_Load] = []
        for target, rows in by_target.items():
            some = (bodies, texts) if not targets else ([bodies[r] for r in rows], [texts[r] for r in rows])
            start = 0
            for parcel in self._bulk.pack(topic, *some, StageHalves, HALF_FLAG):
                loads.append(_Load(parcel, target, rows[start : start + parcel.count]))
                start += parcel.count

        async def post(load: _Load) -> None:
            pick = None if load.target is None else always(load.target)
            receipt = await self._bulk.post(load.parcel, pick)
            log_offsets = [int(each[-LOG_OFFSET_CHARS:], 16) for each in receipt.offset_id.split(",")]
            for number, (row, log_offset) in enumerate(zip(load.rows, log_offsets, strict=True)):
                found[row] = Staged(receipt.broker, Place(receipt.queue_offset + number, log_offset))

        await _each(loads, post)

    async def end(self, broker: str, topic: str, places: Sequence[Place], outcome: Outcome) -> None:
        """End halves of one broker in their order; raises TransactionUnsettled when one is not confirmed."""
        if not places:
            return
        try:
            if await self.ends_many(broker, topic):
                for start in range(0, len(places), HALVES_MAX):
                    await self._end_many(broker, topic, places[start : start + HALVES_MAX], outcome)
            else:
                await _each(places, lambda place: self._end_one(broker, topic, place, outcome))
        except RoquetError as error:
            raise TransactionUnsettled(
                f"the {outcome} of {len(places)} halves at {broker} was not confirmed: {error.what}",
                hint="whoever knows their places ends them again",
                code=error.code,
            ) from error

    async def ends_many(self, broker: str, topic: str) -> bool:
        """True for a broker that ends many halves at once, and each of them once: a Roquet."""
        known = self._many.get(broker)
        if known is None:
            try:
                await self._asked(broker, topic, EndHalves(self._group, 0, self._bulk.name(topic)), b"")
                known = True
            except Refused as refused:
                if refused.code != Code.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                known = False
            self._many[broker] = known
        return known

    async def catch_up(self, queue: QueueName) -> None:
        """Return once everything that the queue's broker has stored is in its queues, and can be read.

        Apache's files messages behind their storing. A half that is stored now is filed after them.
        """
        topic, broker = queue.topic, queue.broker_name
        found: dict[int, Staged] = {}
        await self.stage(topic, [b"-"], [""], [queue], CATCH_UP_S, found)
        last = found[0].place
        await self.end(broker, topic, [last], "rollback")
        deadline = self._clock.monotonic() + self._timeout_s
        view = await self._cluster.route(self._bulk.name(topic))
        while True:
            answer = await self._cluster.ask(view.master(broker), GetMaxOffset(HALF_TOPIC, 0))
            now = self._clock.monotonic()
            if OffsetFound.decode(answer.ext).offset > last.queue_offset:
                return
            if now >= deadline:
                raise TimedOut(f"{broker} does not file what it has stored: its queues are behind")
            await self._clock.sleep_until(now + PAUSE_S / 4)

    async def _end_many(self, broker: str, topic: str, places: Sequence[Place], outcome: Outcome) -> None:
        body = b"".join([_PLACE.pack(*place) for place in places])
        request = EndHalves(self._group, NUMBERS[outcome], self._bulk.name(topic))
        await self._asked(broker, topic, request, body)

    async def _end_one(self, broker: str, topic: str, place: Place, outcome: Outcome) -> None:
        name = self._bulk.name(topic)
        request = EndTransaction(
            self._group, place.queue_offset, place.log_offset, NUMBERS[outcome], "", name, True, None, broker
        )
        if outcome == "rollback":
            await self._asked(broker, topic, request, b"")
            return
        view = await self._cluster.publish_route(name)
        await self._cluster.ask(view.master(broker), request, timeout_s=self._timeout_s)

    async def _asked(self, broker: str, topic: str, request: EndHalves | EndTransaction, body: bytes) -> None:
        """Ask for what may be asked twice, again after a failure that may pass."""
        failures = 0
        while True:
            try:
                view = await self._cluster.publish_route(self._bulk.name(topic))
                await self._cluster.ask(view.master(broker), request, body, self._timeout_s)
                return
            except (Unreachable, TimedOut, Busy):
                failures += 1
                if failures > self._retries:
                    raise
                await self._clock.sleep_until(self._clock.monotonic() + PAUSE_S * 2 ** (failures - 1))
                with suppress(RoquetError):  # the broker may be elsewhere now; if not, the old route stays
                    await self._cluster.route(self._bulk.name(topic), fresh=True)


async def _each(items: Sequence[Item], work: Callable[[Item], Awaitable[None]]) -> None:
    """Work on items, some at a time and begun in their order; after an error no further one is begun."""
    left = iter(items)
    errors: list[BaseException] = []

    async def worker(left: Iterator[Item]) -> None:
        for item in left:
            if errors:
                return
            try:
                await work(item)
            except BaseException as error:
                errors.append(error)
                raise

    workers = [asyncio.ensure_future(worker(left)) for _ in range(min(STAGERS_MAX, len(items)))]
    try:
        await asyncio.gather(*workers, return_exceptions=True)
    except asyncio.CancelledError:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        raise
    if errors:
        raise errors[0]
