"""Exactly once, on the writers as plain classes: whatever fails between write and commit, each row once.

A driver's death is a commit that stops at some point; its successor has nothing but the broker. Rows are
counted by key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from roquet.client.errors import RoquetError, TransactionUnsettled
from roquet.client.producer.staging import Outcome, Place, Staging
from roquet.spark import committing, manifest
from roquet.spark.ledger import Fenced, Ledger, Turn
from roquet.spark.sink import stream_writer_of, writer_of
from roquet.spark.staged import Mark, Staged, StagedBatchSink, StagedStreamSink, finish
from tests.peers import roquet as peer
from tests.spark.sinks import SCHEMA, Broken, breaking, counted, once, rows, visible

pytestmark = pytest.mark.process

_numbers = count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peer.RoquetNode]:
    node = peer.start_up(tmp_path_factory.mktemp("staged") / "store")
    yield node
    node.kill()


class Query:
    """A streaming query with a topic of its own; each call of `driver` is a new process in effect."""

    def __init__(self, namesrv: str) -> None:
        number = next(_numbers)
        self.namesrv, self.topic, self.name = namesrv, f"staged-{number}", f"query-{number}"
        self._attempts = count()

    def driver(self, **options: str) -> StagedStreamSink:
        given = {"namesrv": self.namesrv, "topic": self.topic, "delivery": "exactly-once", **options}
        made = stream_writer_of(given, SCHEMA, False)
        assert isinstance(made, StagedStreamSink)
        return made

    def stage(self, epoch: int, first: int, rows_count: int, partition: int = 0) -> Staged:
        mark = Mark(self.name, epoch, partition, next(self._attempts))
        return self.driver()._stages.stage(rows(first, rows_count), mark)

    def commit(self, epoch: int, *staged: Staged) -> None:
        self.driver().commit(list(staged), epoch)

    def abort(self, epoch: int, *staged: Staged | None) -> None:
        self.driver().abort(list[WriterCommitMessage | None](staged), epoch)

    def counted(self) -> dict[str, int]:
        return counted(self.namesrv, self.topic)


@pytest.fixture
def query(node: peer.RoquetNode) -> Query:
    return Query(node.namesrv)


class Died(RoquetError):
    """What a driver ends with, in place of kill -9."""


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str, int], None]:
    """Let the next driver die at a call of a method: before it, after some calls."""

    def at(of: type, method: str, after: int) -> None:
        whole = getattr(of, method)
        calls = count()

        async def dying(*args: object, **more: object) -> object:
            if next(calls) == after:
                monkeypatch.setattr(of, method, whole)
                raise Died(f"in {method}")
            return await whole(*args, **more)

        monkeypatch.setattr(of, method, dying)

    return at


def test_nothing_is_seen_before_the_commit_and_all_of_it_after(query: Query) -> None:
    staged = [query.stage(0, 0, 300, 0), query.stage(0, 300, 200, 1), query.stage(0, 500, 0, 2)]
    assert [each.rows for each in staged] == [300, 200, 0]
    assert query.counted() == {}
    query.commit(0, *staged)
    assert query.counted() == once(0, 500)


def test_rows_say_whose_they_are(query: Query) -> None:
    query.commit(4, query.stage(4, 0, 1, 7))
    [[properties]] = visible(query.namesrv, query.topic, ("properties",))
    assert dict(properties)["ROQUET_STAGED"] == f"{query.name}/4/7/0"  # type: ignore[call-overload]


def test_an_aborted_batch_is_never_seen(query: Query) -> None:
    query.abort(0, query.stage(0, 0, 100), None)
    assert query.counted() == {}
    query.commit(0, query.stage(0, 0, 100))
    assert query.counted() == once(0, 100)


def test_a_task_that_throws_takes_its_rows_back(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[tuple[int, str]] = []
    whole = Staging.end

    async def seen(self: Staging, broker: str, topic: str, places: Sequence[Place], outcome: Outcome) -> None:
        await whole(self, broker, topic, places, outcome)
        ended.append((len(places), outcome))

    monkeypatch.setattr(Staging, "end", seen)
    with pytest.raises(Broken):
        query.driver()._stages.stage(breaking(rows(0, 2_000), 1), Mark(query.name, 0, 0, 0))
    assert ended == [(1_000, "rollback")]
    query.commit(0, query.stage(0, 0, 2_000))
    assert ended[1:] == [(2_000, "commit")]
    assert query.counted() == once(0, 2_000)


def test_a_commit_that_is_repeated_has_no_second_effect(query: Query) -> None:
    staged = query.stage(0, 0, 100)
    query.commit(0, staged)
    query.commit(0, staged)
    query.commit(0, query.stage(0, 0, 100))
    assert query.counted() == once(0, 100)


def test_an_older_batch_that_is_replayed_has_no_second_effect(query: Query) -> None:
    for epoch in range(3):
        query.commit(epoch, query.stage(epoch, epoch * 10, 10))
    query.commit(1, query.stage(1, 10, 10))
    assert query.counted() == once(0, 30)


def test_a_duplicate_of_a_task_that_ran_beside_it_is_never_seen(query: Query) -> None:
    first, second = query.stage(0, 0, 100), query.stage(0, 0, 100)
    assert first.stage != second.stage
    query.commit(0, second)
    assert query.counted() == once(0, 100)


def test_a_driver_that_dies_before_the_commit_leaves_nothing(query: Query) -> None:
    query.stage(0, 0, 100)  # its places die with the driver
    query.commit(0, query.stage(0, 0, 100))
    assert query.counted() == once(0, 100)


DEATHS = [
    pytest.param(Ledger, "begin", 0, False, id="before-it-begins"),
    pytest.param(Ledger, "prepare", 0, False, id="before-the-commit-point"),
    pytest.param(Ledger, "_append", 1, False, id="before-the-parts"),
    pytest.param(Ledger, "_append", 2, False, id="between-parts-and-commit-point"),
    pytest.param(Ledger, "_records", 1, True, id="right-after-the-commit-point"),
    pytest.param(Staging, "end", 0, True, id="before-the-first-end"),
    pytest.param(Staging, "_end_many", 4, True, id="between-the-ends"),
    pytest.param(Ledger, "committed", 0, True, id="before-it-says-done"),
]


@pytest.mark.parametrize(("of", "method", "after", "is_committed"), DEATHS)
def test_whoever_dies_where_it_wants_the_successor_has_each_row_once(
    query: Query,
    dies: Callable[[type, str, int], None],
    monkeypatch: pytest.MonkeyPatch,
    of: type,
    method: str,
    after: int,
    is_committed: bool,
) -> None:
    monkeypatch.setattr("roquet.client.producer.staging.HALVES_MAX", 10)
    first = query.stage(0, 0, 100)
    dies(of, method, after)
    with pytest.raises((Died, TransactionUnsettled)):
        query.commit(0, first)
    assert set(query.counted().values()) <= {1}
    query.abort(0, first)  # Spark does so after a commit that failed
    if not is_committed:
        assert query.counted() == {}
    query.commit(0, query.stage(0, 0, 100))
    assert query.counted() == once(0, 100)
    query.commit(1, query.stage(1, 100, 50))
    assert query.counted() == once(0, 150)


def test_a_successor_that_skips_the_batch_finishes_it_all_the_same(
    query: Query, dies: Callable[[type, str, int], None]
) -> None:
    dies(Staging, "end", 0)
    with pytest.raises((Died, TransactionUnsettled)):
        query.commit(0, query.stage(0, 0, 100))
    query.commit(1, query.stage(1, 100, 50))
    assert query.counted() == once(0, 150)


def test_a_driver_that_lost_its_turn_commits_nothing(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = query.stage(0, 0, 100), query.stage(0, 0, 100)
    whole = Ledger.prepare

    async def overtaken(
        self: Ledger,
        turn: Turn,
        epoch: int,
        stages: Sequence[str],
        runs: Sequence[manifest.Run],
        ends: manifest.Ends,
    ) -> manifest.Prepared:
        monkeypatch.setattr(Ledger, "prepare", whole)
        wires, rules = query.driver()._stages.wires, query.driver()._stages.rules
        await committing.commit(wires, rules, query.name, 0, {quick.stage: quick.runs})
        return await whole(self, turn, epoch, stages, runs, ends)

    monkeypatch.setattr(Ledger, "prepare", overtaken)
    with pytest.raises(Fenced, match="another driver has begun"):
        query.commit(0, slow)
    query.abort(0, slow)
    assert query.counted() == once(0, 100)


def test_an_abort_keeps_a_late_commit_point_from_counting(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The `prepared` of a driver may be on its way while Spark aborts the batch already."""
    staged = query.stage(0, 0, 100)
    whole = Ledger._append

    async def held_up(self: Ledger, body: bytes, tag: str) -> int:
        if b'"prepared"' in body:
            monkeypatch.setattr(Ledger, "_append", whole)
            stages = query.driver()._stages
            await committing.abort(stages.wires, stages.rules, query.name, 0, {staged.stage: staged.runs})
        return await whole(self, body, tag)

    monkeypatch.setattr(Ledger, "_append", held_up)
    with pytest.raises(Fenced):
        query.commit(0, staged)
    query.commit(0, query.stage(0, 0, 100))
    assert query.counted() == once(0, 100)


def test_halves_are_marked_so_that_no_broker_asks_about_them(query: Query) -> None:
    staged = query.driver(transactionTimeout="7m")._stages.stage(rows(0, 1), Mark(query.name, 0, 0, 0))
    query.commit(0, staged)
    [[properties]] = visible(query.namesrv, query.topic, ("properties",))
    assert dict(properties)["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "420"  # type: ignore[call-overload]


def test_a_broker_that_is_killed_meanwhile_loses_nothing_of_it(
    tmp_path: Path, dies: Callable[[type, str, int], None]
) -> None:
    first = peer.start_up(tmp_path / "store")
    query = Query(first.namesrv)
    names, broker = (int(each.rpartition(":")[2]) for each in (first.namesrv, first.broker))
    nodes = [first]
    try:
        staged = query.stage(0, 0, 1_000)
        for death in ("end", ""):
            nodes[-1].kill()
            nodes.append(peer.start_up(tmp_path / "store", names, broker))
            if death:
                dies(Staging, death, 0)
                with pytest.raises((Died, TransactionUnsettled)):
                    query.commit(0, staged)
            else:
                query.commit(0, query.stage(0, 0, 1_000))
        assert query.counted() == once(0, 1_000)
    finally:
        nodes[-1].kill()


def test_rows_become_visible_in_the_order_of_the_table(query: Query) -> None:
    driver = query.driver(queueId="2", onApache="refuse")
    staged = [driver._stages.stage(rows(first, 700), Mark(query.name, 0, first, 0)) for first in (0, 700)]
    driver.commit(list(staged), 0)
    found = visible(query.namesrv, query.topic, ("queue_id", "keys"))
    assert found == [(2, [str(number)]) for number in range(1_400)]


def test_a_batch_write_has_a_name_and_under_it_one_effect(node: peer.RoquetNode) -> None:
    options = {
        "namesrv": node.namesrv,
        "topic": "batch-write",
        "delivery": "exactly-once",
        "queryId": "load-7",
    }
    for _ in range(2):
        writer = writer_of(options, SCHEMA, False)
        assert isinstance(writer, StagedBatchSink)
        staged = writer._stages.stage(rows(0, 50), Mark("load-7", 0, 0, 0))
        writer.commit([staged])
    assert counted(node.namesrv, "batch-write") == once(0, 50)
    nameless = [writer_of({**options, "queryId": name}, SCHEMA, False) for name in ("a", "b")]
    assert len({writer._stages.query for writer in nameless}) == 2  # type: ignore[attr-defined]


def test_a_batch_write_whose_driver_died_can_be_finished(
    query: Query, dies: Callable[[type, str, int], None]
) -> None:
    dies(Staging, "end", 0)
    with pytest.raises((Died, TransactionUnsettled)):
        query.commit(0, query.stage(0, 0, 100))
    stages = query.driver()._stages
    assert finish(stages.wires, stages.rules, query.name) == 0
    assert query.counted() == once(0, 100)
    assert finish(stages.wires, stages.rules, query.name) == manifest.NO_EPOCH


def test_queries_that_share_a_manifest_do_not_see_each_other(node: peer.RoquetNode) -> None:
    queries = [Query(node.namesrv) for _ in range(3)]
    for epoch in range(4):
        for query in queries:
            query.commit(epoch, query.stage(epoch, epoch * 5, 5))
    assert all(query.counted() == once(0, 20) for query in queries)


def test_two_hundred_thousand_rows_through_every_failure_each_once(
    query: Query, caplog: pytest.LogCaptureFixture, dies: Callable[[type, str, int], None]
) -> None:
    """20 batches of 2 × 5,000 rows; each meets one of the failures above, and is run again as Spark does."""
    caplog.set_level(logging.ERROR, "roquet.spark")
    size = 5_000
    for epoch in range(20):
        first = epoch * 2 * size
        match epoch % 5:
            case 0:
                with pytest.raises(Broken):
                    query.driver()._stages.stage(
                        breaking(rows(first, size), 3), Mark(query.name, epoch, 0, 99)
                    )
            case 1:
                query.stage(epoch, first, 500)  # lost with its executor, or too late to be asked for
            case 2:
                dies(Staging, "end", 0)
            case 3:
                dies(Ledger, "committed", 0)
        staged = [query.stage(epoch, first, size), query.stage(epoch, first + size, size, 1)]
        if epoch % 5 in (2, 3):
            with pytest.raises((Died, TransactionUnsettled)):
                query.commit(epoch, *staged)
            query.abort(epoch, *staged)
            staged = [query.stage(epoch, first, 1_000)]  # what is staged now must not matter
        query.commit(epoch, *staged)
        if epoch % 5 == 4:
            query.commit(epoch, *staged)
            query.abort(epoch, *staged)
    assert query.counted() == once(0, 20 * 2 * size)
