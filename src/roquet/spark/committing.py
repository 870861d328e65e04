"""The driver's part of exactly-once: a batch is committed, finished for somebody who died, or taken back.

    begin ─┬─ a batch is prepared ─▶ finish it: end its halves, `committed`
           ├─ ours was committed before ─▶ roll the new halves back: no second effect
           └─ else ─▶ `prepared` ═ commit point ═▶ end the halves ─▶ `committed`

Ending halves again is harmless at a Roquet broker. At others a half that is committed twice is stored
twice: there the target queues are looked through first, from where they ended before the commit point.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from roquet.client.errors import RoquetError, TimedOut
from roquet.client.producer.staging import Outcome, Place, Staging
from roquet.client.reader.reader import Reader
from roquet.model.message import SysFlag
from roquet.model.route import QueueName
from roquet.spark import manifest
from roquet.spark.ledger import Ledger, Turn
from roquet.spark.manifest import NO_EPOCH, Prepared, Run
from roquet.spark.outbox import Wires

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logging.getLogger("roquet.spark")

PLACE: Final = struct.Struct(">qq")
_BITS, _COMMITTED = int(SysFlag.TRANSACTION_MASK), int(SysFlag.TRANSACTION_COMMIT)

Handed = Mapping[str, Sequence[Run]]
"""What tasks have staged, by attempt."""


class Rules(NamedTuple):
    """What the options say of commits."""

    manifest_topic: str
    immunity_s: int
    on_apache: str


class _Driver(NamedTuple):
    """What a commit works with."""

    staging: Staging
    ledger: Ledger
    reader: Reader


def promise(broker: str) -> str:
    """Return what exactly-once means at a broker that is not a Roquet."""
    return (
        f"broker {broker} stores a row again when its commit is repeated: rows are delivered once as long as "
        "one driver at a time runs the query; a restart looks for those that are visible already. In which "
        "order the rows of a batch become visible is not promised there"
    )


async def commit(wires: Wires, rules: Rules, query: str, epoch: int, handed: Handed) -> None:
    """Make a batch visible, once; raises RoquetError, after which `commit` may be called again."""
    async with _opened(wires, rules, query) as driver:
        turn = await driver.ledger.begin()
        state = turn.state
        done = state.committed
        if state.prepared is not None:
            await _finish(driver, turn, state.prepared)
            done = max(done, state.prepared.epoch)
        if done >= epoch:
            keep = manifest.spared(state, epoch)
            log.warning("batch %d of query %s was committed before: nothing is sent again", epoch, query)
            await _give_up(driver.staging, [runs for stage, runs in handed.items() if stage not in keep])
            return
        runs = manifest.joined(handed.values())
        ends = await _ends(driver, runs)
        batch = await driver.ledger.prepare(turn, epoch, tuple(handed), runs, ends)
        await _end(driver.staging, runs, "commit")
        await driver.ledger.committed(turn, batch)
        log.info("batch %d of query %s is committed: %d rows", epoch, query, batch.rows)


async def abort(wires: Wires, rules: Rules, query: str, epoch: int, handed: Handed) -> None:
    """Take a batch back, unless its commit has begun; what cannot be taken back now stays invisible."""
    if not any(handed.values()):
        return
    try:
        async with _opened(wires, rules, query) as driver:
            # Taking the turn keeps a `prepared` that is still on its way from counting.
            turn = await driver.ledger.begin()
            keep = manifest.spared(turn.state, epoch)
            await _give_up(driver.staging, [runs for stage, runs in handed.items() if stage not in keep])
    except RoquetError as error:
        log.warning("batch %d of query %s is not taken back now: %s; its rows stay invisible unless its "
                    "commit had begun, and then a restart finishes it", epoch, query, error)  # fmt: skip


async def finish(wires: Wires, rules: Rules, query: str) -> int:
    """Finish a batch whose commit has begun; returns its number, -1 when there is none."""
    async with _opened(wires, rules, query) as driver:
        turn = await driver.ledger.begin()
        if turn.state.prepared is None:
            return NO_EPOCH
        await _finish(driver, turn, turn.state.prepared)
        return turn.state.prepared.epoch


async def roll_back(staging: Staging, runs: Iterable[Run]) -> None:
    """Take halves back; raises TransactionUnsettled."""
    await _end(staging, runs, "rollback")


# --- inside


@asynccontextmanager
async def _opened(wires: Wires, rules: Rules, query: str) -> AsyncIterator[_Driver]:
    async with wires.cluster() as cluster:
        bulk = wires.bulk(cluster)
        yield _Driver(
            Staging(bulk, wires.group, timeout_s=wires.timeout_s, retries=wires.retries),
            Ledger(bulk, rules.manifest_topic, query, wires.timeout_s),
            Reader(cluster),
        )


async def _finish(driver: _Driver, turn: Turn, batch: Prepared) -> None:
    """End the halves of a batch that is prepared, those that were ended before among them."""
    runs = await driver.ledger.runs_of(batch)
    if manifest.rows_of(runs) != batch.rows:
        raise AssertionError(f"batch {batch.epoch} has {manifest.rows_of(runs)} halves of {batch.rows}")
    visible = await _visible(driver, batch)
    left = [manifest.without(run, visible[run.broker]) if run.broker in visible else run for run in runs]
    log.warning("batch %d was committed by a driver that did not finish it: %d of %d rows are ended now",
                batch.epoch, manifest.rows_of(left), batch.rows)  # fmt: skip
    await _end(driver.staging, left, "commit")
    await driver.ledger.committed(turn, batch)


async def _give_up(staging: Staging, stages: Iterable[Sequence[Run]]) -> None:
    try:
        await roll_back(staging, manifest.joined(stages))
    except RoquetError as error:
        log.warning("staged rows stay, invisible, until brokers drop them: %s", error)


async def _end(staging: Staging, runs: Iterable[Run], outcome: Outcome) -> None:
    """End halves: brokers at the same time, those of one broker in their order."""

    async def at(of_broker: list[Run]) -> None:
        for run in of_broker:
            places = [Place(*place) for place in manifest.pairs_of(run)]
            await staging.end(run.broker, run.topic, places, outcome)

    brokers: dict[str, list[Run]] = {}
    for run in runs:
        brokers.setdefault(run.broker, []).append(run)
    done = await asyncio.gather(*map(at, brokers.values()), return_exceptions=True)
    for error in done:
        if error is not None:
            raise error


async def _ends(driver: _Driver, runs: Sequence[Run]) -> manifest.Ends:
    """Return where the target queues end that would have to be looked through by a successor."""
    ends: manifest.Ends = {}
    for broker, topic in sorted({(run.broker, run.topic) for run in runs}):
        if await driver.staging.ends_many(broker, topic):
            continue
        log.warning("delivery=exactly-once: %s", promise(broker))
        queues = [queue for queue in await driver.reader.queues(topic) if queue.broker_name == broker]
        offsets = await asyncio.gather(*map(driver.reader.max_offset, queues))
        ends.setdefault(topic, {})[broker] = {
            str(queue.queue_id): offset for queue, offset in zip(queues, offsets, strict=True)
        }
    return ends


async def _visible(driver: _Driver, batch: Prepared) -> dict[str, frozenset[int]]:
    """Return by broker the places of halves whose message is in its target queue already."""
    found: dict[str, set[int]] = {}
    for topic, broker, queue_id, start in manifest.target_ends(batch.ends):
        queue = QueueName(broker, queue_id, topic)
        if broker not in found:
            await driver.staging.catch_up(queue)
        places = found.setdefault(broker, set())
        offset, end = start, await driver.reader.max_offset(queue)
        while offset < end:
            page = await driver.reader.read(queue, offset, max=1024)
            places.update(
                message.record.prepared_log_offset
                for message in page.messages
                if message.record.sys_flag & _BITS == _COMMITTED
            )
            if page.next_offset <= offset:
                raise TimedOut(f"{queue} cannot be read beyond offset {offset}")
            offset = page.next_offset
    return {broker: frozenset(places) for broker, places in found.items()}
